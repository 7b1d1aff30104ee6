package arch

import (
	"encoding/json"
	"fmt"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const whyLinks = "whoever imports a room gets what it links, for good: a new module is a decision, made in review by a line in house (internal/arch/floors_test.go)"

func TestLinkedModules(t *testing.T) {
	m := theModule(t)
	var all []finding
	for _, f := range m.Folders {
		all = append(all, linksRule(f.Path, m.linked(f.Path))...)
	}
	report(t, whyLinks, all)
}

// linked are the modules that whoever imports a folder links, but for the
// standard library and this module.
func (m *module) linked(dir string) []string {
	var all []string
	for _, dep := range m.Listed[importPath(dir)].Deps {
		if l := m.Listed[dep]; l.Module != nil && !l.Standard && l.Module.Path != modulePath {
			all = append(all, l.Module.Path)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// importPath is how the folder is imported.
func importPath(dir string) string {
	if dir == "." {
		return modulePath
	}
	return modulePath + "/" + dir
}

// linksRule holds the modules linked by a folder against its line in house.
// Every room above the lowest may link google/uuid, through internal/id.
func linksRule(dir string, linked []string) []finding {
	here, ok := placeOf(dir)
	if !ok {
		return nil // the rule of the floors reports it
	}
	var all []finding
	for _, module := range linked {
		uuid := module == "github.com/google/uuid" && dir != "access"
		if !uuid && !slices.Contains(here.Links, module) {
			all = append(all, finding{dir, "links " + module + ", which its line in house does not list"})
		}
	}
	return all
}

func TestLinkedModulesRule(t *testing.T) {
	expect(t, linksRule("session", []string{"github.com/google/uuid"}))
	expect(t, linksRule("access", []string{"github.com/google/uuid"}), "access: links github.com/google/uuid")
	expect(t, linksRule("session", []string{"example.org/cloud"}), "session: links example.org/cloud")
	expect(t, linksRule("drivers/sqlite", []string{"github.com/uptrace/bun", "modernc.org/sqlite"}))
	expect(t, linksRule("drivers/memory", []string{"modernc.org/sqlite"}), "drivers/memory: links modernc.org/sqlite")
	expect(t, linksRule("sandbox/sandboxtest", []string{"github.com/google/go-cmp"}), "links github.com/google/go-cmp")
	if m := theModule(t); !slices.Contains(m.linked("internal/id"), "github.com/google/uuid") {
		t.Errorf("internal/id links %v: the list is not read", m.linked("internal/id"))
	}
}

const whyTestImports = "what tests import stands in the one published go.mod too, and in everybody's module graph"

// testModules are what _test.go files import beyond what rooms link.
var testModules = []string{"github.com/google/go-cmp", "github.com/google/uuid", "github.com/jacobsa/fuse", "pgregory.net/rapid"}

func TestTestImports(t *testing.T) {
	report(t, whyTestImports, theModule(t).each(testImportsRule))
}

func testImportsRule(fset *token.FileSet, f *folder) []finding {
	allowed := testModules
	for _, r := range house {
		allowed = slices.Concat(allowed, r.Links)
	}
	var all []finding
	for _, s := range f.Files {
		for _, spec := range s.Imports {
			name := imported(spec)
			first, _, _ := strings.Cut(name, "/")
			if _, mine := ours(name); !s.Test || mine || !strings.Contains(first, ".") {
				continue
			}
			if !slices.ContainsFunc(allowed, func(m string) bool { return name == m || strings.HasPrefix(name, m+"/") }) {
				all = append(all, found(fset, spec.Pos(), "a test imports %s, which no room links and which is not one of %s", name, strings.Join(testModules, ", ")))
			}
		}
	}
	return all
}

func TestTestImportsRule(t *testing.T) {
	fset, f := example(t, "session", "x_test.go", `package session
import (
	"go/ast"

	"github.com/google/go-cmp/cmp"
	"example.org/testify"
)`)
	expect(t, testImportsRule(fset, f), "session/x_test.go:6: a test imports example.org/testify")
}

const whyModFile = "a replace line holds for us and for nobody who requires us, and a tool line puts a program's modules into everybody's module graph: tools live in internal/tools"

func TestModFile(t *testing.T) {
	findings, err := modFileRule(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	report(t, whyModFile, findings)
}

func modFileRule(name string) ([]finding, error) {
	out, err := exec.Command("go", "mod", "edit", "-json", name).Output()
	if err != nil {
		return nil, fmt.Errorf("go mod edit: %w", err)
	}
	var mod struct {
		Replace []struct{ Old struct{ Path string } }
		Tool    []struct{ Path string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("go mod edit: %w", err)
	}
	var all []finding
	for _, r := range mod.Replace {
		all = append(all, finding{"go.mod", "replaces " + r.Old.Path})
	}
	for _, tool := range mod.Tool {
		all = append(all, finding{"go.mod", "has the tool " + tool.Path})
	}
	return all, nil
}

func TestModFileRule(t *testing.T) {
	name := filepath.Join(t.TempDir(), "go.mod")
	text := "module m\n\ngo 1.26.0\n\nreplace (\n\texample.org/a => ../a\n)\n\ntool example.org/b\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	findings, err := modFileRule(name)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, findings, "replaces example.org/a", "tool example.org/b")
}
