package mount

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// DefaultGrace is how long a mount whose owner is gone stays in the archive
// before it is deleted, where CollectorConfig names no other time.
const DefaultGrace = 30 * 24 * time.Hour

// Owner is whom a mount belongs to: a project, or a user where there is none,
// and in it an agent or a session, where it is one's.
type Owner struct {
	Project access.ProjectID
	User    access.UserID // where Project is empty
	Agent   access.AgentID
	Session access.SessionID
}

// OwnerOf is whom a row belongs to.
func OwnerOf(r Row) Owner {
	project, user := belongs(r.Scope)
	return Owner{Project: project, User: user, Agent: r.Agent, Session: r.Session}
}

// ArchivedByCollector is Row.ArchivedBy of what a [Collector] has put away. Nobody else has that name.
const ArchivedByCollector = access.UserID(ReservedPrefix + "collector")

// Collector deletes the mounts whose owner is gone, in two steps. First such
// a mount is put in the archive, where nothing is lost: whoever uses it takes
// it out again. Once it has been there for a time, and its owner is gone still,
// it is deleted, with what it held. A mount whose owner is there is never
// deleted here, be it in the archive for years; and one that was put away here
// is taken out again once its owner is back. Only the time counts for which an
// owner was seen to be gone: what a user has put away is put away anew.
//
// A pass may be broken off at any step, by a crash too: the next one goes on.
// Passes of several processes don't hurt one another.
type Collector struct {
	store Store
	purge *Purger
	gone  func(context.Context, Owner) (access.Tri, error)
	grace time.Duration
	now   func() time.Time
}

// CollectorConfig is the configuration of a [Collector].
type CollectorConfig struct {
	Store  Store   // required
	Purger *Purger // over the same store; required
	// Gone says whether an owner is gone for good: access.Yes where its
	// project, or its user where it has none, is, or the agent or the session
	// it names. Where that can't be found out it is access.Unknown, with or
	// without an error, and the mount stays. Required. It is asked once in a
	// pass for each owner, and once more before anything is deleted.
	Gone func(context.Context, Owner) (access.Tri, error)
	// Grace is how long a mount stays in the archive, by the store's clock.
	// That must be longer than any work takes: one that began before still
	// writes there. 0 = DefaultGrace.
	Grace time.Duration
	Now   func() time.Time // says in a dry run what is due; nil = time.Now
}

// NewCollector returns a collector. The error is a [*access.FieldError].
func NewCollector(c CollectorConfig) (*Collector, error) {
	switch {
	case c.Store == nil:
		return nil, &access.FieldError{Field: "Store", Rule: "must be set"}
	case c.Purger == nil:
		return nil, &access.FieldError{Field: "Purger", Rule: "must be set"}
	case c.Gone == nil:
		return nil, &access.FieldError{Field: "Gone", Rule: "must be set"}
	case c.Grace < 0:
		return nil, &access.FieldError{Field: "Grace", Rule: "must not be negative"}
	case c.Grace == 0:
		c.Grace = DefaultGrace
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Collector{c.Store, c.Purger, c.Gone, c.Grace, c.Now}, nil
}

// Fate is what a pass did with a mount.
type Fate uint8

// The fates. The zero value is none: a mount whose owner is there is not spoken of.
const (
	PutAway Fate = 1 // put in the archive now
	Waits   Fate = 2 // in the archive already, and not for long enough
	Deleted Fate = 3 // its row and what it held
	Kept    Fate = 4 // whether its owner is gone could not be found out
	Changed Fate = 5 // used, or deleted, by somebody while it was looked at
	Undone  Fate = 6 // the error says why; what is left of a deleted one the next pass removes, or [Purger.Sweep]
	Back    Fate = 7 // taken out of the archive: its owner is there
)

func (f Fate) String() string {
	switch f {
	case PutAway:
		return "put away"
	case Waits:
		return "waits"
	case Deleted:
		return "deleted"
	case Kept:
		return "kept"
	case Changed:
		return "changed"
	case Undone:
		return "not done"
	case Back:
		return "back"
	}
	return "none"
}

// CollectOptions are the options of [Collector.Collect].
type CollectOptions struct {
	After  ID   // goes on from behind this mount; empty = from the first
	Limit  int  // looks at that many mounts, at most [MaxListed]; 0 = MaxListed
	DryRun bool // does nothing, and says what it would do, by CollectorConfig.Now
}

// Collected is what came of a pass, or a part of one.
type Collected struct {
	Looked int
	Last   ID  // for CollectOptions.After; empty: that were all
	Swept  int // what was left of deleted mounts, and is removed now; at the end of a pass
	Items  []CollectedItem
}

// CollectedItem is a mount whose owner is gone, or may be.
type CollectedItem struct {
	Row  Row // as it was when it was looked at
	Fate Fate
	Err  error // of Kept and Undone, where there is one
}

// Collect looks at the next mounts of all scopes, and does with each the next
// step that it is due for; with the last one it removes what is left of mounts that were deleted. One that can't be seen to keeps nobody from the
// others; the error joins what was said of them. Where ctx ends it stops, and
// the report has what was done.
func (c *Collector) Collect(ctx context.Context, o CollectOptions) (Collected, error) {
	if o.Limit == 0 {
		o.Limit = MaxListed
	}
	rows, err := c.store.Scan(ctx, o.After, o.Limit)
	if err != nil {
		return Collected{Last: o.After}, fmt.Errorf("mount: collect: %w", err)
	}
	all := Collected{Last: o.After}
	var faults []error
	asked := map[Owner]answer{}
	for _, r := range rows {
		if ctx.Err() != nil {
			return all, errors.Join(append(faults, context.Cause(ctx))...)
		}
		all.Looked, all.Last = all.Looked+1, r.ID
		item := CollectedItem{Row: r}
		if item.Fate, item.Err = c.one(ctx, r, asked, o.DryRun); item.Fate == 0 {
			continue
		}
		if item.Err != nil {
			faults = append(faults, fmt.Errorf("mount: collect %s: %w", r.ID, item.Err))
		}
		all.Items = append(all.Items, item)
	}
	if len(rows) < o.Limit {
		all.Last = ""
		if !o.DryRun {
			faults = append(faults, c.sweep(ctx, &all.Swept))
		}
	}
	return all, errors.Join(faults...)
}

// sweep goes through all that deleted mounts have left.
func (c *Collector) sweep(ctx context.Context, swept *int) error {
	var faults []error
	for after := ID(""); ctx.Err() == nil; {
		last, n, err := c.purge.Sweep(ctx, after, MaxListed)
		*swept, faults = *swept+n, append(faults, err)
		if last == "" {
			break
		}
		after = last
	}
	return errors.Join(append(faults, ctx.Err())...)
}

// answer is what was said of an owner.
type answer struct {
	gone access.Tri
	err  error
}

func (c *Collector) ask(ctx context.Context, who Owner) answer {
	gone, err := c.gone(ctx, who)
	if err != nil {
		gone = access.Unknown
	}
	return answer{gone, err}
}

func (c *Collector) one(ctx context.Context, r Row, asked map[Owner]answer, dry bool) (Fate, error) {
	who := OwnerOf(r)
	if who.Project == "" && who.User == "" { // of no scope: nobody can say
		return Kept, nil
	}
	said, known := asked[who]
	if !known {
		said = c.ask(ctx, who)
		asked[who] = said
	}
	ours := r.ArchivedBy == ArchivedByCollector
	switch {
	case said.gone == access.No && !ours:
		return 0, nil
	case said.gone == access.No:
		return c.change(ctx, r, Back, dry, false)
	case said.gone != access.Yes:
		return Kept, said.err
	case r.Archived() && !ours: // its time begins now
		return c.change(ctx, r, PutAway, dry, false, true)
	case !r.Archived():
		return c.change(ctx, r, PutAway, dry, true)
	case dry && c.now().Sub(r.ArchivedAt) < c.grace:
		return Waits, nil
	case dry:
		return Deleted, nil
	}
	if said = c.ask(ctx, who); said.gone != access.Yes { // what can't be undone is asked for again
		return Kept, said.err
	}
	return c.delete(ctx, r)
}

// change puts a mount in the archive or takes it out, one after the other.
func (c *Collector) change(ctx context.Context, r Row, fate Fate, dry bool, archived ...bool) (Fate, error) {
	if dry {
		return fate, nil
	}
	for _, is := range archived {
		next, err := c.store.Update(ctx, r.ID, Change{By: ArchivedByCollector, Version: r.Version, Archived: &is})
		var changed *VersionError
		switch {
		case errors.As(err, &changed), errors.Is(err, ErrNotFound):
			return Changed, nil
		case err != nil:
			return Undone, err
		}
		r = next
	}
	return fate, nil
}

func (c *Collector) delete(ctx context.Context, r Row) (Fate, error) {
	rows, err := c.store.Delete(ctx, Target{ID: r.ID, Version: r.Version, Archived: c.grace}, 1)
	if err != nil {
		return Undone, err
	}
	if len(rows) == 0 {
		now, err := c.store.Get(ctx, r.ID)
		switch {
		case errors.Is(err, ErrNotFound), err == nil && now.Version != r.Version:
			return Changed, nil
		case err != nil:
			return Undone, err
		}
		return Waits, nil
	}
	if _, err := c.purge.bury(ctx, []Tombstone{{ID: r.ID, Scope: r.Scope, Session: r.Session}}); err != nil {
		return Undone, err
	}
	return Deleted, nil
}
