package session_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// wiredMounter makes a directory available, and records that it did.
type wiredMounter struct {
	line *wire
	dir  string
}

func (m wiredMounter) Mount(ctx context.Context, _ mount.Spec) (mount.Mount, error) {
	if err := m.line.call(ctx, "mount", func() error { return nil }); err != nil {
		return nil, err
	}
	return m, nil
}

func (m wiredMounter) HostDir() string { return m.dir }

func (m wiredMounter) Release(ctx context.Context) error {
	return m.line.call(ctx, "unmount", func() error { return nil })
}

// withMounts gives a replica a Manager whose mounter is on its wire.
func (w *world) withMounts(policy mount.Policy) func(*session.Config) {
	return func(c *session.Config) {
		line := c.Gate.(wiredGate).line
		m, err := mount.New(mount.Config{Store: w.db.Mounts(), Mounter: wiredMounter{line, w.TempDir()}, Policy: policy})
		if err != nil {
			w.Fatal(err)
		}
		c.Mounts = m
	}
}

// steps are the calls that a work is made of, as the wire shows them.
var steps = []string{"ask", "admit", "acquire", "commit", "create", "attach", "mount", "unmount", "close", "settle", "free", "release"}

func TestOrderOfOpenAndClose(t *testing.T) {
	inWorld(t, "T-60: access, gate, slot, machine, folder: nothing is woken before who pays has agreed", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.withMounts(mount.Required))
		_, v := r.spawn(ann)
		r.meddle(nil)
		wk := r.mustWork(ann, inConversation(v.ID))
		want := []string{"ask", "admit", "acquire", "commit", "create", "commit", "attach", "mount", "settle"} // the last notes that work has begun
		if diff := cmp.Diff(want, r.only(steps...)); diff != "" {
			t.Errorf("Open (-want +got)\n%s", diff)
		}
		r.meddle(nil)
		time.Sleep(time.Second)
		rep := closeWork(t, wk)
		if diff := cmp.Diff([]string{"unmount", "close", "settle", "free"}, r.only(steps...)); diff != "" {
			t.Errorf("Close: what runs ends before its time is settled, and the slot is freed last (-want +got)\n%s", diff)
		}
		if len(rep.Mounts) != 1 || rep.Mounts[0].State != mount.Mounted {
			t.Errorf("Report.Mounts %+v", rep.Mounts)
		}
		w.gate.wantEndedOnce(t)
	})
}

// T-61: a failure at any step undoes the steps before it, in reverse, and
// gives the hold back. Nothing is charged.
func TestFailureAtEveryStepOfOpen(t *testing.T) {
	type arrange = func(t *testing.T, w *world, r *replica, id session.ID)
	outage := func(call string, nth int) arrange {
		return func(_ *testing.T, _ *world, r *replica, _ session.ID) { r.fail(call, nth, errOutage) }
	}
	// during does something while a call is under way, which then waits for its context's end.
	during := func(call string, do func(r *replica, id session.ID)) arrange {
		return func(_ *testing.T, _ *world, r *replica, id session.ID) {
			r.meddle(func(c string, _, nth int) trouble {
				if c == call && nth == 1 {
					return trouble{hold: func(ctx context.Context) { do(r, id); <-ctx.Done() }}
				}
				return trouble{}
			})
		}
	}
	var (
		nothing = []string(nil)
		hold    = []string{"release"}
		slot    = []string{"free", "release"}
		machine = []string{"close", "free", "release"}
	)
	for _, c := range []struct {
		step    string
		arrange arrange
		undone  []string
	}{
		{"1 the session can't be read", outage("load", 1), nothing},
		{"2 the directory does not answer", outage("ask", 1), nothing},
		{"3 the payer is out of credit", func(_ *testing.T, w *world, _ *replica, _ session.ID) { w.gate.refuse = refused("ann") }, nothing},
		{"4 the gate does not answer", outage("admit", 1), []string{"release"}}, // it may have done it
		{"5 all slots are taken", func(_ *testing.T, w *world, _ *replica, _ session.ID) { w.limits.Slots = -1 }, hold},
		{"6 the slot can't be asked for", outage("acquire", 1), hold},
		{"7 the payer has as many machines as allowed", func(_ *testing.T, w *world, _ *replica, _ session.ID) { w.limits.Machines = -1 }, slot},
		{"8 the intent can't be committed", outage("commit", 1), slot},
		{"9 somebody else writes first, again and again", func(_ *testing.T, _ *world, r *replica, _ session.ID) { r.fail("commit", 0, session.ErrStale) }, slot},
		{"10 the create is not sent", func(_ *testing.T, w *world, _ *replica, _ session.ID) {
			w.boxes.Inject(always(memory.OpCreate, memory.Fault{Fail: sandbox.ErrNotSent}))
		}, slot},
		{"11 the row can't be read after the create", outage("load", 2), slot},
		{"12 the machine can't be reached", func(_ *testing.T, w *world, _ *replica, _ session.ID) {
			w.boxes.Inject(always(memory.OpAttach, memory.Fault{Fail: errOutage}))
		}, slot},
		{"13 the folder is required and not to be had", outage("mount", 1), machine},
		{"14 the caller is gone before the machine is there", func(_ *testing.T, _ *world, r *replica, _ session.ID) {
			r.meddle(func(c string, _, _ int) trouble {
				if c == "attach" {
					return trouble{before: context.Canceled}
				}
				return trouble{}
			})
		}, slot},
		{"15 the process shuts down before the machine is there", during("attach", func(r *replica, _ session.ID) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			go r.Drain(ctx)
		}), slot},
		{"16 the session ends before work begins", during("mount", func(r *replica, id session.ID) { r.End(context.Background(), ann, id) }), machine},
	} {
		inWorld(t, "T-61: "+c.step, immediate, func(t *testing.T, w *world) {
			r := w.replica(w.withMounts(mount.Required))
			s, v := r.spawn(ann)
			r.meddle(nil)
			c.arrange(t, w, r, s.ID)
			wk, err := r.work(t.Context(), ann, inConversation(v.ID))
			if err == nil {
				t.Fatalf("Open succeeded: %v", wk.ID())
			}
			synctest.Wait()
			if diff := cmp.Diff(c.undone, r.only("close", "settle", "free", "release"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("undone (-want +got)\n%s", diff)
			}
			for id, h := range w.gate.all() {
				if h.settled > 0 || h.given != 1 || len(h.spans) > 0 {
					t.Errorf("hold %s: settled %d times, released %d times, charged %v", id, h.settled, h.given, h.spans)
				}
			}
			w.wantSlotsFree()
			// The next process finds nothing in the way.
			w.limits, w.gate.refuse = session.Limits{Slots: 1, Machines: 1}, nil
			w.boxes.Inject(nil)
			next := w.replica(w.withMounts(mount.Required))
			wk, err = next.work(t.Context(), ann, session.WorkRequest{Conversation: v.ID, Ensure: true, Reopen: true})
			if err != nil {
				t.Fatalf("Open afterwards: %v", err)
			}
			closeWork(t, wk)
			w.wantOneMachine(s.ID)
		})
	}

	inWorld(t, "T-61: work that is told to stop before it begins never begins", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(ann)
		r.meddle(func(c string, _, _ int) trouble {
			if c == "attach" { // the machine is there
				return trouble{late: func(context.Context) { r.end(ann, s.ID) }}
			}
			return trouble{}
		})
		_, err := r.work(t.Context(), ann, inConversation(v.ID))
		wantErr(t, "Open", err, session.ErrEnded)
		synctest.Wait() // for the handle that came late
		if diff := cmp.Diff([]string{"free", "release"}, r.only("settle", "free", "release")); diff != "" || r.count("close") == 0 {
			t.Errorf("undone (-want +got)\n%s", diff)
		}
		w.gate.wantEndedOnce(t)
	})

	inWorld(t, "T-61: what can't be undone does not keep the rest from being undone", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.withMounts(mount.Required))
		_, v := r.spawn(ann)
		r.meddle(func(c string, _, _ int) trouble {
			if c == "mount" || c == "close" || c == "free" {
				return trouble{before: errOutage}
			}
			return trouble{}
		})
		_, err := r.work(t.Context(), ann, inConversation(v.ID))
		wantType[*mount.MountError](t, "Open", err)
		w.gate.wantEndedOnce(t)
	})

	for what, arrange := range map[string]func(c *session.Config, line *wire){
		"the host's Place, which passes,": func(c *session.Config, _ *wire) {
			c.Place = func(session.Placing) (session.Placement, error) { panic("boom") }
		},
		"a provider, which is an error,": func(_ *session.Config, line *wire) {
			line.meddle(func(c string, _, _ int) trouble {
				if c == "attach" {
					return trouble{hold: func(context.Context) { panic("boom") }}
				}
				return trouble{}
			})
		},
	} {
		inWorld(t, "T-73: a panic of "+what+" leaks neither hold nor slot", immediate, func(t *testing.T, w *world) {
			_, v := w.replica().spawn(ann)
			var line *wire
			r := w.replica(func(c *session.Config) { line = c.Gate.(wiredGate).line; arrange(c, line) })
			func() {
				passes := strings.Contains(what, "passes")
				defer func() {
					if got := recover(); (got == "boom") != passes {
						t.Errorf("recovered %v", got)
					}
				}()
				_, err := r.work(t.Context(), ann, inConversation(v.ID))
				wantErr(t, "Open", err, session.ErrUnavailable)
			}()
			w.gate.wantEndedOnce(t)
			w.wantSlotsFree()
			time.Sleep(time.Hour)
			if n := r.count("renew"); n > 0 {
				t.Errorf("the lease of a work that never began was renewed %d times", n)
			}
		})
	}
}

// wantSlotsFree fails the test where any work of ann's holds a slot.
func (w *world) wantSlotsFree() {
	w.Helper()
	l, err := w.db.Leases().Acquire(context.Background(), session.Lease{
		Kind: session.LeaseWork, Name: "probe", Holder: "probe", Payer: "ann", Slots: 1, For: time.Second,
	})
	if err != nil {
		w.Errorf("a slot is taken: %v", err)
		return
	}
	if err := w.db.Leases().Release(context.Background(), l); err != nil {
		w.Error(err)
	}
}
