package arch

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// The rules on how tests are written, and where.
const (
	whyTesting = "what links package testing brings its flags and its panics into every program of a host"
	whySkip    = "a skip that nobody sees is a rule that nobody checks: need.Missing fails where the component is required, need.Long names what a short run leaves out"
)

func TestTestingStaysInTests(t *testing.T) { report(t, whyTesting, theModule(t).each(testingRule)) }

func TestNoSkip(t *testing.T) { report(t, whySkip, theModule(t).each(skipRule)) }

// forTests reports whether a file is of a test or a suite.
func forTests(dir string, s *source) bool { return s.Test || suite(dir) }

func testingRule(fset *token.FileSet, f *folder) []finding {
	var all []finding
	for _, s := range f.Files {
		if forTests(f.Path, s) || f.Path == "internal/need" {
			continue
		}
		for _, spec := range s.Imports {
			if name := imported(spec); name == "testing" || strings.HasPrefix(name, "testing/") {
				all = append(all, found(fset, spec.Pos(), "imports %s outside of tests, suites and internal/need", name))
			}
		}
	}
	return all
}

// skipRule finds tests that skip by themselves. The T of package rapid has the
// same words for something else: to discard one draw.
func skipRule(fset *token.FileSet, f *folder) []finding {
	var all []finding
	for _, s := range f.Files {
		if !forTests(f.Path, s) || f.Path == "internal/need" {
			continue
		}
		draws := map[*ast.Ident]bool{}
		ast.Inspect(s.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				markDraws(n.Type, n.Body, draws)
			case *ast.FuncLit:
				markDraws(n.Type, n.Body, draws)
			case *ast.SelectorExpr:
				x, _ := n.X.(*ast.Ident)
				switch n.Sel.Name {
				case "Skip", "Skipf", "SkipNow":
					if !draws[x] {
						all = append(all, found(fset, n.Pos(), "calls %s", n.Sel.Name))
					}
				}
			}
			return true
		})
	}
	return all
}

// markDraws marks in body the uses of a parameter that is a *rapid.T.
func markDraws(f *ast.FuncType, body *ast.BlockStmt, draws map[*ast.Ident]bool) {
	for _, param := range f.Params.List {
		star, ok := param.Type.(*ast.StarExpr)
		if !ok || body == nil {
			continue
		}
		if sel, ok := star.X.(*ast.SelectorExpr); !ok || sel.Sel.Name != "T" || !isIdent(sel.X, "rapid") {
			continue
		}
		for _, name := range param.Names {
			ast.Inspect(body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && id.Name == name.Name {
					draws[id] = true
				}
				return true
			})
		}
	}
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func TestTestingRules(t *testing.T) {
	const skips = `package p
func f(t interface{ Skip(...any); Skipf(string, ...any) }) { t.Skipf(""); t.Skip() }`
	const fs = `package p
import "testing/fstest"
var _ fstest.MapFS`
	for _, c := range []struct {
		says            string
		rule            func(*token.FileSet, *folder) []finding
		dir, file, text string
		want            []string
	}{
		{"shipped code does not import testing", testingRule, "session", "x.go", `package p; import "testing"`, []string{"session/x.go:1: imports testing"}},
		{"nor what is below it", testingRule, "drivers/memory", "x.go", fs, []string{"imports testing/fstest"}},
		{"tests do", testingRule, "session", "x_test.go", fs, nil},
		{"suites do", testingRule, "session/sessiontest", "x.go", fs, nil},
		{"internal/need does", testingRule, "internal/need", "x.go", fs, nil},
		{"tests don't skip by themselves", skipRule, "session", "x_test.go", skips, []string{"calls Skipf", "calls Skip"}},
		{"nor do suites", skipRule, "session/sessiontest", "x.go", skips, []string{"calls Skipf", "calls Skip"}},
		{"a property may discard a draw", skipRule, "session", "x_test.go", `package p
import ("testing"; "pgregory.net/rapid")
func TestX(t *testing.T) { rapid.Check(t, func(t *rapid.T) { t.Skip() }); t.Skip() }`, []string{"x_test.go:3: calls Skip"}},
		{"internal/need does", skipRule, "internal/need", "x.go", skips, nil},
	} {
		t.Run(c.says, func(t *testing.T) {
			fset, f := example(t, c.dir, c.file, c.text)
			expect(t, c.rule(fset, f), c.want...)
		})
	}
}
