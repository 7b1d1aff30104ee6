package sandbox_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"pgregory.net/rapid"
)

const orphanGrace = 2 * time.Minute

// orphaned is a machine that nobody names, seen long enough, and old enough.
func orphaned() (sandbox.Orphan, sandbox.OrphanFacts) {
	return sandbox.Orphan{
			Listed: sandbox.Listed{
				Ref: sandbox.Ref{Provider: "p", Name: "name-g7", Incarnation: "i1", Host: "here"},
				Labels: map[string]string{
					sandbox.LabelDeployment: "d", sandbox.LabelSandbox: "s", sandbox.LabelGeneration: "7", "another": "label",
				},
				Status: sandbox.StatusRunning, CreatedAt: now.Add(-window - horizon - lag),
			},
			FirstSeen: now.Add(-orphanGrace),
		}, sandbox.OrphanFacts{
			Now: now, Deployment: "d", Grace: orphanGrace, Window: window,
			Caps: sandbox.Caps{CreateHorizon: horizon, VisibilityLag: lag},
		}
}

func label(name, value string) func(*sandbox.Orphan, *sandbox.OrphanFacts) {
	return func(o *sandbox.Orphan, _ *sandbox.OrphanFacts) { o.Listed.Labels[name] = value }
}

func rowIn(state sandbox.State, generation int64, i sandbox.Incarnation) func(*sandbox.Orphan, *sandbox.OrphanFacts) {
	return func(o *sandbox.Orphan, _ *sandbox.OrphanFacts) {
		o.Row = sandbox.Row{ID: "s", State: state, Generation: generation, Incarnation: i, Payer: "payer"}
	}
}

// TestDecideOrphan: each row is the proven orphan but for one thing.
func TestDecideOrphan(t *testing.T) { // rule 10
	type change = func(*sandbox.Orphan, *sandbox.OrphanFacts)
	for _, c := range []struct {
		says   string
		change change
		want   sandbox.OrphanVerdict
	}{
		{"nobody's, seen twice the grace apart, and old", func(*sandbox.Orphan, *sandbox.OrphanFacts) {}, sandbox.OrphanProven},

		{"another deployment's", label(sandbox.LabelDeployment, "d2"), sandbox.OrphanForeign},
		{"labelled for nobody", func(o *sandbox.Orphan, _ *sandbox.OrphanFacts) { o.Listed.Labels = nil }, sandbox.OrphanForeign},
		{"we have no name: nothing is ours", func(o *sandbox.Orphan, f *sandbox.OrphanFacts) {
			o.Listed.Labels[sandbox.LabelDeployment], f.Deployment = "", ""
		}, sandbox.OrphanForeign},
		{"without a sandbox", label(sandbox.LabelSandbox, ""), sandbox.OrphanForeign},
		{"without a generation", label(sandbox.LabelGeneration, ""), sandbox.OrphanForeign},
		{"of no generation that we make", label(sandbox.LabelGeneration, "0"), sandbox.OrphanForeign},
		{"of a generation that is no number", label(sandbox.LabelGeneration, "7x"), sandbox.OrphanForeign},
		{"without an incarnation it could not be killed alone", func(o *sandbox.Orphan, _ *sandbox.OrphanFacts) { o.Listed.Ref.Incarnation = "" }, sandbox.OrphanForeign},
		{"without a name", func(o *sandbox.Orphan, _ *sandbox.OrphanFacts) { o.Listed.Ref.Name = "" }, sandbox.OrphanForeign},
		{"the row that was read is another sandbox's", func(o *sandbox.Orphan, _ *sandbox.OrphanFacts) {
			o.Row = sandbox.Row{ID: "s2"}
		}, sandbox.OrphanForeign},

		{"in the outbox", func(o *sandbox.Orphan, _ *sandbox.OrphanFacts) { o.Buried = true }, sandbox.OrphanNamed},
		{"the row's own", rowIn(sandbox.Live, 7, "i1"), sandbox.OrphanNamed},
		{"dying already", rowIn(sandbox.Destroying, 7, "i1"), sandbox.OrphanNamed},
		{"an attempt may still turn out to be it", rowIn(sandbox.Creating, 7, ""), sandbox.OrphanNamed},
		{"dying, and nobody knows which", rowIn(sandbox.Destroying, 7, ""), sandbox.OrphanNamed},
		{"a second machine of the live generation", rowIn(sandbox.Live, 7, "i2"), sandbox.OrphanProven},
		{"another of the generation is dying", rowIn(sandbox.Destroying, 7, "i2"), sandbox.OrphanProven},
		{"of an earlier generation", rowIn(sandbox.Creating, 8, ""), sandbox.OrphanProven},
		{"of a later generation than the row knows", rowIn(sandbox.Live, 6, "i0"), sandbox.OrphanProven},
		{"the row has none", rowIn(sandbox.None, 7, ""), sandbox.OrphanProven},
		{"lost, and not in the outbox any more", rowIn(sandbox.Lost, 7, "i1"), sandbox.OrphanProven},

		{"seen for the first time", func(o *sandbox.Orphan, _ *sandbox.OrphanFacts) { o.FirstSeen = time.Time{} }, sandbox.OrphanSuspected},
		{"seen twice, less than the grace apart", func(o *sandbox.Orphan, _ *sandbox.OrphanFacts) {
			o.FirstSeen = o.FirstSeen.Add(tick)
		}, sandbox.OrphanSuspected},
		{"young: a create that made it may not be answered yet", func(o *sandbox.Orphan, _ *sandbox.OrphanFacts) {
			o.Listed.CreatedAt = o.Listed.CreatedAt.Add(tick)
		}, sandbox.OrphanYoung},
		{"of unknown age it is as old as we have known it", func(o *sandbox.Orphan, _ *sandbox.OrphanFacts) {
			o.Listed.CreatedAt = time.Time{}
		}, sandbox.OrphanYoung},
		{"of unknown age, known for long enough", func(o *sandbox.Orphan, _ *sandbox.OrphanFacts) {
			o.Listed.CreatedAt, o.FirstSeen = time.Time{}, now.Add(-window-horizon-lag)
		}, sandbox.OrphanProven},
		{"a horizon that is not known is long", func(_ *sandbox.Orphan, f *sandbox.OrphanFacts) { f.Caps.CreateHorizon = 0 }, sandbox.OrphanYoung},
		{"where everything is at once the window is enough", func(o *sandbox.Orphan, f *sandbox.OrphanFacts) {
			f.Caps = sandbox.Caps{CreateHorizon: sandbox.Immediate, VisibilityLag: sandbox.Immediate}
			o.Listed.CreatedAt = now.Add(-window)
		}, sandbox.OrphanProven},
		{"whatever its status", func(o *sandbox.Orphan, _ *sandbox.OrphanFacts) { o.Listed.Status = sandbox.StatusFailed }, sandbox.OrphanProven},
	} {
		t.Run(c.says, func(t *testing.T) {
			o, f := orphaned()
			c.change(&o, &f)
			verdict, tomb := sandbox.DecideOrphan(o, f)
			if verdict != c.want {
				t.Fatalf("%v, want %v", verdict, c.want)
			}
			want := sandbox.Tombstone{}
			if verdict == sandbox.OrphanProven {
				want = sandbox.Tombstone{
					TombstoneKey: sandbox.TombstoneKey{Sandbox: "s", Generation: 7, Incarnation: "i1"},
					Name:         "name-g7", Provider: "p", Host: "here", Payer: o.Row.Payer, Deployment: "d", Origin: sandbox.OriginTornDown,
				}
			}
			if tomb != want {
				t.Errorf("tombstone %+v, want %+v", tomb, want)
			}
		})
	}
}

// anyOrphan draws a machine and what is known of it: the proven orphan, but
// for a few things, each of which is as it is one time in eight. Moments are on
// both sides of each boundary.
func anyOrphan(t *rapid.T) (sandbox.Orphan, sandbox.OrphanFacts) {
	odd := func(what string) bool { return rapid.IntRange(0, 7).Draw(t, what) == 7 }
	pick := func(what, usual string, others ...string) string {
		if odd(what) {
			return rapid.SampledFrom(others).Draw(t, what)
		}
		return usual
	}
	moment := func(what string, usual time.Time) time.Time {
		switch {
		case odd(what):
			return time.Time{}
		case odd(what):
			return usual.Add(rapid.SampledFrom([]time.Duration{tick, -tick, time.Minute, -time.Minute, time.Hour, -time.Hour}).Draw(t, what))
		}
		return usual
	}
	o, f := orphaned()
	l := &o.Listed
	l.Ref.Incarnation = sandbox.Incarnation(pick("incarnation", "i1", "i2", ""))
	l.Ref.Name = pick("name", "name-g7", "")
	l.Labels = map[string]string{
		sandbox.LabelDeployment: pick("deployment", "d", "d2", ""),
		sandbox.LabelSandbox:    pick("sandbox", "s", "s2", ""),
		sandbox.LabelGeneration: pick("generation", "7", "6", "8", "-1", "x"),
	}
	l.CreatedAt, o.FirstSeen = moment("created", l.CreatedAt), moment("first seen", o.FirstSeen)
	o.Buried = odd("buried")
	if rapid.Bool().Draw(t, "row") {
		o.Row = sandbox.Row{
			ID: "s", State: sandbox.State(rapid.IntRange(0, 4).Draw(t, "state")), Generation: rapid.Int64Range(6, 8).Draw(t, "row's generation"),
			Incarnation: rapid.SampledFrom([]sandbox.Incarnation{"i1", "i2", ""}).Draw(t, "row's incarnation"),
		}
	}
	return o, f
}

// What must never be taken for an orphan, said in its own words: the decider
// is judged by what it concludes, not by how.
func TestDecideOrphanErrsTowardsLeavingAlone(t *testing.T) { // rule 10
	verdicts := map[sandbox.OrphanVerdict]int{}
	rapid.Check(t, func(t *rapid.T) {
		for range 30 {
			o, f := anyOrphan(t)
			verdicts[errsTowardsLeavingAlone(t, o, f)]++
		}
	})
	for v := sandbox.OrphanForeign; v <= sandbox.OrphanProven; v++ {
		if verdicts[v] == 0 {
			t.Errorf("%v never came up: the property was about nothing", v)
		}
	}
}

// errsTowardsLeavingAlone ends t where the verdict on o claims too much.
func errsTowardsLeavingAlone(t *rapid.T, o sandbox.Orphan, f sandbox.OrphanFacts) sandbox.OrphanVerdict {
	l, labels := o.Listed, maps.Clone(o.Listed.Labels)
	verdict, tomb := sandbox.DecideOrphan(o, f)
	if !maps.Equal(l.Labels, labels) {
		t.Fatal("the caller's labels were changed")
	}
	if verdict != sandbox.OrphanProven {
		if tomb != (sandbox.Tombstone{}) {
			t.Fatalf("%v, and yet a tombstone %+v", verdict, tomb)
		}
		return verdict
	}
	older := func(d time.Duration, than time.Time) bool { return !than.IsZero() && f.Now.Sub(than) >= d }
	enough := f.Window + f.Caps.Horizon() + f.Caps.Lag()
	switch {
	case labels[sandbox.LabelDeployment] != f.Deployment:
		t.Fatal("a machine with foreign labels")
	case o.Buried:
		t.Fatal("a machine that the outbox names")
	case o.Row.State == sandbox.Live && o.Row.Incarnation == l.Ref.Incarnation && fmt.Sprint(o.Row.Generation) == labels[sandbox.LabelGeneration]:
		t.Fatal("a machine that its row names as live")
	case o.Row.State == sandbox.Creating && fmt.Sprint(o.Row.Generation) == labels[sandbox.LabelGeneration] && o.Row.Incarnation == "":
		t.Fatal("a machine that its row may be waiting for")
	case !older(f.Grace, o.FirstSeen):
		t.Fatal("a machine seen once, or not long ago")
	case !l.CreatedAt.IsZero() && !older(enough, l.CreatedAt), l.CreatedAt.IsZero() && !older(enough, o.FirstSeen):
		t.Fatal("a young machine")
	case tomb.Ref() != l.Ref || tomb.Incarnation == "" || string(tomb.Sandbox) != labels[sandbox.LabelSandbox] ||
		fmt.Sprint(tomb.Generation) != labels[sandbox.LabelGeneration]:
		t.Fatalf("the tombstone names %+v, the list %+v", tomb, l)
	case !tomb.AbsentSince.IsZero() || !tomb.NotBefore.IsZero() || tomb.Delay != 0 || tomb.Absent:
		t.Fatalf("a proof that nobody has made: %+v", tomb)
	}
	return verdict
}

// To wait never makes an orphan of what somebody names, and what is proven
// once stays so for as long as nobody names it: the passes agree.
func TestDecideOrphanTimeOnlyRipens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, f := anyOrphan(t)
		before, _ := sandbox.DecideOrphan(o, f)
		f.Now = f.Now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "later")))
		after, _ := sandbox.DecideOrphan(o, f)
		if before <= sandbox.OrphanNamed && after != before || before == sandbox.OrphanProven && after != before {
			t.Fatalf("%v, later %v", before, after)
		}
		if o.FirstSeen.IsZero() && after == sandbox.OrphanProven {
			t.Fatal("proven by time alone")
		}
	})
}

func TestDecideOrphanVerdictsAreTold(t *testing.T) {
	told := map[string]bool{}
	for v := sandbox.OrphanForeign; v <= sandbox.OrphanProven; v++ {
		if s := v.String(); s == "" || strings.ContainsAny(s, " %") || told[s] {
			t.Errorf("verdict %d is told as %q", v, s)
		} else {
			told[s] = true
		}
	}
}
