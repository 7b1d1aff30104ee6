package mount_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

const (
	prefixID  mount.ID = "0192f0c1-2ab4-7cde-8f01-23456789abcd"
	prefixID2 mount.ID = "0192f0c1-2ab4-7cde-8f01-2345678900ff"
)

func TestPrefixesAreFrozenAndFailClosed(t *testing.T) {
	const mine = "mounts/user%3au/0192f0c1-2ab4-7cde-8f01-23456789abcd/"
	for _, c := range []struct {
		rule, namespace, scope string
		id                     mount.ID
		want                   mount.Prefix
		field                  string
	}{
		{"the scope is encoded", "", "project:Acme/1", prefixID, "mounts/project%3a%41cme%2f1/0192f0c1-2ab4-7cde-8f01-23456789abcd/", ""},
		{"a namespace comes first", "tenant/A.1", "user:u", prefixID, "tenant/A.1/" + mine, ""},
		{"a long scope is hashed", "", strings.Repeat("a", 201), prefixID, "mounts/+a92efd82109373e58f9a2056dee01e807e216ce6075f7051207c0a9f7d666e50/0192f0c1-2ab4-7cde-8f01-23456789abcd/", ""},
		{"no scope is refused", "", "", prefixID, "", "Row.Scope"},
		{"no id is refused", "", "user:u", "", "", "Row.ID"},
		{"an id that is a path is refused", "", "user:u", "..", "", "Row.ID"},
		{"another spelling of an id is refused", "", "user:u", "0192F0C1-2ab4-7cde-8f01-23456789abcd", "", "Row.ID"},
		{"a namespace that leads elsewhere is refused", "a/../b", "user:u", prefixID, "", "Namespace"},
		{"a namespace with an empty name is refused", "a/", "user:u", prefixID, "", "Namespace"},
		{"a namespace that opens others in a policy is refused", "a*", "user:u", prefixID, "", "Namespace"},
		{"a namespace with a variable of a policy is refused", "${aws:userid}", "user:u", prefixID, "", "Namespace"},
		{"a long namespace is refused", strings.Repeat("a", 257), "user:u", prefixID, "", "Namespace"},
	} {
		got, err := mount.PrefixOf(c.namespace, mount.Row{ID: c.id, Scope: c.scope})
		if got != c.want {
			t.Errorf("%s: %q, %v", c.rule, got, err)
		}
		if e, ok := errors.AsType[*access.FieldError](err); (c.field != "") != ok || ok && e.Field != c.field {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
}

// No two folders share a key: different prefixes are different, and none begins with another.
func TestPrefixesAreApart(t *testing.T) {
	scopes := rapid.OneOf(rapid.StringN(1, 20, -1), rapid.SampledFrom([]string{
		"project:p", "project:p/x", "user:u", "..", ".", "/", "%2f", strings.Repeat("é", 100), strings.Repeat("é", 101)}))
	rapid.Check(t, func(t *rapid.T) {
		a := mount.Row{ID: prefixID, Scope: scopes.Draw(t, "scope a")}
		b := mount.Row{ID: rapid.SampledFrom([]mount.ID{prefixID, prefixID2}).Draw(t, "id"), Scope: scopes.Draw(t, "scope b")}
		pa, errA := mount.PrefixOf("ns", a)
		pb, errB := mount.PrefixOf("ns", b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if (a.ID == b.ID && a.Scope == b.Scope) != (pa == pb) {
			t.Fatalf("%+v and %+v have the prefixes %s and %s", a, b, pa, pb)
		}
		if pa != pb && (strings.HasPrefix(string(pa), string(pb)) || strings.HasPrefix(string(pb), string(pa))) {
			t.Fatalf("%s and %s: one begins with the other", pa, pb)
		}
		below := strings.TrimPrefix(string(pa), "ns/mounts/")
		if strings.Count(below, "/") != 2 || strings.ContainsAny(below, "*?${}") {
			t.Fatalf("the prefix %s has what means something elsewhere", pa)
		}
	})
}

// Check takes what PrefixOf makes, and nothing else.
func TestPrefixCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scope := rapid.OneOf(rapid.StringN(1, 260, -1), rapid.SampledFrom([]string{"project:p", "..", "/", "%2f", "+"})).Draw(t, "scope")
		p, err := mount.PrefixOf(rapid.SampledFrom([]string{"", "ns", "a/b.c"}).Draw(t, "namespace"), mount.Row{ID: prefixID, Scope: scope})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(); err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		other := p[:rapid.IntRange(0, len(p)-1).Draw(t, "cut")]
		if err := other.Check(); err == nil {
			t.Fatalf("%s, which ends too early, is taken", other)
		}
	})
	const id = "/" + mount.Prefix(prefixID) + "/"
	for _, p := range []mount.Prefix{
		"", "/", "mounts/" + id, "mounts/p" + id[:37], "mounts//p" + id, "/mounts/p" + id, "folders/p" + id, "mounts/p/q" + id,
		"mounts/ABC" + id, "mounts/%zz" + id, "mounts/a+b" + id, "mounts/%41b" + "c%" + id, "mounts/%61" + id, "mounts/%3A" + id, "mounts/+ab" + id,
		"mounts/." + id, "mounts/.." + id, "mounts/*" + id, "mounts/p?" + id, "mounts/${aws:userid}" + id, "ns*/mounts/p" + id, "../mounts/p" + id,
		"mounts/p/0192F0C1-2ab4-7cde-8f01-23456789abcd/", "mounts/p/*/", "mounts/p" + id + "notes/",
	} {
		err := p.Check()
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "Prefix" {
			t.Errorf("%q: %v", p, err)
		}
	}
}
