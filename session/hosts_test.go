package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// land is a world of two hosts that each have machines of their own.
type land struct {
	*world
	hosts map[string]*memory.Sandboxes
}

// inLand runs f as a subtest on a fake clock, in a land whose hosts are "north" and "south".
func inLand(t *testing.T, rule string, f func(t *testing.T, w *land)) {
	t.Run(rule, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, newLand(t)) })
	})
}

func newLand(t *testing.T) *land {
	w := &land{newWorld(t, immediate), map[string]*memory.Sandboxes{}}
	for _, host := range []string{"north", "south"} {
		w.hosts[host] = memory.NewSandboxes(&memory.SandboxOptions{Host: host})
		for name, h := range memory.Coreutils() {
			w.hosts[host].Handle(name, h)
		}
	}
	w.boxes = w.hosts["north"]
	return w
}

// at starts a process on a host.
func (w *land) at(host, name string, change ...func(*session.Config)) *replica {
	w.Helper()
	return w.replica(append([]func(*session.Config){func(c *session.Config) {
		p := c.Sandboxes[0].(wiredProvider)
		p.Provider = w.hosts[host]
		c.Sandboxes, c.Replica = []sandbox.Provider{p}, name
	}}, change...)...)
}

// wantElsewhere fails the test unless work in the session is said to be for that replica.
func (r *replica) wantElsewhere(what string, id session.ID, host, by string) {
	r.w.Helper()
	_, err := r.work(r.w.Context(), ann, inSession(id))
	if e := wantType[*session.ElsewhereError](r.w, what, err); e.Session != id || e.Host != host || e.Replica != by {
		r.w.Errorf("%s: %+v, want host %q, replica %q", what, e, host, by)
	}
}

func (w *world) serves(host string) string {
	l, err := w.db.Leases().Held(context.Background(), session.LeaseHost, host)
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		w.Errorf("Held: %v", err)
	}
	return l.Holder
}

func TestPresence(t *testing.T) {
	inLand(t, "rule 12: work on the wrong host is told which replica serves the right one, for as long as that does", func(t *testing.T, w *land) {
		n, s := w.at("north", "n:1"), w.at("south", "s:1")
		stopNorth, stopSouth := n.serve(t), s.serve(t)
		synctest.Wait()
		id := n.warm()
		s.wantElsewhere("while north is served", id, "north", "n:1")
		time.Sleep(10 * time.Minute)
		s.wantElsewhere("much later", id, "north", "n:1")
		if got := w.serves("south"); got != "s:1" {
			t.Errorf("south is served by %q", got)
		}
		if row := w.snap(id).Sandbox; row.State != sandbox.Live || !row.AbsentSince.IsZero() {
			t.Errorf("rule 12: an observation from another host counted: %+v", row)
		}

		n.kill() // and nobody there says so
		time.Sleep(30 * time.Second)
		s.wantElsewhere("before its lease has run out", id, "north", "n:1")
		time.Sleep(time.Minute)
		s.wantElsewhere("once its lease has run out", id, "north", "")
		stopNorth()

		again := w.at("north", "n:2")
		again.serve(t)
		synctest.Wait()
		s.wantElsewhere("once the host is back", id, "north", "n:2")
		closeWork(t, again.mustWork(ann, inSession(id)))
		if row := w.snap(id).Sandbox; row.Generation != 1 || row.State != sandbox.Live {
			t.Errorf("the host that is back has another machine: %+v", row)
		}
		stopSouth()
		if got := w.serves("south"); got != "" {
			t.Errorf("after Serve south is served by %q", got)
		}
	})

	inLand(t, "of two replicas of one host one is told of, and the other once that is gone", func(t *testing.T, w *land) {
		a, b := w.at("north", "a"), w.at("north", "b")
		stop := a.serve(t)
		synctest.Wait()
		b.serve(t)
		time.Sleep(10 * time.Minute)
		if got := w.serves("north"); got != "a" {
			t.Errorf("served by %q", got)
		}
		stop()
		time.Sleep(30 * time.Second)
		if got := w.serves("north"); got != "b" {
			t.Errorf("then served by %q", got)
		}
	})

	inLand(t, "a replica that drains is not told of any more, and another of its host is", func(t *testing.T, w *land) {
		a, b := w.at("north", "a"), w.at("north", "b")
		s, _ := a.spawn(ann)
		wk := a.mustWork(ann, inSession(s.ID))
		a.serve(t)
		synctest.Wait()
		b.serve(t)
		drained := a.draining(t.Context())
		time.Sleep(30 * time.Second)
		if got := w.serves("north"); got != "b" {
			t.Errorf("served by %q", got)
		}
		closeWork(t, wk)
		if err := <-drained; err != nil {
			t.Errorf("Drain: %v", err)
		}
		time.Sleep(10 * time.Minute)
		if got := w.serves("north"); got != "b" {
			t.Errorf("much later served by %q", got)
		}
	})

	inLand(t, "a database that does not answer for a while keeps nobody from being told of afterwards", func(t *testing.T, w *land) {
		n := w.at("north", "n")
		n.fail("acquire", 0, errOutage)
		n.serve(t)
		time.Sleep(5 * time.Minute)
		n.meddle(nil)
		time.Sleep(30 * time.Second)
		if got := w.serves("north"); got != "n" {
			t.Errorf("served by %q", got)
		}
	})
}

// wreck is a host with something in every state, and nobody left on it: what is live there, and all that is.
func (w *land) wreck() (live session.ID, all []session.ID) {
	w.Helper()
	n := w.at("north", "n")
	live, unanswered := n.warm(), n.abandoned(memory.Fault{Fail: errOutage})
	dying := n.dying()
	n.orphan()
	n.orphan()
	// One whose deadline has not passed.
	s, _ := n.spawn(ann)
	w.boxes.Inject(on(memory.OpCreate, w.created()+1, memory.Fault{Fail: errOutage}))
	ctx, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	_, err := n.work(ctx, ann, inSession(s.ID))
	wantType[*sandbox.ProvisioningError](w, "Open", err)
	w.boxes.Inject(nil)
	n.kill()
	return live, []session.ID{live, unanswered, dying, s.ID}
}

// wantCleared fails the test unless nothing is left that is bound to the host that is gone.
func (w *land) wantCleared(live session.ID, all []session.ID) {
	w.Helper()
	for _, id := range all {
		row, want := w.snap(id).Sandbox, sandbox.None
		if id == live {
			want = sandbox.Lost
		}
		if row.State != want {
			w.Errorf("session %s: row %v, want %v", id, row.State, want)
		}
	}
	if box := w.outbox(); len(box) > 0 {
		w.Errorf("outbox %+v", box)
	}
}

func TestHostGone(t *testing.T) {
	inLand(t, "rule 15: what was on a host that is gone is lost, given up, destroyed or proven; its sessions live on elsewhere", func(t *testing.T, w *land) {
		live, all := w.wreck()
		s := w.at("south", "s")
		mine, unbound := s.warm(), w.replica(func(c *session.Config) {
			c.Sandboxes = []sandbox.Provider{memory.NewSandboxes(&memory.SandboxOptions{Name: "anywhere"})}
		}).warm()
		s.wantElsewhere("before", live, "north", "")

		rep, err := s.HostGone(t.Context(), "north")
		if want := (session.HostGoneReport{Lost: 1, GivenUp: 2, Destroyed: 1, Proven: 2}); err != nil || rep != want {
			t.Errorf("HostGone: %+v, %v, want %+v", rep, err, want)
		}
		w.wantCleared(live, all)
		for _, id := range []session.ID{mine, unbound} {
			if state := w.snap(id).Sandbox.State; state != sandbox.Live {
				t.Errorf("what is not bound to that host is %v", state)
			}
		}
		rep, err = s.HostGone(t.Context(), "north")
		if err != nil || rep != (session.HostGoneReport{}) {
			t.Errorf("again: %+v, %v", rep, err)
		}

		_, err = s.work(t.Context(), ann, inSession(live))
		lost := wantType[*sandbox.LostError](t, "Open", err)
		q := inSession(live)
		q.AcceptLoss = lost.Generation
		wk := s.mustWork(ann, q)
		if rep := closeWork(t, wk); rep.Replaced != 1 {
			t.Errorf("Report %+v", rep)
		}
		if row := w.snap(live).Sandbox; row.Host != "south" || row.Generation != 2 {
			t.Errorf("row %+v", row)
		}
		time.Sleep(10 * time.Minute)
		closeWork(t, s.mustWork(ann, inSession(all[1])))
		for range 3 {
			s.slots(t)
			time.Sleep(time.Minute)
		}
		w.wantSlotsFree()
	})

	inLand(t, "a host that is served is not gone, whatever the operator says; one that was is once nobody has served it for a minute", func(t *testing.T, w *land) {
		n, s := w.at("north", "n"), w.at("south", "s")
		stop := n.serve(t)
		synctest.Wait()
		id := n.warm()
		_, err := s.HostGone(t.Context(), "north")
		if e := wantType[*session.HeldError](t, "HostGone", err); e.Holder != "n" || e.Kind != session.LeaseHost || e.Name != "north" {
			t.Errorf("%+v", e)
		}
		n.kill()
		stop()
		_, err = s.HostGone(t.Context(), "north")
		wantType[*session.HeldError](t, "HostGone", err)
		if state := w.snap(id).Sandbox.State; state != sandbox.Live {
			t.Errorf("row %v", state)
		}
		time.Sleep(time.Minute)
		if rep, err := s.HostGone(t.Context(), "north"); err != nil || rep.Lost != 1 {
			t.Errorf("HostGone: %+v, %v", rep, err)
		}
	})

	inLand(t, "no host, and one's own, are refused by name", func(t *testing.T, w *land) {
		s := w.at("south", "s")
		id := s.warm()
		for _, host := range []string{"", "south"} {
			_, err := s.HostGone(t.Context(), host)
			wantField(t, fmt.Sprintf("HostGone(%q)", host), err, "host")
		}
		if state := w.snap(id).Sandbox.State; state != sandbox.Live {
			t.Errorf("row %v", state)
		}
	})

	inLand(t, "what the store knows of a host can't be read: nothing is written", func(t *testing.T, w *land) {
		live, _ := w.wreck()
		s := w.at("south", "s", func(c *session.Config) { c.Leases = blindLeases{c.Leases} })
		_, err := s.HostGone(t.Context(), "north")
		wantErr(t, "HostGone", err, errOutage)
		if state := w.snap(live).Sandbox.State; state != sandbox.Live {
			t.Errorf("row %v", state)
		}
	})

	inLand(t, "hundreds of each kind, among hundreds that are bound to no host: it comes to an end, batch by batch", func(t *testing.T, w *land) {
		n := w.at("north", "n")
		w.limits = session.Limits{Sessions: 10_000, Machines: 10_000}
		anywhere := w.replica(func(c *session.Config) {
			c.Sandboxes = []sandbox.Provider{memory.NewSandboxes(&memory.SandboxOptions{Name: "anywhere"})}
		})
		var live []session.ID
		for range 210 {
			live = append(live, n.warm())
			anywhere.warm()
		}
		n.kill()
		s := w.at("south", "s")
		if rep, err := s.HostGone(t.Context(), "north"); err != nil || rep.Lost != 210 || rep.Failed > 0 {
			t.Errorf("HostGone: %+v, %v", rep, err)
		}
		for _, id := range live {
			if state := w.snap(id).Sandbox.State; state != sandbox.Lost {
				t.Fatalf("row %v", state)
			}
		}
	})

	for _, m := range mishaps {
		t.Run("a call that "+m.name+" in the midst: calling it again finishes", func(t *testing.T) {
			n, reached := 0, true
			for reached {
				n++
				synctest.Test(t, func(t *testing.T) {
					w := newLand(t)
					live, all := w.wreck()
					s := w.at("south", "s")
					reached = false
					s.meddle(func(call string, i, _ int) trouble {
						if i == n {
							reached = true
							return m.of(call)
						}
						return trouble{}
					})
					_, err := s.HostGone(t.Context(), "north")
					if next := w.at("south", "s2"); err != nil {
						if _, err := next.HostGone(t.Context(), "north"); err != nil {
							t.Errorf("call %d: the next: %v", n, err)
						}
					} else if rep, err := next.HostGone(t.Context(), "north"); err != nil || rep != (session.HostGoneReport{}) {
						t.Errorf("call %d: something was left without an error: %+v, %v", n, rep, err)
					}
					w.wantCleared(live, all)
				})
			}
			if n < 6 {
				t.Errorf("only %d calls were reached", n-1)
			}
		})
	}
}

// blindLeases don't answer who holds one.
type blindLeases struct{ session.Leases }

func (blindLeases) Held(context.Context, session.LeaseKind, string) (session.Lease, error) {
	return session.Lease{}, errOutage
}
