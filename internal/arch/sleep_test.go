package arch

import (
	"go/ast"
	"go/token"
	"maps"
	"strings"
	"testing"
)

const whySleep = "a sleep is either too short, and the test fails on a slow machine, or too long, and everybody waits: wait for what must happen, with a ticker where nobody tells, or let the test run in a bubble of testing/synctest"

func TestNoSleep(t *testing.T) { report(t, whySleep, theModule(t).each(sleepRule)) }

// sleepRule finds time.Sleep in tests and suites, but for bubbles of
// testing/synctest, where the time is not the machine's.
func sleepRule(fset *token.FileSet, f *folder) []finding {
	b := bubblesOf(f)
	var all []finding
	for _, s := range f.Files {
		if !forTests(f.Path, s) {
			continue
		}
		calls(s, "time", func(sel *ast.SelectorExpr) {
			if sel.Sel.Name == "Sleep" && !b.inside(sel, b.only) {
				all = append(all, found(fset, sel.Pos(), "a test sleeps"))
			}
		})
	}
	return all
}

// bubbles says which code of a folder's tests runs in bubbles only. It goes by
// names: those of methods begin with a dot.
type bubbles struct {
	regions []ast.Node // the arguments of synctest.Test and of functions that call it, and what they may be made of
	funcs   map[string][]*ast.FuncDecl
	uses    map[string][]ast.Node // where a name stands
	only    map[string]bool       // the functions that nothing outside of bubbles uses
}

func bubblesOf(f *folder) *bubbles {
	b := &bubbles{funcs: map[string][]*ast.FuncDecl{}, uses: map[string][]ast.Node{}, only: map[string]bool{}}
	makers := map[*ast.Ident]bool{} // uses of synctest.Test
	selected := map[*ast.Ident]bool{}
	for _, s := range f.Files {
		if !forTests(f.Path, s) {
			continue
		}
		calls(s, "testing/synctest", func(sel *ast.SelectorExpr) { makers[sel.Sel] = sel.Sel.Name == "Test" })
		ast.Inspect(s.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				name := n.Name.Name
				if n.Recv != nil {
					name = "." + name
				}
				b.funcs[name] = append(b.funcs[name], n)
			case *ast.SelectorExpr:
				b.uses["."+n.Sel.Name] = append(b.uses["."+n.Sel.Name], n.Sel)
				selected[n.Sel] = true // seen before the name in it is
			case *ast.Ident:
				if !selected[n] {
					b.uses[n.Name] = append(b.uses[n.Name], n)
				}
			}
			return true
		})
	}
	wraps := map[string]bool{}
	for name, decls := range b.funcs {
		for _, d := range decls {
			ast.Inspect(d, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && makers[id] && !strings.HasPrefix(name, "Test") {
					wraps[name] = true
				}
				return true
			})
		}
	}
	for _, decls := range b.funcs {
		for _, d := range decls {
			b.mark(d, func(id *ast.Ident) bool { return makers[id] || wraps[id.Name] || wraps["."+id.Name] })
		}
	}
	b.settle()
	return b
}

// mark finds the regions of one function: what it hands to a bubble, and,
// where it does, its other literals of functions, such as the cases of a
// table that are called in there.
func (b *bubbles) mark(d *ast.FuncDecl, opens func(*ast.Ident) bool) {
	within := func(n ast.Node) (args []ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if id := calledName(call); id != nil && opens(id) {
					for _, arg := range call.Args {
						args = append(args, arg)
					}
				}
			}
			return true
		})
		return args
	}
	handed := within(d)
	b.regions = append(b.regions, handed...)
	ast.Inspect(d, func(n ast.Node) bool {
		if lit, ok := n.(*ast.FuncLit); ok && len(handed) > 0 && len(within(lit)) == 0 {
			b.regions = append(b.regions, lit)
		}
		return true
	})
}

// calledName is the name of what is called, without its package or receiver.
func calledName(call *ast.CallExpr) *ast.Ident {
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		return fn
	case *ast.SelectorExpr:
		return fn.Sel
	}
	return nil
}

// settle finds the functions that are used in bubbles only, or in functions
// that are: it begins with all that are used, and drops one after the other.
func (b *bubbles) settle() {
	for name := range b.funcs {
		for _, use := range b.uses[name] {
			b.only[name] = b.only[name] || !b.declares(name, use)
		}
	}
	for dropped := true; dropped; {
		dropped = false
		before := maps.Clone(b.only)
		for name := range b.funcs {
			for _, use := range b.uses[name] {
				if b.only[name] && !b.declares(name, use) && !b.inside(use, before) {
					b.only[name], dropped = false, true
				}
			}
		}
	}
}

// declares reports whether use is where a function gets its name.
func (b *bubbles) declares(name string, use ast.Node) bool {
	for _, d := range b.funcs[name] {
		if d.Name == use {
			return true
		}
	}
	return false
}

// inside reports whether n runs in bubbles only, if the functions named in only do.
func (b *bubbles) inside(n ast.Node, only map[string]bool) bool {
	within := func(outer ast.Node) bool { return outer.Pos() <= n.Pos() && n.End() <= outer.End() }
	for _, r := range b.regions {
		if within(r) {
			return true
		}
	}
	for name, decls := range b.funcs {
		for _, d := range decls {
			if within(d) && only[name] {
				return true
			}
		}
	}
	return false
}

func TestSleepRule(t *testing.T) {
	const head = `package p
import ("testing"; "testing/synctest"; "time")
`
	for _, c := range []struct {
		says, dir, file, text string
		want                  []string
	}{
		{"tests don't sleep", "session", "x_test.go", `package p; import "time"
func f() { time.Sleep(1) }`, []string{"session/x_test.go:2: a test sleeps"}},
		{"suites don't", "session/sessiontest", "x.go", `package p; import "time"; var _ = time.Sleep`, []string{"a test sleeps"}},
		{"whatever they call the package", "session", "x_test.go", `package p; import clock "time"; var _ = clock.Sleep`, []string{"a test sleeps"}},
		{"shipped code may wait", "session", "x.go", `package p; import "time"; var _ = time.Sleep`, nil},
		{"a bubble has a clock of its own", "session", "x_test.go", head + `
func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }`, nil},
		{"outside it a test has not", "session", "x_test.go", head + `
func TestX(t *testing.T) { time.Sleep(1); synctest.Test(t, func(t *testing.T) {}) }`, []string{"a test sleeps"}},
		{"a helper may make the bubble", "session", "x_test.go", head + `
func world(t *testing.T, f func()) { synctest.Test(t, func(t *testing.T) { f() }) }
func TestX(t *testing.T) { world(t, func() { time.Sleep(1) }) }`, nil},
		{"a table of what runs in bubbles may sleep", "session", "x_test.go", head + `
func TestX(t *testing.T) {
	for _, f := range []func(){func() { time.Sleep(1) }} {
		t.Run("", func(t *testing.T) { time.Sleep(2); synctest.Test(t, func(t *testing.T) { f() }) })
	}
}`, []string{"x_test.go:6: a test sleeps"}},
		{"a helper may sleep that only bubbles use", "session", "x_test.go", head + `
func nap() { time.Sleep(1) }
func naps() { nap(); nap() }
func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { naps() }) }`, nil},
		{"a method too, whatever else has its name", "session", "x_test.go", head + `
type w struct{}
func (w) run() { time.Sleep(1) }
func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { w{}.run() }) }
func TestY(t *testing.T) { run := 1; _ = run }`, nil},
		{"one that others use too may not", "session", "x_test.go", head + `
func nap() { time.Sleep(1) }
func naps() { nap(); nap() }
func TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { naps() }) }
func TestY(t *testing.T) { naps() }`, []string{"x_test.go:4: a test sleeps"}},
	} {
		t.Run(c.says, func(t *testing.T) {
			fset, f := example(t, c.dir, c.file, c.text)
			expect(t, sleepRule(fset, f), c.want...)
		})
	}
}
