package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const modulePath = "github.com/bunkroom/bunkroom"

// root is the module's folder, seen from this one, where tests run.
var root = filepath.Join("..", "..")

// folder is one package folder of the module as it lies on disk.
type folder struct {
	Path  string // below the module, with slashes; "." is the module itself
	Files []*source
}

// source is one Go file, whatever its build tags.
type source struct {
	*ast.File
	Name string // without its folder
	Test bool   // a _test.go file
	Here bool   // this system and architecture build it
}

// finding is one place where a rule is broken.
type finding struct {
	At   string // "session/catalog.go:12", or a folder
	What string
}

func (f finding) String() string { return f.At + ": " + f.What }

// found is the finding at pos.
func found(fset *token.FileSet, pos token.Pos, format string, args ...any) finding {
	p := fset.Position(pos)
	return finding{At: fmt.Sprintf("%s:%d", p.Filename, p.Line), What: fmt.Sprintf(format, args...)}
}

// report fails t for each finding, with the reason of the rule it breaks.
func report(t *testing.T, why string, findings []finding) {
	t.Helper()
	for _, f := range findings {
		t.Errorf("%v\n\twhy: %s", f, why)
	}
}

// expect fails t unless there are as many findings as wants, and each contains its want.
func expect(t *testing.T, got []finding, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("found %v, want %d: %q", got, len(want), want)
	}
	for i := range got {
		if !strings.Contains(got[i].String(), want[i]) {
			t.Errorf("found %q, want something with %q", got[i], want[i])
		}
	}
}

// module is everything the rules look at but the types.
type module struct {
	Fset    *token.FileSet
	Folders []*folder // sorted by path
	Listed  map[string]listed
}

// listed is what the go command knows of a package, here or in a module we require.
type listed struct {
	ImportPath string
	Standard   bool
	Export     string // the file with its compiled interface
	Module     *struct{ Path string }
	Deps       []string
}

var loadModule = sync.OnceValues(func() (*module, error) {
	m := &module{Fset: token.NewFileSet(), Listed: map[string]listed{}}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name != root {
			if strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_") || entry.Name() == "testdata" {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				return fs.SkipDir // a module of its own
			}
		}
		f, err := loadFolder(m.Fset, name)
		if err == nil && len(f.Files) > 0 {
			m.Folders = append(m.Folders, f)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, m.list()
})

func loadFolder(fset *token.FileSet, dir string) (*folder, error) {
	below, err := filepath.Rel(root, dir)
	if err != nil {
		return nil, err
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	f := &folder{Path: filepath.ToSlash(below)}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // an editor's passing file
		}
		if err != nil {
			return nil, err
		}
		s, err := parseSource(fset, path.Join(f.Path, filepath.Base(name)), string(text))
		if err != nil {
			return nil, err
		}
		if s.Here, err = build.Default.MatchFile(dir, s.Name); err != nil {
			return nil, err
		}
		f.Files = append(f.Files, s)
	}
	return f, nil
}

func parseSource(fset *token.FileSet, name, text string) (*source, error) {
	tree, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	base := path.Base(name)
	return &source{File: tree, Name: base, Test: strings.HasSuffix(base, "_test.go"), Here: true}, nil
}

// list asks the go command for every package and all it links, and for what
// the examples import that rules are tried on.
func (m *module) list() error {
	cmd := exec.Command("go", "list", "-e", "-deps", "-export", "-json=ImportPath,Standard,Export,Module,Deps", "./...", "embed", "regexp")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w: %s", err, complaints.String())
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		m.Listed[l.ImportPath] = l
	}
}

// theModule is the module this test stands in.
func theModule(t *testing.T) *module {
	t.Helper()
	m, err := loadModule()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// each applies a rule to every folder.
func (m *module) each(rule func(*token.FileSet, *folder) []finding) []finding {
	var all []finding
	for _, f := range m.Folders {
		all = append(all, rule(m.Fset, f)...)
	}
	return all
}

// example is a folder with files made up to try a rule on: pairs of a name and its text.
func example(t *testing.T, dir string, files ...string) (*token.FileSet, *folder) {
	t.Helper()
	fset, f := token.NewFileSet(), &folder{Path: dir}
	for pair := range slices.Chunk(files, 2) {
		s, err := parseSource(fset, path.Join(dir, pair[0]), pair[1])
		if err != nil {
			t.Fatal(err)
		}
		f.Files = append(f.Files, s)
	}
	return fset, f
}

// imported is the path of an import.
func imported(spec *ast.ImportSpec) string {
	name, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return name
}

// ours is the folder of an import from this module.
func ours(importPath string) (below string, ok bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// suite reports whether a folder holds a suite: <name>test beside its subject.
func suite(dir string) bool {
	base := path.Base(dir)
	return strings.HasSuffix(base, "test") && base != "test"
}

// calls visits every use of pkg.Name in a file, where pkg is the package imported from importPath.
func calls(s *source, importPath string, visit func(sel *ast.SelectorExpr)) {
	for _, spec := range s.Imports {
		if imported(spec) != importPath {
			continue
		}
		local := path.Base(importPath)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
					visit(sel)
				}
			}
			return true
		})
	}
}
