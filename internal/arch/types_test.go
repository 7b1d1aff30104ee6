package arch

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
)

// typed is one package of the module with its types, without its tests, as
// this system and architecture build it.
type typed struct {
	Path  string // below the module
	Fset  *token.FileSet
	Files []*ast.File
	Types *types.Package
	Info  *types.Info
}

// checker finds the types of the module's packages from their source, and
// those of all others from what the go command has compiled.
type checker struct {
	module *module
	others types.Importer
	done   map[string]*typed
	failed map[string]error
}

var loadTypes = sync.OnceValues(func() (*checker, error) {
	m, err := loadModule()
	if err != nil {
		return nil, err
	}
	c := &checker{module: m, done: map[string]*typed{}, failed: map[string]error{}}
	c.others = importer.ForCompiler(m.Fset, "gc", func(path string) (io.ReadCloser, error) {
		l, ok := m.Listed[path]
		if !ok {
			l, ok = m.Listed["vendor/"+path] // the standard library's own copy
		}
		if !ok || l.Export == "" {
			return nil, fmt.Errorf("%s is not compiled", path)
		}
		return os.Open(l.Export)
	})
	for _, f := range m.Folders {
		if _, err := c.Import(importPath(f.Path)); err != nil {
			c.failed[f.Path] = err
		}
	}
	return c, nil
})

// Import is the types of a package, the module's from source.
func (c *checker) Import(name string) (*types.Package, error) {
	dir, mine := ours(name)
	if !mine {
		return c.others.Import(name)
	}
	if p, ok := c.done[dir]; ok {
		return p.Types, nil
	}
	for _, f := range c.module.Folders {
		if f.Path == dir {
			p, err := c.check(c.module.Fset, f)
			if err != nil {
				return nil, err
			}
			c.done[dir] = p
			return p.Types, nil
		}
	}
	return nil, fmt.Errorf("no folder %s", dir)
}

// check finds the types of a folder's files, but for its tests.
func (c *checker) check(fset *token.FileSet, f *folder) (*typed, error) {
	p := &typed{Path: f.Path, Fset: fset, Info: &types.Info{
		Types:      map[ast.Expr]types.TypeAndValue{},
		Defs:       map[*ast.Ident]types.Object{},
		Uses:       map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}}
	for _, s := range f.Files {
		if !s.Test && s.Here {
			p.Files = append(p.Files, s.File)
		}
	}
	config := types.Config{Importer: c, FakeImportC: true}
	var err error
	p.Types, err = config.Check(importPath(f.Path), fset, p.Files, p.Info)
	return p, err
}

// theTypes are the types of the module's packages.
func theTypes(t *testing.T) *checker {
	t.Helper()
	c, err := loadTypes()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// each applies a rule to every package that could be checked.
func (c *checker) each(rule func(*typed) []finding) []finding {
	var all []finding
	for _, f := range c.module.Folders {
		if p, ok := c.done[f.Path]; ok {
			all = append(all, rule(p)...)
		}
	}
	return all
}

// example is a package made up to try a rule on. It may import the module's.
func (c *checker) example(t *testing.T, dir string, files ...string) *typed {
	t.Helper()
	fset, f := example(t, dir, files...)
	p, err := c.check(fset, f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// named is a type of the module, such as "sandbox.Provider"; nil where there is none.
func (c *checker) named(dir, name string) types.Type {
	if p, ok := c.done[dir]; ok {
		if o := p.Types.Scope().Lookup(name); o != nil {
			return o.Type()
		}
	}
	return nil
}

func TestTypesAreFound(t *testing.T) {
	c := theTypes(t)
	for dir, err := range c.failed {
		t.Errorf("%s: the rules that need types did not look at this package: %v", dir, err)
	}
	for _, dir := range []string{"access", "sandbox"} {
		if c.done[dir] == nil {
			t.Errorf("%s was not looked at", dir)
		}
	}
}

// display is how a type is written in a finding.
func display(t types.Type) string {
	return types.TypeString(types.Unalias(t), func(p *types.Package) string { return path.Base(p.Path()) })
}

// inModule reports whether o is declared in this module.
func inModule(o types.Object) bool {
	return o.Pkg() != nil && (o.Pkg().Path() == modulePath || strings.HasPrefix(o.Pkg().Path(), modulePath+"/"))
}
