package arch

import (
	"go/ast"
	"go/doc"
	"go/token"
	"slices"
	"strings"
	"testing"
)

const whyExamples = "the first thing a reader copies is how a value is made: an example that runs as a test is right, and stays right"

func TestConstructorsHaveExamples(t *testing.T) {
	report(t, whyExamples, theModule(t).each(examplesRule))
}

// examplesRule finds exported New… and Open… functions of public packages that
// no example with output is named for or calls.
func examplesRule(fset *token.FileSet, f *folder) []finding {
	if strings.HasPrefix(f.Path, "internal/") || strings.HasPrefix(f.Path, "examples/") || suite(f.Path) {
		return nil
	}
	shown := map[string]bool{}
	for _, e := range doc.Examples(testFiles(f)...) {
		if e.Output == "" && !e.EmptyOutput {
			continue // compiled only
		}
		named, _, _ := strings.Cut(e.Name, "_")
		shown[named] = true
		ast.Inspect(e.Code, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				switch fn := call.Fun.(type) {
				case *ast.Ident:
					shown[fn.Name] = true
				case *ast.SelectorExpr:
					if x, ok := fn.X.(*ast.Ident); ok && x.Name == packageName(f) {
						shown[fn.Sel.Name] = true
					}
				}
			}
			return true
		})
	}
	var all []finding
	for _, s := range f.Files {
		for _, d := range s.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || s.Test || fn.Recv != nil || shown[fn.Name.Name] {
				continue
			}
			if strings.HasPrefix(fn.Name.Name, "New") || strings.HasPrefix(fn.Name.Name, "Open") {
				all = append(all, found(fset, fn.Pos(), "%s is in no example with output: write Example%[1]s", fn.Name.Name))
			}
		}
	}
	return all
}

func testFiles(f *folder) []*ast.File {
	var files []*ast.File
	for _, s := range f.Files {
		if s.Test {
			files = append(files, s.File)
		}
	}
	return files
}

// packageName is how the folder's package calls itself.
func packageName(f *folder) string {
	i := slices.IndexFunc(f.Files, func(s *source) bool { return !s.Test })
	if i < 0 {
		return ""
	}
	return f.Files[i].File.Name.Name
}

func TestExamplesRule(t *testing.T) {
	fset, f := example(t, "drivers/memory", "x.go", `package memory
func New() int { return 0 }
func NewPlain() int { return 0 }
func NewSilent() int { return 0 }
func NewWithin() int { return 0 }
func Open() int { return 0 }
func OpenOther() int { return 0 }
func newer() int { return 0 }
type T struct{}
func (T) New() int { return 0 }
`, "x_test.go", `package memory_test
func ExampleNew() {
	// Output:
}
func ExampleNewSilent() { memory.NewSilent() }
func Example() {
	print(memory.NewWithin(), other.NewPlain())
	// Output: 0
}
func ExampleOpen_second() {
	// Output: 0
}
`)
	expect(t, examplesRule(fset, f),
		"x.go:3: NewPlain is in no example with output: write ExampleNewPlain",
		"x.go:4: NewSilent is in no example",
		"x.go:7: OpenOther is in no example")
}
