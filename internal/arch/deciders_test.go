package arch

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

const whyDeciders = "a decider is a pure function of facts and a command, so that every rule is a table in a test and the same in all stores"

// notInDeciders says why a decider needs no such import.
var notInDeciders = map[string]string{
	"context":                     "a context means that input or output hides inside",
	"crypto/rand":                 "chance: two calls with equal arguments would differ",
	"math/rand":                   "chance: two calls with equal arguments would differ",
	"math/rand/v2":                "chance: two calls with equal arguments would differ",
	"log":                         "the reason belongs into the answer, and the caller logs it",
	"log/slog":                    "the reason belongs into the answer, and the caller logs it",
	"github.com/google/uuid":      "new ids come with the command",
	modulePath + "/internal/id":   "new ids come with the command",
	"os":                          "the answer would depend on the machine",
	"sync":                        "there is nothing shared to guard",
	"sync/atomic":                 "there is nothing shared to guard",
	"database/sql":                "facts are loaded before, changes are written after",
	"net/http":                    "facts are loaded before, effects are performed after",
	modulePath + "/internal/need": "it is for tests",
}

// clocks are the names of package time that read the clock or wait.
const clocks = " Now Since Until After AfterFunc Tick NewTicker NewTimer Sleep "

// decider reports whether a file holds deciders: by its name anywhere, and in
// package access everywhere but where the host is asked for facts.
func decider(dir string, s *source) bool {
	switch {
	case s.Test:
		return false
	case dir == "access":
		return s.Name != "directory.go"
	}
	return strings.HasPrefix(s.Name, "decide") || strings.HasPrefix(s.Name, "plan") || s.Name == "tombstone.go" || s.Name == "orphan.go"
}

func TestDeciders(t *testing.T) {
	m := theModule(t)
	report(t, whyDeciders, m.each(decidersRule))
	report(t, whyDeciders, theTypes(t).each(orderRule))
	for _, name := range []string{"access/decide.go", "access/environment.go", "access/mount.go", "sandbox/decide.go", "sandbox/tombstone.go", "sandbox/orphan.go"} {
		if !m.has(name) {
			t.Errorf("%s is not there: did the deciders move to a file that this rule does not know?", name)
		}
	}
}

const whyTables = "a decider that is in the table deciders of access has a decision table of its own, and every property is asked of it"

// TestAccessDecidersHaveTables: what decides about access is tested as all that decides about access is.
func TestAccessDecidersHaveTables(t *testing.T) {
	p := theTypes(t).done["access"]
	if p == nil {
		t.Fatal("package access was not looked at")
	}
	tested := map[string]bool{}
	for _, f := range theModule(t).Folders {
		if f.Path == "access" {
			tested = tabled(f)
		}
	}
	report(t, whyTables, tablesRule(p, tested))
	if len(tested) < 12 {
		t.Errorf("only %d deciders in the table: is it read right?", len(tested))
	}
}

// tablesRule finds exported functions that return a Decision and are not among the tested.
func tablesRule(p *typed, tested map[string]bool) []finding {
	var all []finding
	scope := p.Types.Scope()
	for _, name := range scope.Names() {
		f, ok := scope.Lookup(name).(*types.Func)
		if !ok || !f.Exported() || tested[name] {
			continue
		}
		if r := f.Signature().Results(); r.Len() == 1 && display(r.At(0).Type()) == "access.Decision" {
			all = append(all, found(p.Fset, f.Pos(), "the decider %s is not in the table deciders of decide_test.go", name))
		}
	}
	return all
}

// tabled are the names that begin the lines of the variable deciders in a folder's tests.
func tabled(f *folder) map[string]bool {
	all := map[string]bool{}
	for _, s := range f.Files {
		ast.Inspect(s.File, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || !s.Test || len(v.Names) != 1 || v.Names[0].Name != "deciders" || len(v.Values) != 1 {
				return true
			}
			table, ok := v.Values[0].(*ast.CompositeLit)
			if !ok {
				return true
			}
			for _, e := range table.Elts {
				if line, ok := e.(*ast.CompositeLit); ok && len(line.Elts) > 0 {
					if name, ok := line.Elts[0].(*ast.BasicLit); ok && name.Kind == token.STRING {
						all[strings.Trim(name.Value, `"`)] = true
					}
				}
			}
			return false
		})
	}
	return all
}

func TestTablesRule(t *testing.T) {
	p := theTypes(t).example(t, "access", "x.go", `package access
type Decision struct{}
func May() Decision { return Decision{} }
func MayToo() Decision { return Decision{} }
func might() Decision { return Decision{} }
func (Decision) And(d Decision) Decision { return d }
func Other() int { return 0 }
`)
	_, f := example(t, "access", "x_test.go", `package access_test
var deciders = []struct{ name string }{{"May"}, {"Gone"}}
`)
	expect(t, tablesRule(p, tabled(f)), "x.go:4: the decider MayToo is not in the table")
}

func (m *module) has(name string) bool {
	for _, f := range m.Folders {
		for _, s := range f.Files {
			if f.Path+"/"+s.Name == name {
				return true
			}
		}
	}
	return false
}

func decidersRule(fset *token.FileSet, f *folder) []finding {
	var all []finding
	for _, s := range f.Files {
		if !decider(f.Path, s) {
			continue
		}
		for _, spec := range s.Imports {
			if why, ok := notInDeciders[imported(spec)]; ok {
				all = append(all, found(fset, spec.Pos(), "a decider imports %s: %s", imported(spec), why))
			}
		}
		calls(s, "time", func(sel *ast.SelectorExpr) {
			if strings.Contains(clocks, " "+sel.Sel.Name+" ") {
				all = append(all, found(fset, sel.Pos(), "a decider uses time.%s: the moment comes with the facts, from the store's clock", sel.Sel.Name))
			}
		})
		ast.Inspect(s.File, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				all = append(all, found(fset, g.Pos(), "a decider starts a goroutine: nothing is left to happen after the answer"))
			}
			return true
		})
	}
	return all
}

// orderRule finds deciders that range over a map.
func orderRule(p *typed) []finding {
	var all []finding
	for _, file := range p.Files {
		name := filepath.Base(p.Fset.Position(file.Package).Filename)
		if !decider(p.Path, &source{File: file, Name: name}) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if r, ok := n.(*ast.RangeStmt); ok {
				if _, ok := p.Info.TypeOf(r.X).Underlying().(*types.Map); ok {
					all = append(all, found(p.Fset, r.Pos(), "a decider ranges over a map, whose order differs from run to run: sort its keys first"))
				}
			}
			return true
		})
	}
	return all
}

func TestOrderRule(t *testing.T) {
	p := theTypes(t).example(t, "mount", "plan.go", `package mount
func plan(m map[string]int) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	for range all {
	}
	return all
}`)
	expect(t, orderRule(p), "mount/plan.go:3: a decider ranges over a map")
}

func TestDecidersRule(t *testing.T) {
	impure := `package p
import (
	"context"
	clock "time"
)
func decide(ctx context.Context) clock.Time {
	go decide(ctx)
	return clock.Now().Add(clock.Second)
}`
	want := []string{
		"decide.go:3: a decider imports context: a context means",
		"decide.go:8: a decider uses time.Now",
		"decide.go:7: a decider starts a goroutine",
	}
	for _, c := range []struct {
		rule, dir, file, text string
		want                  []string
	}{
		{"decide*.go holds deciders", "session", "decide.go", impure, want},
		{"and so does decide_more.go", "session", "decide_work.go", `package p; import "log/slog"; var _ = slog.Info`, []string{"imports log/slog: the reason belongs"}},
		{"and plan*.go", "mount", "plan.go", `package p; import "math/rand/v2"; var _ = rand.Int`, []string{"imports math/rand/v2: chance"}},
		{"and tombstone.go", "sandbox", "tombstone.go", `package p; import "github.com/google/uuid"; var _ = uuid.New`, []string{"new ids come with the command"}},
		{"and all of access", "access", "actor.go", `package p; import "crypto/rand"; var _ = rand.Read`, []string{"access/actor.go:1: a decider imports crypto/rand"}},
		{"but the file that asks the host", "access", "directory.go", `package p; import "context"; var _ context.Context`, nil},
		{"other files do what they need", "session", "runner.go", impure, nil},
		{"and so do tests", "session", "decide_test.go", impure, nil},
		{"a decider may compute with times", "session", "decide.go", `package p; import "time"; const d = time.Second; func f(now time.Time) bool { return now.IsZero() }`, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			fset, f := example(t, c.dir, c.file, c.text)
			expect(t, decidersRule(fset, f), c.want...)
		})
	}
}
