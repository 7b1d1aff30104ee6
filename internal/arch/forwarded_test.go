package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"testing"
)

const whyForwarded = "whoever sends a request chooses its headers: an address made of them sends what it is called with, credentials too, to a host of his choice; under which address a server is reached is configuration"

// forwarded matches the headers that say under which address a server was reached.
var forwarded = regexp.MustCompile(`(?i)^(x-)?forwarded(-(host|server|proto|port|prefix|scheme))?$|^x-original-(host|url)$|^x-host$`)

func TestNoAddressFromHeaders(t *testing.T) { // T-54
	report(t, whyForwarded, theModule(t).each(forwardedRule))
}

// forwardedRule finds the names of such headers, in tests too: what a test sends is read somewhere.
func forwardedRule(fset *token.FileSet, f *folder) []finding {
	if f.Path == "internal/arch" {
		return nil
	}
	var all []finding
	for _, s := range f.Files {
		ast.Inspect(s.File, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil && forwarded.MatchString(text) {
					all = append(all, found(fset, l.Pos(), "the header %q is named", text))
				}
			}
			return true
		})
	}
	return all
}

func TestForwardedRules(t *testing.T) {
	fset, f := example(t, "examples/server", "x.go", `package main
var names = []string{"X-Forwarded-Host", "forwarded", "X-Forwarded-For", "x-original-url", "it was forwarded", "Host"}
`)
	expect(t, forwardedRule(fset, f), `x.go:2: the header "X-Forwarded-Host"`, `x.go:2: the header "forwarded"`, `x.go:2: the header "x-original-url"`)
}
