package arch

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

const whyState = "two hosts in one process, and two tests at once, must not meet in a package: what a package needs is handed to New"

func TestNoState(t *testing.T) {
	report(t, whyState, theModule(t).each(initRule))
	report(t, whyState, theTypes(t).each(stateRule))
}

// initRule finds functions that run because a package is imported.
func initRule(fset *token.FileSet, f *folder) []finding {
	var all []finding
	for _, s := range f.Files {
		for _, d := range s.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && !s.Test {
				all = append(all, found(fset, fn.Pos(), "has an init function: importing a package does nothing"))
			}
		}
	}
	return all
}

// frozen are types of which a value, once made, does not change.
var frozen = []string{"*regexp.Regexp", "*strings.Replacer", "*access.Sentinel", "embed.FS", "reflect.Type", "error"}

// stateRule finds package-level variables that are or may become state. A
// variable may hold an error, something frozen, or a table, as long as nothing
// in its package changes it and nothing outside can. Suites and internal/need
// are tests and may.
func stateRule(p *typed) []finding {
	if p.Path == "internal/need" || suite(p.Path) {
		return nil
	}
	changed := p.changed()
	var all []finding
	for _, file := range p.Files {
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.VAR {
				continue
			}
			for _, s := range decl.Specs {
				spec := s.(*ast.ValueSpec)
				for _, name := range spec.Names {
					v, ok := p.Info.Defs[name].(*types.Var)
					if !ok || name.Name == "_" {
						continue
					}
					if what := p.state(v, spec, changed); what != "" {
						all = append(all, found(p.Fset, name.Pos(), "the variable %s %s", name.Name, what))
					}
				}
			}
		}
	}
	return all
}

// state says why a package-level variable is state, if it is.
func (p *typed) state(v *types.Var, spec *ast.ValueSpec, changed map[types.Object]token.Pos) string {
	_, basic := v.Type().Underlying().(*types.Basic)
	switch pos, ok := changed[v]; {
	case ok:
		return "is changed at line " + lineOf(p.Fset, pos)
	case v.Exported() && !types.Implements(v.Type(), errorType):
		return "is exported: anybody can change it. Make it a function, or a constant"
	case basic:
		return "is a plain value: make it a constant, or find it out where it is needed"
	}
	if part := mutable(v.Type(), map[types.Type]bool{}); part != "" {
		return "has a part that can change, " + part
	}
	for _, value := range spec.Values {
		if called := p.calledForFunc(value); called != "" {
			return "holds a function made by " + called + ", which may remember: declare a function"
		}
	}
	return ""
}

var errorType = types.Universe.Lookup("error").Type().Underlying().(*types.Interface)

func lineOf(fset *token.FileSet, pos token.Pos) string {
	_, line, _ := strings.Cut(found(fset, pos, "").At, ":")
	return line
}

// mutable names the first part of t that can change although nobody assigns to
// it; empty where there is none.
func mutable(t types.Type, seen map[types.Type]bool) string {
	name := display(t)
	for _, f := range frozen {
		if name == f {
			return ""
		}
	}
	if seen[t] {
		return ""
	}
	seen[t] = true
	if n, ok := types.Unalias(t).(*types.Named); ok && n.Obj().Pkg() != nil && strings.HasPrefix(n.Obj().Pkg().Path(), "sync") {
		return name
	}
	switch t := t.Underlying().(type) {
	case *types.Basic, *types.Signature:
		return ""
	case *types.Array:
		return mutable(t.Elem(), seen)
	case *types.Slice:
		return mutable(t.Elem(), seen)
	case *types.Map:
		return mutable(t.Elem(), seen)
	case *types.Struct:
		for f := range t.Fields() {
			if part := mutable(f.Type(), seen); part != "" {
				return part
			}
		}
		return ""
	}
	return name // a pointer, an interface, a channel
}

// calledForFunc is what is called for a value that is a function, outside of function bodies.
func (p *typed) calledForFunc(value ast.Expr) (name string) {
	ast.Inspect(value, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			if _, ok := p.Info.TypeOf(n).Underlying().(*types.Signature); ok && !p.Info.Types[n.Fun].IsType() {
				name = types.ExprString(n.Fun)
			}
		}
		return name == ""
	})
	return name
}

// changed are the package-level variables that the package's code assigns to,
// in whole or in part, or takes the address of, with the first place.
func (p *typed) changed() map[types.Object]token.Pos {
	all := map[types.Object]token.Pos{}
	note := func(e ast.Expr) {
		if v := p.rootOf(e); v != nil && v.Parent() == p.Types.Scope() {
			if _, ok := all[v]; !ok {
				all[v] = e.Pos()
			}
		}
	}
	for _, file := range p.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					note(e)
				}
			case *ast.IncDecStmt:
				note(n.X)
			case *ast.RangeStmt:
				if n.Tok == token.ASSIGN {
					note(n.Key)
					note(n.Value)
				}
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					note(n.X)
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 {
					if b, ok := p.Info.Uses[id].(*types.Builtin); ok && strings.Contains(" delete clear copy ", " "+b.Name()+" ") {
						note(n.Args[0])
					}
				}
			case *ast.SelectorExpr:
				if s := p.Info.Selections[n]; s != nil && s.Kind() == types.MethodVal && takesAddress(s) {
					note(n.X)
				}
			}
			return true
		})
	}
	return all
}

// takesAddress reports whether calling the method takes the address of what it is called on.
func takesAddress(s *types.Selection) bool {
	_, pointer := s.Obj().(*types.Func).Signature().Recv().Type().(*types.Pointer)
	_, already := s.Recv().Underlying().(*types.Pointer)
	return pointer && !already && !s.Indirect()
}

// rootOf is the variable that e is, or is a part of.
func (p *typed) rootOf(e ast.Expr) *types.Var {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.Ident:
			v, _ := p.Info.Uses[x].(*types.Var)
			return v
		default:
			return nil
		}
	}
}

func TestStateRules(t *testing.T) {
	fset, f := example(t, "session", "x.go", "package session\nfunc init() {}\ntype T int\nfunc (T) init() {}", "x_test.go", "package session\nfunc init() {}")
	expect(t, initRule(fset, f), "session/x.go:2: has an init function")

	p := theTypes(t).example(t, "session", "x.go", `package session

import (
	"embed"
	"errors"
	"regexp"
	"sync"

	"github.com/bunkroom/bunkroom/access"
)

var (
	ErrA   = access.NewSentinel("a", 400, "a", "A.")
	ErrB   = errors.New("b")
	word   = regexp.MustCompile("a")
	files  embed.FS
	table  = map[string]struct{ code int; match *regexp.Regexp; do func(int) int }{"a": {1, word, func(i int) int { return i }}}
	names  = [...]string{"a", "b"}
	_ error = ErrA
)

var Names = []string{"a"}
var limit = 5
var cache = map[string]int{}
var seen = []string{}
var mu sync.Mutex
var shared = &struct{ n int }{}
var once = sync.OnceValue(func() int { return 1 })
var any1 any = 1
var ErrC = errors.New("c")

func f() {
	cache["a"]++
	seen = append(seen, names[0])
	mu.Lock()
	ErrC = ErrB
	local := map[string]int{}
	local["a"] = table["a"].code
	_ = word.MatchString("a")
}`)
	expect(t, stateRule(p),
		"session/x.go:22: the variable Names is exported",
		"the variable limit is a plain value",
		"the variable cache is changed at line 33",
		"the variable seen is changed at line 34",
		"the variable mu is changed at line 35",
		"the variable shared has a part that can change, *struct{n int}",
		"the variable once holds a function made by sync.OnceValue",
		"the variable any1 has a part that can change, any",
		"the variable ErrC is changed at line 36")
}
