package sessiontest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

// talk is the conversation whose turns are looked at.
const talk session.ConversationID = "c1"

// turn takes the next turn of a conversation, for an hour.
func (b *leaseBench) turn(of session.ConversationID, holder string) session.Lease {
	b.Helper()
	l := lease(session.LeaseTurn, string(of), holder)
	l.For = time.Hour
	return b.acquire(l)
}

// forTurn is a work lease on session s1 for a turn.
func forTurn(turn session.Lease, holder string) session.Lease {
	l := work("s1", holder, alice)
	l.Conversation, l.Turn = session.ConversationID(turn.Name), turn.Fence
	return l
}

// lost expects that no work can be had for a turn that nobody has.
func (b *leaseBench) lost(what string, l session.Lease) {
	b.Helper()
	got, err := b.leases.Acquire(b.Context(), l)
	if !errors.Is(err, session.ErrFenced) {
		b.Fatalf("%s: Acquire(%+v): got %+v and error %v, want ErrFenced", what, l, got, err)
	}
	if !strings.Contains(err.Error(), string(l.Conversation)) {
		b.Errorf("error %q does not name its subject %s", err, l.Conversation)
	}
}

// works expects that these are the works for turns of a conversation up to through, in this order, however many are asked for at a time.
func (b *leaseBench) works(of session.ConversationID, through int64, want ...session.Lease) {
	b.Helper()
	for _, limit := range []int{1, 2, 3, 100} {
		var all []session.Lease
		var last session.Lease
		for range len(want) + 1 {
			page, err := b.leases.Works(b.Context(), of, through, last, limit)
			if err != nil {
				b.Fatalf("Works: %v", err)
			}
			if len(page) > limit {
				b.Fatalf("Works: %d at once, want at most %d", len(page), limit)
			}
			all = append(all, page...)
			if len(page) < limit {
				break
			}
			last = page[len(page)-1]
		}
		b.same(fmt.Sprintf("works of %s up to %d, %d at a time", of, through, limit), bare(all), bare(want))
	}
}

// bare are leases without what was asked for, which is not part of what is kept.
func bare(all []session.Lease) []session.Lease {
	all = slices.Clone(all)
	for i := range all {
		all[i].Slots, all[i].For = 0, 0
	}
	return all
}

func turnChecks() []check[*leaseBench] {
	return []check[*leaseBench]{
		{"turn-held", "A work for a turn is acquired by whoever likes while that turn is held, with this fence; of any other there is none: ErrFenced, and nothing is taken.", func(b *leaseBench) {
			never := forTurn(session.Lease{Name: string(talk), Fence: 1}, "w1")
			b.lost("a turn that never was", never)
			one := b.turn(talk, "r1")
			b.acquire(forTurn(one, "w1"))
			b.acquire(forTurn(one, "w2"))
			later, other := forTurn(one, "w3"), forTurn(one, "w3")
			later.Turn++
			b.lost("a turn that is to come", later)
			other.Conversation = "c2"
			b.lost("another conversation's", other)
			for _, k := range single() {
				if k != session.LeaseTurn {
					b.lost("what is no turn", forTurn(b.acquire(lease(k, "c3", "r1")), "w3"))
				}
			}
			b.release(one)
			b.lost("a turn that has ended", forTurn(one, "w3"))
			two := b.turn(talk, "r2")
			b.lost("a turn that was taken over", forTurn(one, "w3"))
			b.acquire(forTurn(two, "w4"))
			b.clock.Step(2 * time.Hour)
			b.lost("a turn that has expired", forTurn(two, "w5"))
			three := b.turn(talk, "r2")
			b.lost("a turn that its holder has lost, and begun another", forTurn(two, "w5"))
			b.acquire(forTurn(three, "w6"))
			for _, l := range []session.Lease{one, two, three} {
				if got, err := b.leases.Works(b.Context(), talk, l.Fence, session.Lease{}, 100); err != nil || len(got) == 0 || got[len(got)-1].Turn > l.Fence {
					b.Errorf("works up to %d: %+v, error %v", l.Fence, got, err)
				}
			}
		}},
		{"turn-again", "Who has a work already for a turn that was lost does not get it again, and neither renews nor releases more or less than of any other work.", func(b *leaseBench) {
			one := b.turn(talk, "r1")
			w := b.acquire(forTurn(one, "w1"))
			again := b.acquire(forTurn(one, "w1"))
			if again.Fence != w.Fence {
				b.Errorf("fence %d, want %d", again.Fence, w.Fence)
			}
			b.release(one)
			b.turn(talk, "r2")
			b.lost("had again", forTurn(one, "w1"))
			w = b.renew(again)
			b.has(w)
			b.works(talk, one.Fence, w)
			b.release(w)
			b.works(talk, one.Fence)
		}},
		{"turn-refused", "A turn that was lost is told before anything else, such as that there is no slot; what is refused takes none.", func(b *leaseBench) {
			one := b.turn(talk, "r1")
			b.release(one)
			b.acquire(work("s2", "w1", alice))
			b.lost("with a slot", forTurn(one, "w2"))
			b.acquire(work("s3", "w3", alice))
			b.lost("without a slot", forTurn(one, "w2"))
			b.limited(work("s4", "w4", alice))
			b.clock.Step(2 * time.Minute)
			if got, err := b.leases.Expired(b.Context(), 10); err != nil || len(got) != 2 {
				b.Errorf("expired: %+v, error %v", got, err)
			}
			b.works(talk, one.Fence)
		}},
		{"turn-works", "Works lists those for the turns of a conversation up to a fence that were not released, expired or not, by turn, name and holder, in pages of any length.", func(b *leaseBench) {
			var want []session.Lease
			var turns []session.Lease
			for i, holder := range []string{"r1", "r2", "r3"} {
				turn := b.turn(talk, holder)
				turns = append(turns, turn)
				of := []session.Lease{}
				for _, on := range [][2]string{{"s2", "w1"}, {"s1", "w9"}, {"s1", "w3"}} {
					l := forTurn(turn, fmt.Sprint(on[1], "-", i))
					l.Name, l.For = on[0], time.Duration(i+1)*time.Minute
					of = append(of, b.acquire(l))
				}
				gone := b.acquire(forTurn(turn, fmt.Sprint("w4-", i)))
				b.release(gone)
				none := forTurn(turn, fmt.Sprint("w0-", i))
				none.Turn = 0
				b.acquire(none)
				b.release(turn)
				want = append(want, of[2], of[1], of[0])
			}
			another := b.turn("c2", "r1")
			others := b.acquire(forTurn(another, "w1"))
			b.clock.Step(90 * time.Second) // the first turn's have expired, and the others' have not
			for _, through := range []int64{-1, 0, turns[0].Fence - 1} {
				b.works(talk, through)
			}
			b.works(talk, turns[0].Fence, want[:3]...)
			b.works(talk, turns[1].Fence, want[:6]...)
			b.works(talk, turns[2].Fence+1000, want...)
			b.works("c2", another.Fence, others)
			b.works("c3", another.Fence)
			page, err := b.leases.Works(b.Context(), talk, turns[2].Fence, session.Lease{}, 2)
			if err != nil || len(page) != 2 {
				b.Fatalf("Works: %+v, %v", page, err)
			}
			b.release(page[1]) // between two pages
			rest, err := b.leases.Works(b.Context(), talk, turns[2].Fence, page[1], 100)
			if err != nil {
				b.Fatalf("Works: %v", err)
			}
			b.same("what comes after what was released", bare(rest), bare(want[2:]))
		}},
		{"turn-kept", "The conversation and the turn that a work is for are kept, renewed or not, and answered by Held and Expired; a conversation without a turn too.", func(b *leaseBench) {
			turn := b.turn(talk, "r1")
			with, without := forTurn(turn, "w1"), work("s2", "w2", alice)
			without.Conversation = "c2"
			for _, l := range []session.Lease{with, without} {
				l = b.acquire(l)
				b.has(l)
				b.clock.Step(time.Second)
				l = b.renew(l)
				b.has(l)
				l = b.acquire(l)
				b.clock.Step(time.Hour / 4)
				b.expired(10, l)
				b.release(l)
			}
		}},
		{"turn-input", "A turn is of a work lease with a conversation, and not negative; Works takes a conversation and a limit over 0: else it is a *access.FieldError.", func(b *leaseBench) {
			turn := b.turn(talk, "r1")
			wrong := func(what string, err error, field string) {
				b.Helper()
				var fe *access.FieldError
				if !errors.As(err, &fe) || fe.Field != field {
					b.Errorf("%s: got error %v, want a *access.FieldError for %s", what, err, field)
				}
			}
			negative, nobodys, chore := forTurn(turn, "w1"), forTurn(turn, "w1"), sweep("chore", "r1")
			negative.Turn, nobodys.Conversation, chore.Conversation, chore.Turn = -1, "", talk, turn.Fence
			for what, c := range map[string]struct {
				l     session.Lease
				field string
			}{"a negative turn": {negative, "Turn"}, "a turn of no conversation": {nobodys, "Conversation"}, "a chore's turn": {chore, "Turn"}} {
				_, err := b.leases.Acquire(b.Context(), c.l)
				wrong(what, err, c.field)
			}
			_, err := b.leases.Works(b.Context(), "", 1, session.Lease{}, 1)
			wrong("Works of no conversation", err, "conversation")
			for _, limit := range []int{0, -1} {
				_, err := b.leases.Works(b.Context(), talk, 1, session.Lease{}, limit)
				wrong(fmt.Sprint("Works, limit ", limit), err, "limit")
			}
		}},
		{"race-turn", "Of 50 who open works for a turn while it is taken over each is refused, or is found by who has taken it over.", func(b *leaseBench) {
			for round := range 5 {
				old := b.turn(talk, "r"+strconv.Itoa(round))
				var mu sync.Mutex
				seen, opened := map[string]bool{}, map[string]bool{}
				errs := parallel(racers, func(i int) error {
					if i == racers/2 {
						if err := b.leases.Release(b.Context(), old); err != nil {
							return err
						}
						l := lease(session.LeaseTurn, string(talk), "next")
						next, err := b.leases.Acquire(b.Context(), l)
						if err != nil {
							return err
						}
						found, err := b.leases.Works(b.Context(), talk, next.Fence-1, session.Lease{}, 1000)
						mu.Lock()
						defer mu.Unlock()
						for _, l := range found {
							seen[l.Holder] = true
						}
						return errors.Join(err, b.leases.Release(b.Context(), next))
					}
					l := forTurn(old, fmt.Sprint("w", round, "-", i))
					_, err := b.leases.Acquire(b.Context(), l)
					mu.Lock()
					defer mu.Unlock()
					opened[l.Holder] = err == nil
					if errors.Is(err, session.ErrFenced) {
						return nil
					}
					return err
				})
				if err := others(errs, isNil); err != nil {
					b.Errorf("%v", err)
				}
				for holder, is := range opened {
					if is && !seen[holder] {
						b.Errorf("round %d: work %s was opened for turn %d, and whoever took that over does not know of it", round, holder, old.Fence)
					}
				}
			}
		}},
	}
}
