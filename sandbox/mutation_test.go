package sandbox_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/bunkroom/bunkroom/internal/mutanttest"
	"github.com/bunkroom/bunkroom/internal/need"
)

// mutation takes one load-bearing rule out of a source file.
type mutation struct {
	rule     string
	file     string
	old, new string
}

var mutations = []mutation{
	{"a generation is never used twice", "decide.go",
		"next.Generation++", "next.Generation += 0"},
	{"an intent stores from when on absence proves something: deadline, horizon and lag", "decide.go",
		"NotBefore: f.Window + c.Horizon() + c.Lag()}", "NotBefore: f.Window}"},
	{"the tombstone of a row takes its not_before along", "row.go",
		"t.NotBefore = r.NotBefore", "t.NotBefore = time.Time{}"},
	{"destroying is absorbing: it is never used again", "decide.go",
		"	case Live:\n		return Step{Then: EffectAttach}, nil", "	case Live, Destroying:\n		return Step{Then: EffectAttach}, nil"},
	{"a dying machine moves to the outbox when the next generation begins", "decide.go",
		"step.Bury = []Tombstone{t}\n	}\n	return step, nil\n}\n\n// window", "_ = t\n	}\n	return step, nil\n}\n\n// window"},
	{"what has ended gets no machine", "decide.go",
		"if f.Ended {\n		return Step{}, about(row.ID, ErrEnded)", "if false {\n		return Step{}, about(row.ID, ErrEnded)"},
	{"adoption refuses what the outbox names", "decide.go",
		"step.Unclaimed = i", "step.Unclaimed = \"\""},
	{"the creator that lost buries its machine and does not kill it", "decide.go",
		"return Step{Bury: []Tombstone{e.As}, Report", "return Step{Then: EffectDestroy, Kill: []Incarnation{e.As.Incarnation}, Report"},
	{"a reply counts for its own generation only", "decide.go",
		"same := row.ID == e.As.Sandbox && row.Generation == e.As.Generation", "same := row.ID == e.As.Sandbox"},
	{"absence is proven by two answers, not by one", "decide.go",
		"case absentSince.IsZero():\n		return proofFirst", "case false:\n		return proofFirst"},
	{"the two are the visibility lag apart", "decide.go",
		"case f.Now.Before(absentSince.Add(f.Caps.Lag())) || f.Now.Before(notBefore):", "case f.Now.Before(notBefore):"},
	{"nothing is proven before not_before", "decide.go",
		"case f.Now.Before(absentSince.Add(f.Caps.Lag())) || f.Now.Before(notBefore):", "case f.Now.Before(absentSince.Add(f.Caps.Lag())):"},
	{"a sighting clears what spoke for absence", "decide.go",
		"	row.AbsentSince = time.Time{}\n	return write(row)", "	return write(row)"},
	{"proof counts from when the row entered destroying", "decide.go",
		"row.State, row.AbsentSince, row.NotBefore = Destroying, time.Time{}, time.Time{}", "row.State, row.NotBefore = Destroying, time.Time{}"},
	{"a not-found younger than the lag is unknown", "decide.go",
		"case f.Now.Before(row.LiveAt.Add(lag)):", "case false:"},
	{"a machine is lost only when missed twice, the lag apart", "decide.go",
		"case f.Now.Before(row.AbsentSince.Add(lag)):", "case false:"},
	{"a lost machine goes to the outbox", "decide.go",
		"step.Bury = []Tombstone{dead}", "_ = dead"},
	{"from another host a not-found is unknown", "decide.go",
		"if row.Host != \"\" && row.Host != e.Host {", "if false {"},
	{"an idle stop needs that nobody works", "decide.go",
		"if e.Why == StopIdle && f.SlotsLive {", "if false {"},
	{"an idle stop asks again in its commit", "decide.go",
		"step.RequireIdle = e.Why == StopIdle", "step.RequireIdle = false"},
	{"others wait on the row while one creates", "decide.go",
		"case mine(row, e.Nonce): //", "case true: //"},
	{"an attempt is its creator's own until the deadline", "decide.go",
		"if f.Now.Before(row.Deadline) {", "if false {"},
	{"an attempt that was not one's own is not taken back", "decide.go",
		"if row.State != Creating || !mine(row, e.Nonce) {", "if row.State != Creating {"},
	{"what runs is adopted before an attempt is given up", "decide.go",
		"if i, ok := ready(e.Found); ok {", "if i, ok := ready(nil); ok {"},
	{"duplicates of an adopted generation go to the outbox", "decide.go",
		"step.Bury = []Tombstone{others}", "_ = others"},
	{"a starting machine is waited for, up to a hard maximum", "decide.go",
		"if starting(e.Found) && f.Now.Before(row.MaxDeadline) {", "if starting(e.Found) {"},
	{"a stored key wins over a derived one", "decide.go",
		"if next.Key == \"\" {", "if true {"},
	{"the payer is renewed with every generation", "decide.go",
		"	next.Payer = e.Payer //", "	if next.Key == \"\" {\n		next.Payer = e.Payer\n	} //"},
	{"a loss must be accepted", "decide.go",
		"if !f.SessionMount && f.LossAccepted != row.Generation {", "if false {"},
	{"failed attempts back off", "decide.go",
		"row.Attempts > 0 && wait > 0", "row.Attempts < 0 && wait > 0"},
	{"machines are counted in the commit", "decide.go",
		"step.CountMachine = true", "step.CountMachine = false"},
	{"ending twice kills nothing", "decide.go",
		"if e.Why != StopIdle && f.Ended {", "if false {"},
	{"an environment's end is an end: it kills nothing twice either", "decide.go",
		"if e.Why != StopIdle && f.Ended {", "if e.Why == StopEnd && f.Ended {"},
	{"an environment's end is allowed wherever an end is", "decide.go",
		"e.Why == StopIdle && row.State != Live {", "e.Why != StopEnd && row.State != Live {"},
	{"only what is bound to the host goes with it", "decide.go",
		"if e.Host == \"\" || row.Host != e.Host {", "if e.Host == \"\" {"},
	{"what is bound to no host goes with none", "decide.go",
		"if e.Host == \"\" || row.Host != e.Host {", "if row.Host != e.Host {"},
	{"with its host a machine is lost, and not as if there had been none", "decide.go",
		"row.State, row.Incarnation, row.Host, row.AbsentSince = Lost, \"\", \"\", time.Time{}\n		return write(row), nil", "return write(cleared(row, None)), nil"},
	{"what is lost with its host names nothing that could have to be proven", "decide.go",
		"row.State, row.Incarnation, row.Host, row.AbsentSince = Lost, \"\", \"\", time.Time{}", "row.State, row.AbsentSince = Lost, time.Time{}"},
	{"what was lost with its host leaves no tombstone", "row.go",
		"r.State == None || r.State == Lost && r.Incarnation == \"\"", "r.State == None"},
	{"what was lost otherwise leaves one", "row.go",
		"r.State == None || r.State == Lost && r.Incarnation == \"\"", "r.State == None || r.State == Lost"},
	{"what was to be destroyed is, with its host", "decide.go",
		"step := write(cleared(row, None))\n		step.Stamps.Destroyed = true\n		return step, nil\n	}\n	return Step{}, notAllowed", "step := write(cleared(row, None))\n		return step, nil\n	}\n	return Step{}, notAllowed"},
	{"a tombstone never kills the live machine", "tombstone.go",
		"kill(found, t.Incarnation, live)", "kill(found, t.Incarnation, \"\")"},
	{"a tombstone that names the live machine is refused", "tombstone.go",
		"if t.Incarnation != \"\" && t.Incarnation == live {", "if false {"},
	{"another host proves nothing of a tombstone", "tombstone.go",
		"if t.Host != \"\" && t.Host != host {", "if false {"},
	{"a kill starts a tombstone's proof anew", "tombstone.go",
		"if s.Kill != nil {", "if false {"},
	{"another deployment's machine is left alone", "orphan.go",
		"deployment == \"\" || l.Labels[LabelDeployment] != deployment ||", "deployment == \"\" ||"},
	{"without a deployment of our own nothing is ours", "orphan.go",
		"deployment == \"\" || l.Labels", "l.Labels"},
	{"a machine without incarnation is left alone", "orphan.go",
		" || l.Ref.Incarnation == \"\"", ""},
	{"labels that can't be read are left alone", "orphan.go",
		" || err != nil || g < 1", " || err != nil"},
	{"a row of another sandbox tells nothing of it", "orphan.go",
		"!ours || o.Row.ID != \"\" && o.Row.ID != key.Sandbox", "!ours"},
	{"what the outbox names is left alone", "orphan.go",
		"o.Buried || named(o.Row, key)", "named(o.Row, key)"},
	{"what a row names is left alone", "orphan.go",
		"o.Buried || named(o.Row, key)", "o.Buried"},
	{"an attempt that is not answered may be any of its generation", "orphan.go",
		"return row.Incarnation == \"\" || row", "return row"},
	{"a row names its own generation only", "orphan.go",
		" || row.Generation != key.Generation", ""},
	{"an orphan is seen in two passes", "orphan.go",
		"case o.FirstSeen.IsZero():\n		return OrphanSuspected", "case false:\n		return OrphanSuspected"},
	{"the two passes are the grace apart", "orphan.go",
		"case f.Now.Sub(o.FirstSeen) < f.Grace:", "case false:"},
	{"an orphan is older than any create that could still be answered", "orphan.go",
		"case age < f.Window+f.Caps.Horizon()+f.Caps.Lag():", "case age < 0:"},
	{"nor is it enough to be older than the window", "orphan.go",
		"case age < f.Window+f.Caps.Horizon()+f.Caps.Lag():", "case age < f.Window:"},
	{"what is of unknown age is as old as we have known it", "orphan.go",
		"age := f.Now.Sub(o.FirstSeen) //", "age := f.Now.Sub(time.Time{}) //"},
	{"an orphan's tombstone names where it is", "orphan.go",
		"Host: o.Listed.Ref.Host,", "Host: \"\","},
}

// TestMutations takes the rules out of the decider one by one. Each time the
// mutated package must still compile, and its tests must fail.
func TestMutations(t *testing.T) {
	need.Long(t, "each rule is taken out of the source, which is compiled and tested")
	t.Run("none", func(t *testing.T) {
		if out, failed := mutated(t, mutation{}, deciderTests); failed != nil {
			t.Fatalf("the tests fail without any mutation:\n%s", out)
		}
	})
	mutanttest.Each(t, mutations, func(m mutation) string { return m.rule }, func(t *testing.T, m mutation) {
		if out, failed := mutated(t, m, deciderTests); failed == nil {
			t.Errorf("no test misses the rule in %s: %s\n%s", m.file, m.old, out)
		}
	})
}

// TestMutationOfNamespace: another namespace changes every key and nothing
// else, so the known answer must notice, and it alone.
func TestMutationOfNamespace(t *testing.T) { // S-04
	need.Long(t, "the package is compiled anew")
	m := mutation{file: "key.go", old: `keyNamespace = "bunkroom-sandbox:v1"`, new: `keyNamespace = "bunkroom-sandbox:v2"`}
	out, failed := mutated(t, m, "^(Test|Example|Fuzz)")
	if !slices.Equal(failed, []string{"TestKeyKnownAnswer"}) {
		t.Errorf("failed: %q, want the known answer alone\n%s", failed, out)
	}
}

// deciderTests are those that a mutation has to get past. They take a moment.
const deciderTests = "^TestDecide"

var failLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// mutated runs those of the package's tests that match without a rule, in
// short, and returns which of them failed.
func mutated(t *testing.T, m mutation, match string) (out string, failed []string) {
	t.Helper()
	tree := mutanttest.Tree{}
	if m.old != "" {
		tree.Without(t, m.file, m.old, m.new)
	}
	raw, err := tree.Run(t, nil, "-test.short", "-rapid.nofailfile", "-test.run", match)
	for _, line := range failLine.FindAllStringSubmatch(string(raw), -1) {
		failed = append(failed, line[1])
	}
	if (err != nil) != (failed != nil) {
		t.Fatalf("the run broke: %v\n%s", err, raw)
	}
	return mutanttest.Head(raw, 19), failed
}
