package arch

import (
	"go/token"
	"strings"
	"testing"
)

const whyComments = "a package begins with what it is for: whoever meets it in go doc has nothing else to go by"

func TestPackagesSayWhatTheyAre(t *testing.T) {
	report(t, whyComments, theModule(t).each(commentRule))
}

// commentRule finds packages without a comment of the usual form.
func commentRule(fset *token.FileSet, f *folder) []finding {
	var first *source
	for _, s := range f.Files {
		if s.Test {
			continue
		}
		if first == nil {
			first = s
		}
		if text := s.File.Doc.Text(); strings.HasPrefix(text, "Package "+s.File.Name.Name+" ") || strings.HasPrefix(text, "Command ") {
			return nil
		}
	}
	if first == nil {
		return nil
	}
	return []finding{found(fset, first.File.Package, "package %s has no comment that begins with its name", first.File.Name.Name)}
}

func TestCommentRule(t *testing.T) {
	fset, f := example(t, "access", "x.go", "package access\n", "doc.go", "// Package access says who may.\npackage access\n")
	expect(t, commentRule(fset, f))
	fset, f = example(t, "access", "x.go", "// It says who may.\npackage access\n", "x_test.go", "// Package access is tested.\npackage access\n")
	expect(t, commentRule(fset, f), "x.go:2: package access has no comment that begins with its name")
}
