package sqlstore

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// crowds have those of this process who append to one conversation wait for each other
// here, in turn: to wait for a lock of the database costs a connection, and more than what is
// done under it. Who has the turn takes along what those who wait have to append,
// if that only has to come at the end: what a statement and its COMMIT
// cost it costs once, for however many. The zero value is ready.
type crowds struct {
	mu sync.Mutex
	of map[access.ConversationID]*crowd
}

// crowd is who waits while somebody has the turn.
type crowd struct{ waiting []*guest }

// guest is one append in a crowd. Its state is guarded by the mutex of the crowds.
type guest struct {
	*appending
	told  chan told // holds one
	state guestState
	alone bool  // it was refused along with others, who may be to blame
	ended error // that of its context, where that has ended too late to leave
}

type guestState int

const (
	queued guestState = iota // among those who wait; it can leave
	taken                    // along by who has the turn; it can leave
	sent                     // to the database, or told: too late to leave
	left
)

// told is what a guest is told: that it has the turn, or what has become of it.
type told struct {
	turn bool
	done transcript.Committed
	err  error
}

// mostTogether is how many appends are one statement: with more of them there is little left that costs less.
const mostTogether = 100

// plain reports whether an append only has to come at the end, wherever that is by then.
func (g *guest) plain() bool {
	return !g.alone && len(g.entries) == 1 && g.Expect.IsZero() && g.After.IsZero() && g.Version == 0
}

// enter waits until g has the turn, or was taken along.
func (c *crowds) enter(ctx context.Context, g *guest) told {
	c.mu.Lock()
	if c.of == nil {
		c.of = map[access.ConversationID]*crowd{}
	}
	all := c.of[g.Conversation]
	if all == nil {
		c.of[g.Conversation] = &crowd{}
		c.mu.Unlock()
		return told{turn: true}
	}
	g.told = make(chan told, 1)
	all.waiting = append(all.waiting, g)
	c.mu.Unlock()
	select {
	case what := <-g.told:
		return what
	case <-ctx.Done():
	}
	c.mu.Lock()
	if g.state == queued {
		all.waiting = slices.DeleteFunc(all.waiting, func(other *guest) bool { return other == g })
	}
	late := g.state == sent
	if late {
		g.ended = ctx.Err()
	} else {
		g.state = left
	}
	c.mu.Unlock()
	if late {
		return <-g.told
	}
	return told{err: ctx.Err()}
}

// pass gives the turn to who waits longest for it.
func (c *crowds) pass(conversation access.ConversationID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.of[conversation]
	if len(all.waiting) == 0 {
		delete(c.of, conversation)
		return
	}
	next := all.waiting[0]
	all.waiting = slices.Delete(all.waiting, 0, 1)
	next.state = sent
	next.told <- told{turn: true}
}

// along takes those who wait and can go along with g, which has the turn.
func (c *crowds) along(g *guest) (guests []*guest) {
	if !g.plain() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes := g.bytes
	all := c.of[g.Conversation]
	all.waiting = slices.DeleteFunc(all.waiting, func(other *guest) bool {
		if len(guests)+1 == mostTogether || !other.plain() || other.Fence != g.Fence || other.MaxBytes != g.MaxBytes ||
			bytes+other.bytes > transcript.MaxBatchBytes {
			return false
		}
		other.state = taken
		bytes += other.bytes
		guests = append(guests, other)
		return true
	})
	return guests
}

// send reports whether all of them are there still. Then none leaves any more.
func (c *crowds) send(guests []*guest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range guests {
		if g.state == left {
			return false
		}
	}
	for _, g := range guests {
		g.state = sent
	}
	return true
}

// back has them wait again, before all others: nothing has become of them. Whose context has ended meanwhile waits no more.
func (c *crowds) back(conversation access.ConversationID, guests []*guest, alone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	guests = slices.DeleteFunc(guests, func(g *guest) bool {
		if g.ended != nil {
			g.told <- told{err: g.ended}
		}
		return g.state == left || g.ended != nil
	})
	for _, g := range guests {
		g.state, g.alone = queued, alone
	}
	all := c.of[conversation]
	all.waiting = slices.Concat(guests, all.waiting)
}

// appendInTurn is append for who has the turn, and for whoever goes along.
func (s transcripts) appendInTurn(ctx context.Context, g *guest) (transcript.Committed, error) {
	crowds, conversation := &s.store.crowds, g.Conversation
	var guests []*guest
	var asked, gone, panics bool
	defer func() { // whoever goes along with a panic is not to wait for ever
		switch {
		case !panics:
		case !asked, gone:
			crowds.back(conversation, guests, false)
		default:
			for _, other := range guests {
				other.told <- told{err: s.said(session.ErrUnknown)}
			}
		}
	}()
	for {
		guests, asked, gone = crowds.along(g), false, false
		if len(guests) == 0 {
			return s.append(ctx, g.appending)
		}
		panics = true
		whole := together(append([]*guest{g}, guests...))
		t, err := s.appendAlone(ctx, whole, func() bool {
			asked, gone = true, !crowds.send(guests)
			return !gone
		})
		panics = false
		switch {
		case err == nil:
			for i, other := range guests {
				other.told <- told{done: whole.committed(t, i+1, i+2)}
			}
			return whole.committed(t, 0, 1), nil
		case !asked, gone: // nothing was sent
			crowds.back(conversation, guests, false)
			if !gone {
				return transcript.Committed{}, s.said(err)
			}
		case !errors.Is(err, session.ErrUnknown): // nothing was written, perhaps for what one of them asks for, and it is not known which
			crowds.back(conversation, guests, true)
			return s.append(ctx, g.appending)
		default:
			for _, other := range guests {
				other.told <- told{err: s.said(err)}
			}
			return transcript.Committed{}, s.said(err)
		}
	}
}

// together is all of them as one append, each with a version of its own.
func together(guests []*guest) *appending {
	first := guests[0]
	c := transcript.Change{Conversation: first.Conversation, Fence: first.Fence, MaxBytes: first.MaxBytes}
	var sealed []transcript.Sealed
	for _, g := range guests {
		e := &g.entries[0] // Append is the caller's, who may be gone
		c.Append, sealed = append(c.Append, e.NewEntry), append(sealed, e.Sealed)
	}
	a := newAppending(c, sealed)
	a.several = true
	return a
}
