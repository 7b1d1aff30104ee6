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
		return s.Name != "facts.go"
	}
	return strings.HasPrefix(s.Name, "decide") || strings.HasPrefix(s.Name, "plan") || s.Name == "tombstone.go" || s.Name == "orphan.go"
}

func TestDeciders(t *testing.T) {
	m := theModule(t)
	report(t, whyDeciders, m.each(decidersRule))
	report(t, whyDeciders, theTypes(t).each(orderRule))
	for _, name := range []string{"access/decide.go", "access/environment.go", "sandbox/decide.go", "sandbox/tombstone.go", "sandbox/orphan.go"} {
		if !m.has(name) {
			t.Errorf("%s is not there: did the deciders move to a file that this rule does not know?", name)
		}
	}
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
		{"but the file that asks the host", "access", "facts.go", `package p; import "context"; var _ context.Context`, nil},
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
