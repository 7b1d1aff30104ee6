package arch

import (
	"go/ast"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

const whyCatalog = "opening a session is instant and free (S-09): the code that does it has no way to a provider, so that no change to it can make a machine by accident"

func TestCatalogCannotReachAProvider(t *testing.T) {
	c := theTypes(t)
	p, ok := c.done["session"]
	if !ok {
		t.Fatal("package session was not looked at")
	}
	catalog, ok := c.named("session", "Catalog").(*types.Named)
	if !ok {
		t.Fatal("session.Catalog is not there: did it get another name?")
	}
	report(t, whyCatalog, catalogFieldsRule(c, catalog))
	report(t, whyCatalog, catalogFilesRule(c, p))
}

// machinery is what reaches machines.
func (c *checker) machinery() []types.Type {
	return []types.Type{c.named("sandbox", "Provider"), c.named("sandbox", "Sandbox")}
}

// catalogFieldsRule looks for a way from a Catalog, and from what its exported
// methods are given, to a machine: there is no global state, so what can't be
// reached by a field or an argument can't be reached.
func catalogFieldsRule(c *checker, catalog *types.Named) []finding {
	var all []finding
	at := c.module.Fset.Position(catalog.Obj().Pos()).String()
	if way := c.wayTo(c.machinery(), catalog.Underlying(), map[types.Type]bool{}); way != "" {
		all = append(all, finding{at, "Catalog" + way})
	}
	for m := range catalog.Methods() {
		if m.Exported() {
			for v := range m.Signature().Params().Variables() {
				if way := c.wayTo(c.machinery(), v.Type(), map[types.Type]bool{}); way != "" {
					all = append(all, finding{at, "Catalog." + m.Name() + "(" + v.Name() + ")" + way})
				}
			}
		}
	}
	return all
}

// wayTo says how a value of type t leads to one of the targets, through
// fields, elements, methods and functions; empty where it does not.
func (c *checker) wayTo(targets []types.Type, t types.Type, seen map[types.Type]bool) string {
	for _, target := range targets {
		if target != nil && types.Identical(t, target) {
			return " is a " + display(t)
		}
	}
	if seen[t] {
		return ""
	}
	seen[t] = true
	type step struct {
		by string
		to types.Type
	}
	var steps []step
	switch t := t.(type) {
	case *types.Alias:
		steps = append(steps, step{"", types.Unalias(t)})
	case *types.Named:
		if !inModule(t.Obj()) {
			break
		}
		steps = append(steps, step{"", t.Underlying()})
	case *types.Pointer:
		steps = append(steps, step{"", t.Elem()})
	case *types.Slice:
		steps = append(steps, step{"[]", t.Elem()})
	case *types.Array:
		steps = append(steps, step{"[]", t.Elem()})
	case *types.Chan:
		steps = append(steps, step{"<-", t.Elem()})
	case *types.Map:
		steps = append(steps, step{"[]", t.Key()}, step{"[]", t.Elem()})
	case *types.Struct:
		for f := range t.Fields() {
			steps = append(steps, step{"." + f.Name(), f.Type()})
		}
	case *types.Interface:
		for m := range t.Methods() {
			steps = append(steps, step{"." + m.Name(), m.Type()})
		}
	case *types.Signature:
		for v := range t.Results().Variables() {
			steps = append(steps, step{"()", v.Type()})
		}
		for v := range t.Params().Variables() {
			steps = append(steps, step{"()", v.Type()})
		}
	}
	for _, s := range steps {
		if way := c.wayTo(targets, s.to, seen); way != "" {
			return s.by + way
		}
	}
	return ""
}

// catalogFilesRule looks for the machinery's names, and what is typed by them, in session/catalog*.go.
func catalogFilesRule(c *checker, p *typed) []finding {
	var all []finding
	for _, file := range p.Files {
		if !strings.HasPrefix(filepath.Base(p.Fset.Position(file.Package).Filename), "catalog") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || p.Info.Uses[id] == nil {
				return true
			}
			used := p.Info.Uses[id]
			t := used.Type()
			if f, ok := used.(*types.Func); ok && f.Signature().Recv() != nil {
				t = f.Signature().Recv().Type() // a method
			}
			for _, m := range c.machinery() {
				if mentions(t, m) {
					all = append(all, found(p.Fset, id.Pos(), "names %s, a %s", id.Name, display(m)))
				}
			}
			return true
		})
	}
	return all
}

// mentions reports whether t is target, or made up of it without another name between.
func mentions(t, target types.Type) bool {
	if target == nil || t == nil {
		return false
	}
	if types.Identical(t, target) {
		return true
	}
	switch t := types.Unalias(t).(type) {
	case *types.Pointer:
		return mentions(t.Elem(), target)
	case *types.Slice:
		return mentions(t.Elem(), target)
	case *types.Map:
		return mentions(t.Key(), target) || mentions(t.Elem(), target)
	case *types.Signature:
		for v := range t.Params().Variables() {
			if mentions(v.Type(), target) {
				return true
			}
		}
		for v := range t.Results().Variables() {
			if mentions(v.Type(), target) {
				return true
			}
		}
	}
	return false
}

func TestCatalogRules(t *testing.T) {
	c := theTypes(t)
	p := c.example(t, "session", "catalog.go", `package session

import (
	"context"

	"github.com/bunkroom/bunkroom/sandbox"
)

type Catalog struct {
	rows struct{ machines map[string]*machine }
	name string
}

type machine struct { provider sandbox.Provider }

func (c *Catalog) Spawn(name string) {}
func (c *Catalog) Open(with func() (sandbox.Sandbox, error)) {}
func (c *Catalog) spawn(ctx context.Context) {
	p := c.rows.machines["x"].provider
	_, _ = p.Create(ctx, sandbox.CreateRequest{})
}
`, "runner.go", `package session

import "github.com/bunkroom/bunkroom/sandbox"

var _ sandbox.Provider
`)
	catalog := p.Types.Scope().Lookup("Catalog").Type().(*types.Named)
	expect(t, catalogFieldsRule(c, catalog),
		"Catalog.rows.machines[].provider is a sandbox.Provider",
		"Catalog.Open(with)() is a sandbox.Sandbox")
	expect(t, catalogFilesRule(c, p),
		"session/catalog.go:14: names Provider",
		"session/catalog.go:17: names Sandbox",
		"session/catalog.go:19: names provider",
		"session/catalog.go:20: names p",
		"session/catalog.go:20: names Create")
}
