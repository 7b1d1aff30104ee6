package arch

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
)

const whyRefusals = "whatever a host's client may meet has a status, a stable code and one fixed public sentence: what a server answers is then never an accident, and never tells what the text for logs tells"

func TestEveryRefusalHasAProblem(t *testing.T) {
	c := theTypes(t)
	codes := map[string]problem{}
	report(t, whyRefusals, c.each(func(p *typed) []finding {
		return slices.Concat(problemRule(p), sentinelRule(p, codes), sentenceRule(p, codes))
	}))
	if len(codes) < 20 {
		t.Errorf("only %d codes were found: the rule does not see what it is to check", len(codes))
	}
}

// TestEveryReasonHasAProblem: the reasons of access stand in a table, which is looked at by value.
func TestEveryReasonHasAProblem(t *testing.T) {
	for _, r := range access.Reasons() {
		status, code, sentence := r.Problem()
		if what := (problem{status, code, sentence}).wrong(); what != "" && r != access.ReasonAllowed {
			t.Errorf("access: %v.Problem(): %s\n\twhy: %s", r, what, whyRefusals)
		}
	}
}

// problemRule finds sentinels and exported error types without a method Problem.
func problemRule(p *typed) []finding {
	if strings.HasPrefix(p.Path, "examples/") || suite(p.Path) {
		return nil // no host links these
	}
	var all []finding
	scope := p.Types.Scope()
	for _, name := range scope.Names() {
		o := scope.Lookup(name)
		switch o := o.(type) {
		case *types.Var:
			if strings.HasPrefix(name, "Err") && !hasProblem(o.Type()) {
				all = append(all, found(p.Fset, o.Pos(), "%s has no method Problem: declare it with access.NewSentinel", name))
			}
		case *types.TypeName:
			t := types.NewPointer(o.Type())
			if o.Exported() && !types.IsInterface(o.Type()) && types.Implements(t, errorType) && !hasProblem(t) {
				all = append(all, found(p.Fset, o.Pos(), "the error %s has no method Problem() (status int, code, sentence string)", name))
			}
		}
	}
	return all
}

// hasProblem reports whether t has the method Problem() (int, string, string).
func hasProblem(t types.Type) bool {
	o, _, _ := types.LookupFieldOrMethod(t, true, nil, "Problem")
	f, ok := o.(*types.Func)
	return ok && isProblem(f)
}

func isProblem(f *types.Func) bool {
	params, results := f.Signature().Params(), f.Signature().Results()
	if f.Name() != "Problem" || params.Len() != 0 || results.Len() != 3 {
		return false
	}
	for i, kind := range []types.BasicKind{types.Int, types.String, types.String} {
		if !types.Identical(results.At(i).Type(), types.Typ[kind]) {
			return false
		}
	}
	return true
}

// problem is what a method Problem answers.
type problem struct {
	status         int
	code, sentence string
}

var codeForm = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// wrong says what is wrong with a problem, if anything is.
func (p problem) wrong() string {
	switch {
	case p.status < 400 || p.status > 599:
		return fmt.Sprintf("the status %d is not one of 400 to 599", p.status)
	case !codeForm.MatchString(p.code):
		return fmt.Sprintf("the code %q is not made of small letters and underscores", p.code)
	case p.sentence == "":
		return "the sentence is empty"
	case !strings.HasSuffix(p.sentence, "."):
		return fmt.Sprintf("the sentence %q does not end with a period", p.sentence)
	case strings.Contains(p.sentence, "%"):
		return fmt.Sprintf("the sentence %q looks like a format: it is sent as it is", p.sentence)
	}
	return ""
}

// add checks a problem and that its code has one status everywhere.
func (p problem) add(fset *token.FileSet, pos token.Pos, codes map[string]problem) []finding {
	if what := p.wrong(); what != "" {
		return []finding{found(fset, pos, "%s", what)}
	}
	if other, ok := codes[p.code]; ok && other.status != p.status {
		return []finding{found(fset, pos, "the code %q has the status %d here and %d elsewhere", p.code, p.status, other.status)}
	}
	codes[p.code] = p
	return nil
}

// constants is the problem that three expressions stand for, if they are constants.
func (p *typed) constants(exprs []ast.Expr) (problem, bool) {
	var values [3]constant.Value
	for i, e := range exprs {
		if values[i] = p.Info.Types[e].Value; values[i] == nil {
			return problem{}, false
		}
	}
	status, _ := constant.Int64Val(constant.ToInt(values[0]))
	return problem{int(status), constant.StringVal(values[1]), constant.StringVal(values[2])}, true
}

// sentinelRule looks at what every sentinel is made with.
func sentinelRule(p *typed, codes map[string]problem) []finding {
	var all []finding
	for _, file := range p.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !p.isFunc(call.Fun, "access", "NewSentinel") || len(call.Args) != 4 {
				return true
			}
			if made, ok := p.constants(call.Args[1:]); ok {
				all = append(all, made.add(p.Fset, call.Pos(), codes)...)
			} else {
				all = append(all, found(p.Fset, call.Pos(), "a sentinel is made with something that is not constant"))
			}
			return true
		})
	}
	return all
}

// isFunc reports whether e names a function of a package of this module.
func (p *typed) isFunc(e ast.Expr, dir, name string) bool {
	var id *ast.Ident
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		id = e
	case *ast.SelectorExpr:
		id = e.Sel
	default:
		return false
	}
	f, ok := p.Info.Uses[id].(*types.Func)
	return ok && f.Name() == name && f.Pkg() != nil && f.Pkg().Path() == importPath(dir)
}

// computed are the methods Problem that may answer something that is not constant, and why.
var computed = map[string]string{
	"access.Sentinel":   "answers what NewSentinel was given, which is looked at there",
	"access.Reason":     "answers from a table, which is looked at by value",
	"access.FieldError": "names the field and the rule, both of which are ours",
}

// sentenceRule looks at what every method Problem returns: constants, or the Problem of something else.
func sentenceRule(p *typed, codes map[string]problem) []finding {
	var all []finding
	for _, file := range p.Files {
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Body == nil {
				continue
			}
			f, ok := p.Info.Defs[fn.Name].(*types.Func)
			if !ok || !isProblem(f) || computed[strings.TrimPrefix(display(f.Signature().Recv().Type()), "*")] != "" {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				ret, ok := n.(*ast.ReturnStmt)
				if !ok {
					return true
				}
				if len(ret.Results) == 3 {
					if made, ok := p.constants(ret.Results); ok {
						all = append(all, made.add(p.Fset, ret.Pos(), codes)...)
						return true
					}
				}
				if len(ret.Results) == 1 && p.callsProblem(ret.Results[0]) {
					return true
				}
				all = append(all, found(p.Fset, ret.Pos(), "a method Problem returns something that is not constant"))
				return true
			})
		}
	}
	return all
}

func (p *typed) callsProblem(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	f, ok := p.Info.Uses[sel.Sel].(*types.Func)
	return ok && isProblem(f)
}

func TestRefusalRules(t *testing.T) {
	p := theTypes(t).example(t, "session", "x.go", `package session

import (
	"errors"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
)

var (
	ErrFine   = access.NewSentinel("x: fine", 404, "fine", "Not found.")
	ErrBare   = errors.New("bare")
	ErrStatus = access.NewSentinel("x", 200, "ok", "Fine.")
	ErrCode   = access.NewSentinel("x", 400, "Bad-Code", "Bad.")
	ErrTwice  = access.NewSentinel("x", 409, "fine", "Fine.")
	ErrMute   = access.NewSentinel("x", 400, "mute", "")
	ErrShout  = access.NewSentinel("x", 400, "shout", "No!")
	ErrFormat = access.NewSentinel("x", 400, "format", "Not %s.")
	ErrMade   = access.NewSentinel("x", 400, fmt.Sprint("made"), "Made.")
)

type BareError struct{}
func (BareError) Error() string { return "" }

type WrongError struct{}
func (*WrongError) Error() string { return "" }
func (*WrongError) Problem() string { return "" }

type FineError struct{ of access.Reason }
func (*FineError) Error() string { return "" }
func (e *FineError) Problem() (status int, code, sentence string) {
	if e.of == 0 {
		return 500, "gone_wrong", "Something went wrong."
	}
	return e.of.Problem()
}

type LeakError struct{ id string }
func (*LeakError) Error() string { return "" }
func (e *LeakError) Problem() (status int, code, sentence string) {
	return 404, "leak", "No session " + e.id + "."
}

type hidden struct{}
func (hidden) Error() string { return "" }
`)
	expect(t, problemRule(p),
		"x.go:22: the error BareError has no method Problem",
		"x.go:12: ErrBare has no method Problem",
		"x.go:25: the error WrongError has no method Problem")
	codes := map[string]problem{}
	expect(t, sentinelRule(p, codes),
		"x.go:13: the status 200 is not one of",
		`x.go:14: the code "Bad-Code" is not made of`,
		`x.go:15: the code "fine" has the status 409 here and 404 elsewhere`,
		"x.go:16: the sentence is empty",
		`x.go:17: the sentence "No!" does not end`,
		`x.go:18: the sentence "Not %s." looks like a format`,
		"x.go:19: a sentinel is made with something that is not constant")
	expect(t, sentenceRule(p, codes),
		"x.go:41: a method Problem returns something that is not constant")
}
