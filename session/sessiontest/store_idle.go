package sessiontest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// TestTogether runs the suite of what a session.Store and the session.Leases
// of the same database promise of each other. open returns both, fresh and
// empty, that go by clock, and cleans up with t.Cleanup. opts may be nil.
func TestTogether(t *testing.T, open func(t *testing.T, clock *Clock) (session.Store, session.Leases), opts *Options) {
	t.Helper()
	runAll(t, idleChecks(), opts, func(t *testing.T, b bench) *togetherBench {
		store, leases := open(t, b.clock)
		return &togetherBench{&storeBench{b, store}, &leaseBench{b, leases}}
	})
}

// togetherBench is where a store and the leases beside it are checked.
type togetherBench struct {
	*storeBench
	at *leaseBench
}

// in is a work lease on r's session that is worked in r's sandbox.
func in(r room, holder string) session.Lease {
	l := work(string(r.session.ID), holder, alice)
	l.Sandbox, l.Slots = r.sandbox.ID, 100
	return l
}

// stop is the change that stops r's idle machine.
func stop(r room) session.Change {
	row := r.sandbox
	row.State = sandbox.Destroying
	return session.Change{Sandbox: &row, Idle: row.ID}
}

// busy expects that r's machine can't be stopped, and that nothing is written.
func (b *togetherBench) busy(r room, why string) {
	b.Helper()
	before := b.picture(r)
	c := stop(r)
	c.Bury = []sandbox.Tombstone{b.tombstone(alice)}
	if _, err := b.store.Commit(b.Context(), c); !errors.Is(err, sandbox.ErrWorking) || !strings.Contains(fmt.Sprint(err), string(r.sandbox.ID)) {
		b.Errorf("%s: got error %v, want sandbox.ErrWorking that names %s", why, err, r.sandbox.ID)
	}
	b.same("what is stored", b.picture(r), before)
}

// stops expects that r's machine can be stopped.
func (b *togetherBench) stops(r room) {
	b.Helper()
	c := stop(r)
	want := *c.Stamped(b.commit(c)).Sandbox
	b.same("sandbox", b.load(r.address()).Sandbox, want)
}

func idleChecks() []check[*togetherBench] {
	live := machine(sandbox.Live, alice)
	return []check[*togetherBench]{
		{"idle-alone", "A machine in which nobody works is stopped, and may be worked in again as soon as that is written. (Rule 11)", func(b *togetherBench) {
			r := b.room(live)
			b.stops(r)
			b.at.acquire(in(r, "w1"))
		}},
		{"idle-working", "A machine is not stopped while a work lease names its sandbox, expired or not, until the last of them is released: sandbox.ErrWorking, and nothing is written. (Rule 11)", func(b *togetherBench) {
			r := b.room(live)
			one, two := b.at.acquire(in(r, "w1")), b.at.acquire(in(r, "w2"))
			b.busy(r, "two works")
			b.at.release(one)
			b.busy(r, "one work")
			b.clock.Step(24 * time.Hour)
			b.busy(r, "a work whose lease expired a day ago: its processes may run")
			b.at.release(two)
			b.stops(r)
		}},
		{"idle-environment", "In an environment that several sessions borrow, the work of any of them keeps its machine from being stopped. (Rule 11)", func(b *togetherBench) {
			e := b.shared(live)
			one, two := b.borrower(e, nil), b.borrower(e, nil)
			l := b.at.acquire(in(two, "w1"))
			b.busy(one, "a work of the other session")
			b.at.release(l)
			b.stops(one)
		}},
		{"idle-others", "Leases of other sandboxes and of other kinds keep no machine from being stopped.", func(b *togetherBench) {
			r, other := b.room(live), b.room(live)
			b.at.acquire(in(other, "w1"))
			elsewhere := in(r, "w2") // of this session, and yet in another sandbox
			elsewhere.Sandbox = other.sandbox.ID
			b.at.acquire(elsewhere)
			nowhere := in(r, "w3")
			nowhere.Sandbox = ""
			b.at.acquire(nowhere)
			for _, k := range session.Kinds() {
				if k != session.LeaseWork {
					b.at.acquire(session.Lease{Kind: k, Name: string(r.session.ID), Holder: "r1", Replica: "r1", Sandbox: r.sandbox.ID, For: time.Minute})
				}
			}
			b.stops(r)
			b.busy(other, "its own work")
		}},
		{"idle-named", "Idle is asked of the sandbox that it names, and of none where it names none; it rests on no version.", func(b *togetherBench) {
			r, other := b.room(live), b.room(live)
			b.at.acquire(in(r, "w1"))
			row := r.sandbox
			c := session.Change{Sandbox: &row}
			r.sandbox = *c.Stamped(b.commit(c)).Sandbox // written under work: nobody asked for it to be idle
			quiet := session.Change{Conversation: b.thread(other.session), Idle: other.sandbox.ID}
			b.commit(quiet)
			loud := session.Change{Conversation: b.thread(other.session), Idle: r.sandbox.ID}
			b.refuses(loud, sandbox.ErrWorking, string(r.sandbox.ID))
			b.missing(thread(*loud.Conversation))
			if c := (session.Change{Idle: r.sandbox.ID}); !c.Empty() {
				b.Errorf("%+v writes something", c)
			}
		}},
		{"race-idle", "Whoever has a work lease and after that finds the machine live has it for as long as the lease stands: no idle stop of that machine is written at the same time. (Rule 11)", func(b *togetherBench) {
			const workers, rounds = 8, 25
			stopped := 0
			for round := range rounds {
				r := b.room(live)
				var (
					going   = make(chan struct{})
					working atomic.Int64
					mu      sync.Mutex
					held    []session.Lease
				)
				errs := parallel(workers+1, func(i int) error {
					if i == workers/2 {
						close(going)
						_, err := b.store.Commit(b.Context(), stop(r))
						return err
					}
					if round%2 == 1 { // in every other round the stop is on its way first
						<-going
					}
					l, err := b.at.leases.Acquire(b.Context(), in(r, "w"+strconv.Itoa(i)))
					if err != nil {
						return err
					}
					mu.Lock()
					held = append(held, l)
					mu.Unlock()
					s, err := b.store.Load(b.Context(), r.address())
					if err == nil && s.Sandbox.State == sandbox.Live {
						working.Add(1)
					}
					return err
				})
				err := errs[workers/2]
				if wrong := others(errs, func(err error) bool { return errors.Is(err, sandbox.ErrWorking) }); wrong != nil || number(errs, isNil) < workers {
					b.Fatalf("round %d: the stop was answered with %v, and one with %v", round, err, wrong)
				}
				if n := working.Load(); err == nil && n > 0 {
					b.Errorf("round %d: the machine was stopped under %d works that had found it live", round, n)
				}
				if err == nil {
					stopped++
				} else {
					for _, l := range held {
						b.at.release(l)
					}
					b.stops(r) // and now it can be
				}
				if b.Failed() {
					return
				}
			}
			b.Logf("%d of %d machines were stopped before anybody worked in them", stopped, rounds)
		}},
	}
}
