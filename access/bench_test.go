package access_test

import (
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// often is what is asked most: Bob through an agent, with a credential for some
// projects, in a project's session, where everybody may everything.
func often(d decider) *world {
	w := &world{
		a: access.Actor{User: "bob", Agent: "helper", Scope: access.ScopeOf("q", "p")}, owner: "ada", project: "p", agent: "coder",
		shared: true, sessionOwner: "ada", shell: "s",
		f: access.Facts{Project: access.Yes, Role: access.RoleAdmin, Code: access.Yes, Agent: access.Yes, AgentProject: "p", AgentCode: access.Yes, Payer: "ann", Plan: "pro"},
	}
	if d.name == "SendInput" { // which is its owner's alone
		w.owner = w.a.User
	}
	return w
}

func TestDecidersAllocateNothing(t *testing.T) {
	for _, d := range deciders {
		w, stranger := often(d), often(d)
		stranger.a.User, stranger.f.Role = "eve", access.RoleNone
		if !d.decide(w).Allow || d.decide(stranger).Allow {
			t.Fatalf("%s: %+v, %+v", d.name, d.decide(w), d.decide(stranger))
		}
		if n := testing.AllocsPerRun(1000, func() {
			if d.decide(w).Err("verb", "object", errNotFound) != nil {
				t.Error("denied")
			}
			if d.decide(stranger).Err("verb", "object", errNotFound) != errNotFound {
				t.Error("not hidden")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", d.name, n)
		}
	}
}

// byHand are the deciders' rules as a host would write them in a handler,
// without a reason and without telling hidden from open.
var byHand = map[string]func(*world) bool{
	"SeeSession": seenByHand, "UseSession": seenByHand,
	"SpawnSession": func(w *world) bool { return seenByHand(w) && hostedByHand(w) }, "BindConversation": func(w *world) bool { return seenByHand(w) && hostedByHand(w) },
	"RunCode": func(w *world) bool { return seenByHand(w) && runByHand(w, w.agent != "" || w.a.Agent != "") },
	"EndSession": func(w *world) bool {
		if w.a.User != "" && w.a.User == w.owner && w.a.Scope.Reaches(w.project) {
			return true
		}
		return seenByHand(w) && w.f.Role >= access.RoleAdmin && runByHand(w, w.a.Agent != "")
	},
	"SeeConversation": func(w *world) bool {
		if w.a.User == "" || !w.a.Scope.Reaches(w.project) {
			return false
		}
		return w.a.User == w.owner || seenByHand(w) && (w.shared || w.sessionOwner == w.a.User)
	},
	"SendInput": func(w *world) bool { return seenByHand(w) && w.a.User == w.owner && w.a.Depth < access.MaxDepth },
	"UseShell": func(w *world) bool {
		return seenByHand(w) && w.shell == "s" && runByHand(w, w.agent != "" || w.a.Agent != "")
	},
	"UseEnvironment": func(w *world) bool { return w.project != "" && seenByHand(w) },
	"DeleteEnvironment": func(w *world) bool {
		return w.project != "" && seenByHand(w) && w.f.Role >= access.RoleAdmin && runByHand(w, w.a.Agent != "")
	},
	"ViewMount": func(w *world) bool { return seenByHand(w) && !w.protected },
	"EditMount": func(w *world) bool {
		return seenByHand(w) && !w.protected && (w.project == "" || w.f.Role >= access.RoleAdmin || w.f.Code == access.Yes) &&
			(w.a.Agent == "" || w.project != "" && w.f.AgentCode == access.Yes)
	},
	"UseMount": func(w *world) bool { return seenByHand(w) && !w.protected && runByHand(w, w.a.Agent != "") },
}

//go:noinline
func seenByHand(w *world) bool {
	if w.a.User == "" || !w.a.Scope.Reaches(w.project) {
		return false
	}
	if w.project == "" {
		return w.a.User == w.owner
	}
	return w.f.Project == access.Yes && w.f.Role >= access.RoleMember
}

func hostedByHand(w *world) bool {
	return w.a.Depth < access.MaxDepth && (w.agent == "" || w.project != "" && w.f.Agent == access.Yes && w.f.AgentProject == w.project)
}

func runByHand(w *world, agent bool) bool {
	return w.f.Code == access.Yes && (!agent || w.project != "" && w.f.AgentCode == access.Yes)
}

// What the benchmark compares with decides the same.
func TestByHandIsTheSame(t *testing.T) {
	for _, d := range deciders {
		each(d, func(w *world) {
			if got := byHand[d.name](w); got != d.decide(w).Allow && !t.Failed() {
				t.Errorf("%s by hand: %v in %+v", d.name, got, *w)
			}
		})
	}
}

// BenchmarkDeciders reports how many times as long each decider takes on an
// allow as the same rules by hand, in turns and by medians.
func BenchmarkDeciders(b *testing.B) {
	for _, d := range deciders {
		b.Run(d.name, func(b *testing.B) {
			w, hand := often(d), byHand[d.name]
			ours := func() bool { return d.decide(w).Allow }
			theirs := func() bool { return hand(w) }
			compare(b, ours, theirs)
		})
	}
}

// perTurn is how many decisions are timed at once: one is too short for a clock.
const perTurn = 1000

func compare(b *testing.B, ours, theirs func() bool) {
	b.Helper()
	var spent [2][]time.Duration
	sides := [2]func() bool{ours, theirs}
	n := 0
	for b.Loop() {
		for i := range sides {
			side := (i + n) % 2 // neither is always first
			start, yes := time.Now(), 0
			for range perTurn {
				if sides[side]() {
					yes++
				}
			}
			spent[side] = append(spent[side], time.Since(start))
			if yes != perTurn {
				b.Fatalf("%d of %d allowed", yes, perTurn)
			}
		}
		n++
	}
	var each [2]float64
	for side, all := range spent {
		slices.Sort(all)
		each[side] = float64(all[n/2].Nanoseconds()) / perTurn
	}
	b.ReportMetric(each[0], "ours-ns/op")
	b.ReportMetric(each[1], "theirs-ns/op")
	b.ReportMetric(each[0]/each[1], "ratio")
}
