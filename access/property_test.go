package access_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/bunkroom/bunkroom/access"
)

var errNotFound = errors.New("not found")

// TestDecidersProperties holds for every decider, asked in every seventh case:
// seven divides the number of values of no fact, so that all of them mix.
func TestDecidersProperties(t *testing.T) {
	_, hiddenCode, hiddenSentence := access.ReasonNotMember.Problem()
	for _, d := range deciders {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			cases := 0
			each(d, func(w *world) {
				if cases++; cases%7 != 0 || t.Failed() {
					return
				}
				got := d.decide(w)
				fail := func(rule string) { t.Errorf("%s: %+v\nin %+v", rule, got, *w) }
				if got.Allow != (got.Reason == access.ReasonAllowed) || got.Allow && got.Hidden {
					fail("an allow has its own reason and hides nothing")
				}
				err := got.Err("verb", "object", errNotFound)
				switch {
				case got.Allow && err != nil:
					fail("an allow is no error")
				case got.Hidden && err != errNotFound:
					fail("a hidden denial is the very error of an absent object")
				case !got.Allow && !got.Hidden:
					var denied *access.DeniedError
					if !errors.As(err, &denied) || denied.Reason != got.Reason || errors.Is(err, errNotFound) {
						fail("an open denial tells its reason")
					}
				}
				status, code, sentence := got.Reason.Problem()
				if got.Hidden && (status != 404 || code != hiddenCode || sentence != hiddenSentence) {
					fail("all hidden denials are one to a client")
				}
				if !got.Allow && !got.Hidden && (status == 404 || code == hiddenCode) {
					fail("an open denial is not told as what is not there")
				}
				for _, less := range withoutOne(w) {
					if d.decide(&less).Allow && !got.Allow {
						fail("unknown allows what a known answer does not")
					}
				}
				for _, more := range withOneMore(w) {
					if got.Allow && !d.decide(&more).Allow {
						fail("one more right removes access")
					}
				}
				asked := *w
				asked.f = only(w.f, d.needs)
				if d.decide(&asked) != got {
					fail("rests on facts that it does not say it needs")
				}
			})
		})
	}
}

// withoutOne is w with each of its facts unknown in turn.
func withoutOne(w *world) []world {
	all := slices.Repeat([]world{*w}, len(forget))
	for i := range all {
		forget[i](&all[i].f)
	}
	return all
}

// forget are the ways in which one fact becomes unknown.
var forget = []func(*access.Facts){
	func(f *access.Facts) { f.Project = access.Unknown },
	func(f *access.Facts) { f.Role = access.RoleUnknown },
	func(f *access.Facts) { f.Code = access.Unknown },
	func(f *access.Facts) { f.Agent = access.Unknown },
	func(f *access.Facts) { f.AgentProject = "" },
	func(f *access.Facts) { f.AgentCode = access.Unknown },
}

// withOneMore is w with each right added in turn.
func withOneMore(w *world) []world {
	all := slices.Repeat([]world{*w}, len(grant))
	for i := range all {
		grant[i](&all[i])
	}
	return all
}

// grant are the ways in which somebody has one right more.
var grant = []func(*world){
	func(w *world) { w.f.Project = access.Yes },
	func(w *world) { w.f.Role = min(w.f.Role+1, access.RoleOwner) },
	func(w *world) { w.f.Code = access.Yes },
	func(w *world) { w.f.Agent = access.Yes },
	func(w *world) { w.f.AgentCode = access.Yes },
	func(w *world) { w.f.AgentProject = w.project },
	func(w *world) { w.a.Scope = access.Scope{} },
	func(w *world) { // one project more
		if w.a.Scope.Confined() {
			w.a.Scope = access.ScopeOf(append(slices.DeleteFunc([]access.ProjectID{"p", "q"}, func(p access.ProjectID) bool { return !w.a.Scope.Reaches(p) }), w.project)...)
		}
	},
	func(w *world) { w.a.Agent = "" }, // nobody's right but the user's own is asked
	func(w *world) { w.shared = true },
	func(w *world) { w.protected = false },
	func(w *world) { w.a.Depth = 0 },
	func(w *world) { w.shell = "s" },
}

// only is f as a host answers that was asked for no more than want.
func only(f access.Facts, want access.Want) access.Facts {
	var g access.Facts
	if want.Has(access.WantRole) {
		g.Project, g.Role = f.Project, f.Role
	}
	if want.Has(access.WantCode) {
		g.Code = f.Code
	}
	if want.Has(access.WantAgent) {
		g.Agent, g.AgentProject, g.AgentCode = f.Agent, f.AgentProject, f.AgentCode
	}
	return g
}

// Of the facts that a decider says it needs there is none it could do without:
// somebody loses access if that one alone is not found out.
func TestDecidersNeedWhatTheySay(t *testing.T) {
	for _, d := range deciders {
		for _, want := range []access.Want{access.WantRole, access.WantCode, access.WantAgent} {
			if !d.needs.Has(want) {
				continue
			}
			lost := false
			each(d, func(w *world) {
				if lost || !d.decide(w).Allow {
					return
				}
				blind := *w
				blind.f = only(w.f, d.needs&^want)
				lost = !d.decide(&blind).Allow
			})
			if !lost {
				t.Errorf("%s allows nobody less where the facts of %b are unknown", d.name, want)
			}
		}
	}
}

// What each decider may answer besides allowed. The first six are those of a stranger.
var stranger = []access.Reason{
	access.ReasonNoUser, access.ReasonOutOfScope, access.ReasonNotOwner, access.ReasonProjectGone, access.ReasonNotMember, access.ReasonUnknown,
}

var answers = map[string][]access.Reason{
	"SeeSession":        nil,
	"UseSession":        nil,
	"SpawnSession":      {access.ReasonAssistantOnly, access.ReasonAgentUnavailable, access.ReasonAgentElsewhere, access.ReasonTooDeep},
	"BindConversation":  {access.ReasonAssistantOnly, access.ReasonAgentUnavailable, access.ReasonAgentElsewhere, access.ReasonTooDeep},
	"RunCode":           {access.ReasonNoCode, access.ReasonAgentNoCode},
	"EndSession":        {access.ReasonNotYoursToStop, access.ReasonNoCode, access.ReasonAgentNoCode},
	"SeeConversation":   {access.ReasonPrivateConversation},
	"SendInput":         {access.ReasonPrivateConversation, access.ReasonNotYourConversation, access.ReasonTooDeep},
	"UseShell":          {access.ReasonShellElsewhere, access.ReasonNoCode, access.ReasonAgentNoCode},
	"UseEnvironment":    nil,
	"DeleteEnvironment": {access.ReasonNotYoursToStop, access.ReasonNoCode, access.ReasonAgentNoCode},
	"ViewMount":         {access.ReasonProtected},
	"EditMount":         {access.ReasonProtected, access.ReasonViewOnly, access.ReasonAgentNoCode},
	"UseMount":          {access.ReasonProtected, access.ReasonNoCode, access.ReasonAgentNoCode},
}

func TestReasonsOfEachDecider(t *testing.T) { // the table is closed, and every reason is somebody's
	used := map[access.Reason]bool{access.ReasonNone: true} // the zero Decision's
	for _, d := range deciders {
		want := map[access.Reason]bool{access.ReasonAllowed: true}
		for _, r := range slices.Concat(stranger, answers[d.name]) {
			want[r] = true
		}
		if d.name == "SpawnSession" { // what one spawns is one's own
			delete(want, access.ReasonNotOwner)
		}
		got := map[access.Reason]bool{}
		each(d, func(w *world) { got[d.decide(w).Reason] = true })
		for _, r := range access.Reasons() {
			if got[r] != want[r] {
				t.Errorf("%s answers %v: %v, want %v", d.name, r, got[r], want[r])
			}
			used[r] = used[r] || got[r]
		}
	}
	for _, r := range access.Reasons() {
		if !used[r] {
			t.Errorf("no decider answers %v", r)
		}
	}
	if len(answers) != len(deciders) {
		t.Errorf("%d deciders, and the reasons of %d", len(deciders), len(answers))
	}
}

// rests are pairs of deciders the first of which allows nothing that the
// second does not, and hides what the second hides.
var rests = [][2]string{
	{"UseSession", "SeeSession"}, {"RunCode", "UseSession"}, {"BindConversation", "UseSession"},
	{"DeleteEnvironment", "UseEnvironment"}, {"SendInput", "SeeConversation"}, {"UseShell", "UseSession"}, {"UseShell", "RunCode"},
	{"EditMount", "ViewMount"}, {"UseMount", "ViewMount"}, {"UseMount", "EditMount"},
	// Who takes a session's folder into its machine has both rights, the session's and the folder's.
	{"ViewMount", "SeeSession"}, {"UseMount", "SeeSession"},
}

func TestMoreRestsOnLess(t *testing.T) {
	named := map[string]decider{}
	for _, d := range deciders {
		named[d.name] = d
	}
	for _, pair := range rests {
		more, less := named[pair[0]], named[pair[1]]
		each(more, func(w *world) {
			m, l := more.decide(w), less.decide(w)
			if (m.Allow && !l.Allow || l.Hidden && m != l) && !t.Failed() {
				t.Errorf("%s says %+v where %s says %+v\nin %+v", more.name, m, less.name, l, *w)
			}
		})
	}
}
