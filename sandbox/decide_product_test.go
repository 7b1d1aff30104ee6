package sandbox_test

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// now is the store's clock when a row was loaded, later when the step is
// committed: what is stamped must be stamped with the latter.
var (
	now   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	later = now.Add(7 * time.Millisecond)
)

const tick = time.Microsecond // what lies just on the other side of a boundary

// dim is one dimension of the product: its values, set one after the other.
type dim []func(*given)

func values[T any](set func(*given, T), all ...T) dim {
	d := make(dim, len(all))
	for i, v := range all {
		d[i] = func(g *given) { set(g, v) }
	}
	return d
}

// caps are what a provider's answers may be worth. Those of the row's
// provider and of the one an Ensure asks for are the same here.
func capsDim() dim {
	var all []sandbox.Caps
	for _, unique := range []bool{false, true} {
		for _, lag := range []time.Duration{sandbox.Immediate, time.Minute, 0} {
			all = append(all, sandbox.Caps{UniqueNames: unique, VisibilityLag: lag, CreateHorizon: lag / 2})
		}
	}
	return values(func(g *given, c sandbox.Caps) { g.facts.Caps = c }, all...)
}

func lossDim() dim {
	return values(func(g *given, n int64) { g.facts.LossAccepted = n }, 0, 7, 6)
}
func mountDim() dim {
	return values(func(g *given, yes bool) { g.facts.SessionMount = yes }, false, true)
}
func slotsDim() dim {
	return values(func(g *given, yes bool) { g.facts.SlotsLive = yes }, false, true)
}

// rowDims are the shapes of a row, with every moment on either side of its boundary.
func rowDims() []dim {
	type state struct {
		state       sandbox.State
		incarnation sandbox.Incarnation
	}
	return []dim{
		values(func(g *given, s state) { g.row.State, g.row.Incarnation = s.state, s.incarnation },
			state{sandbox.None, ""}, state{sandbox.Creating, ""}, state{sandbox.Live, "i1"},
			state{sandbox.Lost, "i1"}, state{sandbox.Lost, ""}, state{sandbox.Destroying, ""}, state{sandbox.Destroying, "i1"}),
		values(func(g *given, yes bool) { g.facts.Ended = yes }, false, true),
		values(func(g *given, h string) { g.row.Host = h }, "here", "there", ""),
		values(func(g *given, d time.Duration) { g.row.Deadline = now.Add(d) }, tick, 0, -time.Second),
		values(func(g *given, d time.Duration) { g.row.MaxDeadline = now.Add(d) }, tick, 0),
		values(func(g *given, d time.Duration) { g.row.NotBefore = now.Add(d) }, tick, 0),
		values(func(g *given, n int64) { g.row.Attempts = n }, 0, 1, 40),
	}
}

// lagDims are the moments that are measured against the lag; they come after the caps.
func lagDims() []dim {
	const never = time.Duration(-1)
	return []dim{
		values(func(g *given, d time.Duration) {
			g.row.AbsentSince = time.Time{}
			if d != never {
				g.row.AbsentSince = now.Add(d - g.facts.Caps.Lag())
			}
		}, never, tick, 0),
		values(func(g *given, d time.Duration) { g.row.LiveAt = now.Add(d - g.facts.Caps.Lag()) }, tick, 0),
	}
}

func event[E sandbox.Event](all ...E) dim {
	return values(func(g *given, e E) { g.event = e }, all...)
}

// ensures come with each nonce, and once for a row that has no key yet.
func ensures() dim {
	type variant struct {
		nonce  string
		stored sandbox.Key
	}
	return values(func(g *given, v variant) {
		g.row.Key = v.stored
		g.event = sandbox.Ensure{
			Nonce: v.nonce, Provider: "q", Caps: g.facts.Caps, Host: "here", Key: "bkr-derived", Payer: "payer-2",
			Deployment: "d2", Spec: sandbox.Spec{Image: "new"},
		}
	}, variant{"n1", "bkr-stored"}, variant{"n2", "bkr-stored"}, variant{"", "bkr-stored"}, variant{"n2", ""})
}

func stops() dim {
	return event(sandbox.Stop{Why: sandbox.StopEnd}, sandbox.Stop{Why: sandbox.StopEnvironment},
		sandbox.Stop{Why: sandbox.StopIdle}, sandbox.Stop{Why: 9})
}

func observations() dim {
	f := func(i sandbox.Incarnation, s sandbox.Status) sandbox.Found {
		return sandbox.Found{Incarnation: i, Status: s}
	}
	all := [][]sandbox.Found{
		nil,
		{f("i1", sandbox.StatusRunning)},
		{f("i2", sandbox.StatusRunning)},
		{f("i1", sandbox.StatusStopped)},
		{f("i2", sandbox.StatusStarting)},
		{f("i1", sandbox.StatusUnknown)},
		{f("i2", sandbox.StatusFailed)},
		{f("i3", sandbox.StatusRunning), f("i2", sandbox.StatusStopped), f("i1", sandbox.StatusStarting)},
		{f("i3", sandbox.StatusFailed), f("i2", sandbox.StatusStarting)},
		{f("i3", sandbox.StatusFailed), f("i2", sandbox.StatusRunning)},
	}
	d := values(func(g *given, found []sandbox.Found) {
		g.event = sandbox.Observed{Generation: g.row.Generation, Incarnation: g.row.Incarnation, Host: "here", Found: found}
	}, all...)
	// Of another generation, or of another incarnation, than the row has.
	return append(d, values(func(g *given, found []sandbox.Found) {
		g.event = sandbox.Observed{Generation: g.row.Generation - 1, Incarnation: g.row.Incarnation, Host: "here", Found: found}
	}, nil, all[1])...)
}

func strangeObservations() dim {
	return values(func(g *given, i sandbox.Incarnation) {
		g.event = sandbox.Observed{Generation: g.row.Generation, Incarnation: g.row.Incarnation + i, Host: "here"}
	}, "x", "y")
}

func createds() dim {
	as := func(id sandbox.ID, generation int64, i sandbox.Incarnation) sandbox.Created {
		return sandbox.Created{As: sandbox.Tombstone{
			TombstoneKey: sandbox.TombstoneKey{Sandbox: id, Generation: generation, Incarnation: i},
			Name:         "made", Provider: "p", Host: "here", Payer: "payer", Deployment: "d",
		}}
	}
	return event(as("s", 7, "i1"), as("s", 7, "i2"), as("s", 6, "i1"), as("s", 8, "i1"), as("other", 7, "i1"), as("s", 7, ""))
}

// base is what all cases share.
func base() given {
	return given{
		row: sandbox.Row{
			ID: "s", Version: 3, Session: "session", Provider: "p", Key: "bkr-stored", Payer: "payer", Deployment: "d",
			Spec: sandbox.Spec{Image: "old"}, Generation: 7, Name: "name-g7", Nonce: "n1", DestroyedAt: now.Add(-24 * time.Hour),
			MeasuredBytes: 5, MeasuredAt: now.Add(-time.Hour), MeasuredIncarnation: "i0", StoredUsed: 7, StoredAt: now.Add(-time.Hour),
		},
		facts: sandbox.Facts{Now: now, Window: time.Minute, MaxWindow: time.Hour},
	}
}

// TestDecideTwin compares Decide with the table over the product of row
// shapes, capabilities, facts and events. Of the capabilities and facts that
// no row of the table names for an event, the two extremes are taken.
func TestDecideTwin(t *testing.T) {
	rest := event[sandbox.Event](sandbox.NotSent{Nonce: "n1"}, sandbox.NotSent{Nonce: "n2"}, sandbox.NotSent{},
		sandbox.Unanswered{}, sandbox.Attached{}, sandbox.Unreached{}, sandbox.Reopen{}, sandbox.Deleted{},
		sandbox.HostGone{Host: "here"}, sandbox.HostGone{Host: "elsewhere"}, sandbox.HostGone{}, nil)
	factDims := []dim{lossDim(), mountDim(), slotsDim()}
	for _, p := range []struct {
		name   string
		caps   dim
		facts  []dim
		events dim
	}{
		{"ensure", capsDim(), factDims, ensures()},
		{"stop", extremeCaps(), factDims, stops()},
		{"observed", capsDim(), []dim{extremeFacts()}, slices.Concat(observations(), strangeObservations())},
		{"rest", extremeCaps(), []dim{extremeFacts()}, slices.Concat(createds(), rest)},
	} {
		t.Run(p.name, func(t *testing.T) {
			compare(t, slices.Concat(rowDims(), []dim{p.caps}, lagDims(), p.facts, []dim{p.events}))
		})
	}
}

func extremeCaps() dim {
	return values(func(g *given, c sandbox.Caps) { g.facts.Caps = c }, sandbox.Caps{},
		sandbox.Caps{UniqueNames: true, VisibilityLag: sandbox.Immediate, CreateHorizon: sandbox.Immediate})
}

func extremeFacts() dim {
	return values(func(g *given, all bool) {
		if g.facts.SessionMount, g.facts.SlotsLive = all, all; all {
			g.facts.LossAccepted = 7
		}
	}, false, true)
}

// compare compares every case of the product of dims. Where time is short it
// takes a prime stride, which meets every pair, and nearly every triple, of values.
func compare(t *testing.T, dims []dim) {
	size, stride := 1, 1
	for _, d := range dims {
		size *= len(d)
	}
	switch {
	case testing.Short():
		stride = 101
	case raceEnabled:
		stride = 23
	}
	var next, cases atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			const batch = 4096
			var g given
			var want, got after
			for !t.Failed() {
				from := int(next.Add(batch)) - batch
				if from*stride >= size {
					return
				}
				for k := from; k < from+batch && k*stride < size; k++ {
					n := k * stride
					g = base()
					for _, d := range dims {
						d[n%len(d)](&g)
						n /= len(d)
					}
					if what := differs(&g, &want, &got); what != "" {
						t.Error(explain(what, &g))
						return
					}
					cases.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if want := int64((size + stride - 1) / stride); !t.Failed() && cases.Load() != want {
		t.Errorf("%d cases compared, want %d", cases.Load(), want)
	}
	t.Logf("%d of %d cases", cases.Load(), size)
}

// differs says in what Decide and the table differ in the case g, or nothing.
// Its two answers are scratch space: there are millions of cases.
func differs(g *given, want, got *after) string {
	match := twin(g, later, want)
	step, err := sandbox.Decide(g.row, g.facts, g.event)
	switch {
	case match > 1:
		return "nothing, but the table is ambiguous"
	case !sameError(err, want.refused):
		return "refusal"
	case err != nil && !nothing(&step):
		return "a refusal that comes with a step"
	case err != nil:
		return ""
	case !step.Write && step.Stamps != sandbox.Stamps{}:
		return "stamps without a row"
	}
	commit(got, g.row, &step, later)
	switch {
	case step.Write == sameRow(&got.row, &g.row):
		return "that a step writes exactly where it changes something"
	case !sameRow(&got.row, &want.row):
		return "row"
	case !slices.Equal(got.bury, want.bury):
		return "outbox"
	case got.unclaimed != want.unclaimed, got.counted != want.counted, got.idle != want.idle:
		return "guards of the commit"
	case got.then != want.then || !slices.Equal(got.kill, want.kill):
		return "effect"
	case !sameError(got.report, want.report):
		return "report"
	}
	return ""
}

// explain describes a difference.
func explain(what string, g *given) string {
	var want, got after
	twin(g, later, &want)
	step, err := sandbox.Decide(g.row, g.facts, g.event)
	commit(&got, g.row, &step, later)
	got.refused = err
	return fmt.Sprintf("differs in %s\nrow: %+v\nfacts: %+v\nevent: %T%+v\nedges: %q\ntable: %+v\ngot:   %+v",
		what, g.row, g.facts, g.event, g.event, edges(g), want, got)
}

func nothing(s *sandbox.Step) bool {
	return !s.Write && s.Then == sandbox.EffectNone && s.Report == nil && s.Bury == nil && s.Kill == nil &&
		s.Unclaimed == "" && !s.CountMachine && !s.RequireIdle && s.Stamps == sandbox.Stamps{} && sameRow(&s.Row, &sandbox.Row{})
}

// commit is what a store makes of a step.
func commit(a *after, row sandbox.Row, s *sandbox.Step, clock time.Time) {
	*a = after{row: row, unclaimed: s.Unclaimed, counted: s.CountMachine, idle: s.RequireIdle, then: s.Then, kill: s.Kill, report: s.Report}
	if s.Write {
		a.row = s.Stamps.Apply(s.Row, clock)
	}
	for _, t := range s.Bury {
		a.bury = append(a.bury, t.Stamped(clock))
	}
}

// sameError compares typed errors by value and others by the sentinel.
func sameError(got, want error) bool {
	switch w := want.(type) {
	case nil:
		return got == nil
	case *sandbox.ProvisioningError:
		e, ok := got.(*sandbox.ProvisioningError)
		return ok && *e == *w
	case *sandbox.LostError:
		e, ok := got.(*sandbox.LostError)
		return ok && *e == *w
	case *sandbox.AttemptsError:
		e, ok := got.(*sandbox.AttemptsError)
		return ok && *e == *w
	}
	return errors.Is(got, want)
}

// sameRow is equality of rows; TestSameRow sees to it that no column is left out.
func sameRow(a, b *sandbox.Row) bool {
	return a.ID == b.ID && a.Version == b.Version && a.Session == b.Session && a.Environment == b.Environment &&
		a.Provider == b.Provider && a.Key == b.Key && a.Payer == b.Payer && a.Deployment == b.Deployment &&
		a.Spec.Image == b.Spec.Image && a.Spec.Class == b.Spec.Class && slices.Equal(a.Spec.Env, b.Spec.Env) &&
		a.State == b.State && a.Generation == b.Generation && a.Name == b.Name && a.Incarnation == b.Incarnation &&
		a.Host == b.Host && a.Nonce == b.Nonce && a.Attempts == b.Attempts &&
		a.Deadline.Equal(b.Deadline) && a.MaxDeadline.Equal(b.MaxDeadline) && a.NotBefore.Equal(b.NotBefore) &&
		a.AbsentSince.Equal(b.AbsentSince) && a.LiveAt.Equal(b.LiveAt) && a.DestroyedAt.Equal(b.DestroyedAt) &&
		a.MeasuredBytes == b.MeasuredBytes && a.MeasuredAt.Equal(b.MeasuredAt) && a.MeasuredIncarnation == b.MeasuredIncarnation &&
		a.StoredUsed == b.StoredUsed && a.StoredAt.Equal(b.StoredAt)
}

func TestSameRow(t *testing.T) {
	typ := reflect.TypeFor[sandbox.Row]()
	for i := range typ.NumField() {
		var row sandbox.Row
		switch v := reflect.ValueOf(&row).Elem().Field(i); v.Interface().(type) {
		case time.Time:
			v.Set(reflect.ValueOf(now))
		case sandbox.Spec:
			v.Set(reflect.ValueOf(sandbox.Spec{Env: []string{"A=b"}}))
		default:
			if v.Kind() == reflect.String {
				v.SetString("x")
			} else if v.CanInt() {
				v.SetInt(1)
			} else {
				v.SetUint(1)
			}
		}
		if sameRow(&row, &sandbox.Row{}) {
			t.Errorf("column %s is not compared", typ.Field(i).Name)
		}
	}
}
