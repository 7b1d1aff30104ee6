package session_test

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// roster is a provider of nothing but a list: so many machines of ours, each of
// a sandbox of its own, all of which it shows when asked for them by id.
type roster struct {
	sandbox.Provider
	name    string
	n       int
	caps    sandbox.Caps                                           // none = immediate
	list    func(context.Context) iter.Seq2[sandbox.Listed, error] // instead of the list
	inspect func(sandbox.Ref) ([]sandbox.Found, error)             // instead of the answer
}

func (p *roster) Info() sandbox.Info {
	if p.caps == (sandbox.Caps{}) {
		return sandbox.Info{Provider: p.name, Caps: immediate}
	}
	return sandbox.Info{Provider: p.name, Caps: p.caps}
}

func (p *roster) List(ctx context.Context, deployment string) iter.Seq2[sandbox.Listed, error] {
	if p.list != nil {
		return p.list(ctx)
	}
	return func(yield func(sandbox.Listed, error) bool) {
		for i := range p.n {
			if !yield(p.machine(i, deployment), nil) {
				return
			}
		}
	}
}

func (p *roster) machine(i int, deployment string) sandbox.Listed {
	id := p.name + "-" + strconv.Itoa(i)
	return sandbox.Listed{
		Ref:    sandbox.Ref{Provider: p.name, Name: id + "-g1", Incarnation: sandbox.Incarnation("i-" + id)},
		Status: sandbox.StatusRunning,
		Labels: map[string]string{sandbox.LabelDeployment: deployment, sandbox.LabelSandbox: id, sandbox.LabelGeneration: "1"},
	}
}

func (p *roster) Inspect(_ context.Context, ref sandbox.Ref) ([]sandbox.Found, error) {
	if p.inspect != nil {
		return p.inspect(ref)
	}
	return []sandbox.Found{{Incarnation: ref.Incarnation, Status: sandbox.StatusRunning}}, nil
}

// unlisted is a provider that can't list.
type unlisted struct{ *memory.Sandboxes }

func (unlisted) As(any) bool { return false }

// List shadows what the provider may have.
func (unlisted) List() {}

// registry is a process that sweeps rosters, over a store of its own.
func (w *world) registry(providers ...sandbox.Provider) *replica {
	return w.replica(func(c *session.Config) {
		c.Sandboxes = providers
		c.Store = ownStore{c.Store.(*wiredStore)}
	})
}

// proven sweeps until all that is nobody's is due to be buried.
func (r *replica) proven() {
	r.w.Helper()
	r.sweep(session.SweepOptions{DryRun: true})
	time.Sleep(10 * time.Minute)
}

func TestSweepBudget(t *testing.T) {
	for _, c := range []struct {
		rule             string
		orphans, foreign int
		budget, want     int // asked for, and had
	}{
		{"at least 5", 5, 0, 0, 5},
		{"one in twenty of the fleet", 200, 0, 0, 10},
		{"others' machines are not the fleet", 100, 5000, 0, 5},
		{"at most 50", 1100, 0, 0, 50},
		{"as many as the caller says", 300, 0, 299, 299},
		{"as few as the caller says", 4, 0, 3, 3},
		{"just as many", 4, 0, 4, 4},
	} {
		inWorld(t, "the budget is "+c.rule, immediate, func(t *testing.T, w *world) {
			p := &roster{name: "a"}
			p.list = func(ctx context.Context) iter.Seq2[sandbox.Listed, error] {
				return func(yield func(sandbox.Listed, error) bool) {
					for i := range c.foreign + c.orphans {
						whose := "theirs"
						if i < c.orphans {
							whose = "bunkroom"
						}
						if !yield(p.machine(i, whose), nil) {
							return
						}
					}
				}
			}
			r := w.registry(p)
			r.proven()
			rep := r.sweep(session.SweepOptions{Budget: c.budget})
			trips := c.orphans > c.want
			if rep.Budget != c.want || rep.Tripped != trips || rep.Orphans != c.orphans {
				t.Errorf("budget %d, tripped %v, %d orphans; want %d, %v, %d", rep.Budget, rep.Tripped, rep.Orphans, c.want, trips, c.orphans)
			}
			buried := c.orphans
			if trips {
				buried = 0
			}
			if n := rep.Providers[0].Buried; n != buried || len(w.outbox()) != min(buried, 1000) {
				t.Errorf("%d buried, %d in the outbox, want %d", n, len(w.outbox()), buried)
			}
		})
	}

	inWorld(t, "the breaker trips: nothing at all is buried, all are listed as in a dry run, and it stays so until somebody passes a larger budget", immediate, func(t *testing.T, w *world) {
		r := w.registry(&roster{name: "a", n: 8}, &roster{name: "b", n: 1})
		r.proven()
		for range 4 {
			rep := r.sweep(session.SweepOptions{})
			if !rep.Tripped || rep.Providers[0].Spared != 8 || rep.Providers[1].Spared != 1 || len(rep.Items) != 9 || len(w.outbox()) > 0 {
				t.Errorf("%+v, outbox %d", rep, len(w.outbox()))
			}
			for _, i := range rep.Items {
				if i.Action != session.SweepSpared || !strings.Contains(i.Reason, "budget of 5") {
					t.Errorf("item %+v", i)
				}
			}
			time.Sleep(time.Hour)
		}
		if rep := r.sweep(session.SweepOptions{Budget: 9}); rep.Tripped || len(w.outbox()) != 9 {
			t.Errorf("with a larger budget: %+v", rep)
		}
	})

	inWorld(t, "what is listed and not there weighs nothing; what can't be asked weighs as if it were there", immediate, func(t *testing.T, w *world) {
		p := &roster{name: "a", n: 20}
		r := w.registry(p)
		r.proven()
		answer := error(nil)
		p.inspect = func(ref sandbox.Ref) ([]sandbox.Found, error) {
			if ref.Name == "a-7-g1" {
				return []sandbox.Found{{Incarnation: "another"}, {Incarnation: ref.Incarnation}}, nil
			}
			return nil, answer
		}
		rep := r.sweep(session.SweepOptions{DryRun: true})
		if p := rep.Providers[0]; rep.Tripped || p.Skipped != 19 || p.Spared != 1 {
			t.Errorf("%+v", rep)
		}
		answer = errOutage
		rep = r.sweep(session.SweepOptions{})
		if p := rep.Providers[0]; !rep.Tripped || p.Buried > 0 || p.Failed == 0 || len(w.outbox()) > 0 {
			t.Errorf("%+v", rep)
		}
		answer = nil
		if rep = r.sweep(session.SweepOptions{}); rep.Tripped || rep.Providers[0].Buried != 1 || len(w.outbox()) != 1 {
			t.Errorf("%+v", rep)
		}
	})

	inWorld(t, "a dry run writes nothing and tells what a sweep would do", immediate, func(t *testing.T, w *world) {
		r := w.registry(&roster{name: "a", n: 3})
		r.proven()
		r.meddle(nil)
		rep := r.sweep(session.SweepOptions{DryRun: true})
		wantSwept(t, "dry", rep, session.SweepSpared, session.SweepSpared, session.SweepSpared)
		if rep.Orphans != 3 || rep.Tripped || r.count("commit") > 0 || len(w.outbox()) > 0 {
			t.Errorf("%+v, calls %v", rep, r.calls())
		}
		if rep := r.sweep(session.SweepOptions{}); rep.Providers[0].Buried != 3 {
			t.Errorf("%+v", rep)
		}
	})

	for field, o := range map[string]session.SweepOptions{"Budget": {Budget: -1}, "Grace": {Grace: -1}} {
		inWorld(t, "a negative "+field+" is refused", immediate, func(t *testing.T, w *world) {
			_, err := w.registry(&roster{name: "a", n: 1}).Sweep(t.Context(), o)
			wantField(t, "Sweep", err, field)
		})
	}
}

func TestSweepReport(t *testing.T) {
	inWorld(t, "one line for each provider that can list, by name, and none for others", immediate, func(t *testing.T, w *world) {
		r := w.registry(&roster{name: "b", n: 2}, unlisted{memory.NewSandboxes(nil)}, &roster{name: "a", n: 1})
		rep := r.sweep(session.SweepOptions{})
		if len(rep.Providers) != 2 || rep.Providers[0].Provider != "a" || rep.Providers[1].Provider != "b" ||
			rep.Providers[0].Suspected != 1 || rep.Providers[1].Suspected != 2 || rep.Incomplete || rep.Capped {
			t.Errorf("%+v", rep)
		}
	})

	inWorld(t, "Capped is the truth, the counts are whole, and what became of orphans comes first", immediate, func(t *testing.T, w *world) {
		p := &roster{name: "a", n: 3}
		r := w.registry(p)
		r.proven()
		for n, capped := range map[int]bool{session.MaxSweepItems: false, session.MaxSweepItems + 1: true, 2*session.MaxSweepItems + 500: true} {
			p.n = n
			rep := r.sweep(session.SweepOptions{DryRun: true})
			if c := rep.Providers[0]; rep.Capped != capped || len(rep.Items) != session.MaxSweepItems || c.Listed != n || c.Suspected+c.Spared != n {
				t.Errorf("%d: capped %v, %d items, %+v", n, rep.Capped, len(rep.Items), c)
			}
			for i := range 3 {
				if rep.Items[i].Action != session.SweepSpared {
					t.Errorf("item %d is %+v", i, rep.Items[i])
				}
			}
			p.n = 3
			r.sweep(session.SweepOptions{DryRun: true}) // forgets the others
		}
	})

	inWorld(t, "more suspects than are remembered wait until others are forgotten", immediate, func(t *testing.T, w *world) {
		const all, remembered = 10_300, 10_000
		p, from := &roster{name: "a"}, 0
		p.list = func(context.Context) iter.Seq2[sandbox.Listed, error] {
			return func(yield func(sandbox.Listed, error) bool) {
				for i := from; i < all && yield(p.machine(i, "bunkroom"), nil); i++ {
				}
			}
		}
		r := w.registry(p)
		pass := func(what string, spared, suspected int) {
			t.Helper()
			if c := r.sweep(session.SweepOptions{}).Providers[0]; c.Spared != spared || c.Suspected != suspected {
				t.Errorf("%s: %+v, want %d spared and %d suspected", what, c, spared, suspected)
			}
			time.Sleep(10 * time.Minute)
		}
		pass("all are new", 0, all)
		pass("the remembered ones", remembered, all-remembered)
		from = remembered
		pass("they are not listed any more", 0, all-remembered)
		pass("now there is room", 0, all-remembered)
		pass("the others", all-remembered, 0)
	})

	for what, list := range map[string]func(context.Context) iter.Seq2[sandbox.Listed, error]{
		"fails": func(context.Context) iter.Seq2[sandbox.Listed, error] {
			return func(yield func(sandbox.Listed, error) bool) { yield(sandbox.Listed{}, errOutage) }
		},
		"fails after a while": func(ctx context.Context) iter.Seq2[sandbox.Listed, error] {
			return func(yield func(sandbox.Listed, error) bool) {
				for l := range (&roster{name: "b", n: 1500}).List(ctx, "theirs") {
					yield(l, nil)
				}
				yield(sandbox.Listed{}, errOutage)
			}
		},
		"hangs": func(ctx context.Context) iter.Seq2[sandbox.Listed, error] {
			return func(yield func(sandbox.Listed, error) bool) { <-ctx.Done(); yield(sandbox.Listed{}, ctx.Err()) }
		},
		"hangs and does not listen": func(ctx context.Context) iter.Seq2[sandbox.Listed, error] {
			return func(yield func(sandbox.Listed, error) bool) { time.Sleep(time.Hour); yield(sandbox.Listed{}, nil) }
		},
		"panics": func(context.Context) iter.Seq2[sandbox.Listed, error] {
			return func(func(sandbox.Listed, error) bool) { panic("oh") }
		},
	} {
		inWorld(t, "T-36: a provider whose list "+what+" stops neither of the others, and is told", immediate, func(t *testing.T, w *world) {
			b := &roster{name: "b", list: list}
			r := w.registry(&roster{name: "a", n: 1}, b, &roster{name: "c", n: 2})
			for range 2 {
				rep, err := r.Sweep(t.Context(), session.SweepOptions{})
				w.wantSums(rep)
				if err == nil || !rep.Incomplete || rep.Providers[1].Err == nil || rep.Providers[0].Err != nil || rep.Providers[2].Err != nil {
					t.Errorf("%v, %+v", err, rep)
				}
				if strings.HasPrefix(what, "fails") {
					wantErr(t, "Sweep", err, errOutage)
				}
				if !strings.Contains(err.Error(), "provider b") {
					t.Errorf("%v does not name the provider", err)
				}
				time.Sleep(10 * time.Minute)
			}
			if len(w.outbox()) < 3 {
				t.Errorf("outbox %+v, want the three of the others", w.outbox())
			}
			time.Sleep(2 * time.Hour) // until what does not listen has ended
		})
	}

	for _, n := range []int{1, 2, 3} {
		inWorld(t, fmt.Sprintf("the store fails at the %d. chunk: what was read counts, the rest is told, and the next pass goes on", n), immediate, func(t *testing.T, w *world) {
			r := w.registry(&roster{name: "a", n: 2500})
			r.fail("known", n, errOutage)
			rep, err := r.Sweep(t.Context(), session.SweepOptions{})
			w.wantSums(rep)
			wantErr(t, "Sweep", err, errOutage)
			if p := rep.Providers[0]; !rep.Incomplete || p.Suspected != 1000*(n-1) || p.Failed != min(1000, 2500-1000*(n-1)) {
				t.Errorf("%+v", rep.Providers)
			}
			r.meddle(nil)
			time.Sleep(10 * time.Minute)
			if rep := r.sweep(session.SweepOptions{DryRun: true, Budget: 2500}); rep.Providers[0].Spared != 1000*(n-1) {
				t.Errorf("%+v", rep.Providers)
			}
		})
	}

	inWorld(t, "an orphan that can't be written is told and stops no other; a reply that is lost is found out by the next pass", immediate, func(t *testing.T, w *world) {
		r := w.registry(&roster{name: "a", n: 3})
		r.proven()
		r.meddle(func(c string, _, nth int) trouble {
			switch {
			case c == "commit" && nth == 1:
				return trouble{before: errOutage}
			case c == "commit" && nth == 2:
				return trouble{after: session.ErrUnknown}
			}
			return trouble{}
		})
		rep := r.sweep(session.SweepOptions{})
		wantSwept(t, "sweep", rep, session.SweepFailed, session.SweepFailed, session.SweepBuried)
		wantErr(t, "the first", rep.Items[0].Err, errOutage)
		rep = r.sweep(session.SweepOptions{})
		wantSwept(t, "the next", rep, session.SweepBuried)
		if rep.Providers[0].Named != 2 || len(w.outbox()) != 3 {
			t.Errorf("%+v, outbox %+v", rep, w.outbox())
		}
	})

	for _, at := range []string{"known", "commit"} {
		inWorld(t, "a sweep whose context ends at a "+at+" buries no more and says that it is incomplete", immediate, func(t *testing.T, w *world) {
			r := w.registry(&roster{name: "a", n: 3})
			r.proven()
			ctx, cancel := context.WithCancelCause(t.Context())
			r.meddle(func(c string, _, _ int) trouble {
				if c == at {
					return trouble{late: func(context.Context) { cancel(errOutage) }}
				}
				return trouble{}
			})
			rep, err := r.Sweep(ctx, session.SweepOptions{})
			w.wantSums(rep)
			wantErr(t, "Sweep", err, errOutage)
			want := b2i(at == "commit")
			if !rep.Incomplete || len(w.outbox()) != want || rep.Providers[0].Buried != want || rep.Orphans != 3 {
				t.Errorf("%+v, outbox %+v", rep, w.outbox())
			}
		})
	}

	inWorld(t, "a machine that a list shows twice is buried once", immediate, func(t *testing.T, w *world) {
		p := &roster{name: "a", n: 2}
		p.list = func(ctx context.Context) iter.Seq2[sandbox.Listed, error] {
			return func(yield func(sandbox.Listed, error) bool) {
				for i := range 4 {
					yield(p.machine(i%2, "bunkroom"), nil)
				}
			}
		}
		r := w.registry(p)
		r.proven()
		wantSwept(t, "sweep", r.sweep(session.SweepOptions{}),
			session.SweepSkipped, session.SweepSkipped, session.SweepBuried, session.SweepBuried)
	})
}

// The tombstone of a provider's machine must name that provider, whatever the list says.
func TestOrphanOfAWrapper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, immediate)
		p := &roster{name: "outer"}
		p.list = func(ctx context.Context) iter.Seq2[sandbox.Listed, error] {
			return (&roster{name: "inner", n: 1}).List(ctx, "bunkroom")
		}
		r := w.registry(p)
		r.proven()
		r.sweep(session.SweepOptions{})
		if box := w.outbox(); len(box) != 1 || box[0].Provider != "outer" {
			t.Errorf("outbox %+v", box)
		}
	})
}
