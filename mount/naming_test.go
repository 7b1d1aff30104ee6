package mount_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

const agentUUID = "5e0c3f1a-9d2b-4c6e-8f70-123456789abc"

// Slugs are frozen. The constants are those of
//
//	python3 -c 'import uuid, sys
//	ns = uuid.uuid5(uuid.uuid5(uuid.NAMESPACE_DNS, "bunkroom"), "mounts")
//	for a in sys.argv[1:]: print(uuid.uuid5(ns, a))' reviewer Reviewer 日本 "$(printf 'x%.0s' $(seq 256))"
func TestAgentSlugIsFrozen(t *testing.T) {
	for _, c := range []struct{ rule, agent, name, want string }{
		{"a UUID stands for itself", agentUUID, "", "__bkr__agent__5e0c3f1a-9d2b-4c6e-8f70-123456789abc__default"},
		{"any other id is hashed", "reviewer", "", "__bkr__agent__06cbfb73-88fe-5cdd-954e-5a9744f9f489__default"},
		{"capitals make another id", "Reviewer", "", "__bkr__agent__920abd98-2853-5c52-8a5b-804cb81e7d5b__default"},
		{"an id is any UTF-8", "日本", "Notes", "__bkr__agent__1a2eda99-01c4-585d-a939-c62b38fc546d__notes"},
		{"an id has up to 256 bytes", strings.Repeat("x", 256), "a1", "__bkr__agent__5cf5ba26-7603-520b-b59b-3307829fab0b__a1"},
	} {
		if got, err := mount.AgentSlug(access.AgentID(c.agent), c.name); got != c.want || err != nil {
			t.Errorf("%s: AgentSlug(%q, %q) = %q, %v; want %q", c.rule, c.agent, c.name, got, err, c.want)
		}
	}
}

// As TestAgentSlugIsFrozen, but that a session's id is hashed even where it is a UUID.
func TestSessionSlugIsFrozen(t *testing.T) {
	for _, c := range []struct{ rule, session, name, want string }{
		{"an id is hashed", "0192f0c1-2ab4-7cde-8f01-23456789abcd", "", "__bkr__session__5df1c39f-7b00-558a-82a7-2f57c3e4d994__cwd"},
		{"an id is any text", "any text", "Tax Projects", "__bkr__session__819058ab-73c8-5ed2-993f-19db83ef091a__tax-projects"},
		{"names alias", "any text", " CWD ", "__bkr__session__819058ab-73c8-5ed2-993f-19db83ef091a__cwd"}, // mounts trap 10
	} {
		if got, err := mount.SessionSlug(access.SessionID(c.session), c.name); got != c.want || err != nil {
			t.Errorf("%s: SessionSlug(%q, %q) = %q, %v; want %q", c.rule, c.session, c.name, got, err, c.want)
		}
	}
	for _, c := range []struct{ field, session, name string }{
		{"session", "", ""}, {"session", "a\x00", ""}, {"name", "s", "!!!"},
		{"name", "s", "attachments"}, {"name", "s", " ATTACHMENTS!"},
	} {
		got, err := mount.SessionSlug(access.SessionID(c.session), c.name)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != c.field || got != "" {
			t.Errorf("SessionSlug(%q, %q) = %q, %v; want a FieldError of %s", c.session, c.name, got, err, c.field)
		}
	}
	if slug, err := mount.AgentSlug("reviewer", "attachments"); err != nil { // an agent has none that could be meant
		t.Errorf("an agent's folder of that name: %q, %v", slug, err)
	}
}

// Mounts trap 2: an upper-case or dashless spelling of a UUID made a second
// mount. What merely looks like a spelling stays an agent of its own.
func TestSpellingsOfAUUIDAreOneAgent(t *testing.T) {
	want, err := mount.AgentSlug(agentUUID, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spelling string
		same     bool
	}{
		{strings.ToUpper(agentUUID), true},
		{strings.ReplaceAll(agentUUID, "-", ""), true},
		{"{" + agentUUID + "}", true},
		{"urn:uuid:" + agentUUID, true},
		{"URN:UUID:" + strings.ToUpper(agentUUID), true},
		{"(" + agentUUID + ")", false},
		{"x" + agentUUID + "y", false},
		{" " + agentUUID, false},
		{agentUUID[:35], false},
	} {
		canonical, err := mount.CanonicalAgent(access.AgentID(c.spelling))
		if err != nil {
			t.Fatal(err)
		}
		slug, err := mount.AgentSlug(access.AgentID(c.spelling), "")
		if err != nil {
			t.Fatal(err)
		}
		if (slug == want) != c.same || (canonical == agentUUID) != c.same {
			t.Errorf("%q: canonical %q, slug %q; one with %q: want %v", c.spelling, canonical, slug, agentUUID, c.same)
		}
		if !c.same && canonical != access.AgentID(c.spelling) {
			t.Errorf("%q became %q, want it as it is", c.spelling, canonical)
		}
	}
}

// Mounts trap 10: "CWD" and "cwd" were two mounts; they are one, and a name of
// which nothing is left is refused.
func TestNamesAlias(t *testing.T) {
	for name, want := range map[string]string{
		"":                       "default",
		"cwd":                    "cwd",
		"CWD":                    "cwd",
		" cwd ":                  "cwd",
		"Tax Projects":           "tax-projects",
		"tax-projects":           "tax-projects",
		"--a..b__c--":            "a-b-c",
		"Über Größe 2":           "ber-gr-e-2",
		"\u212aelvin":            "elvin", // its lower case is a plain k, but only by the tables of Unicode
		strings.Repeat("a", 120): strings.Repeat("a", 120),
		"__bkr__agent__x":        "bkr-agent-x",
	} {
		slug, err := mount.AgentSlug(agentUUID, name)
		if want := "__bkr__agent__" + agentUUID + "__" + want; slug != want || err != nil {
			t.Errorf("name %q: %q, %v; want %q", name, slug, err, want)
		}
	}
	for _, name := range []string{"!!!", " ", "-", "日本", strings.Repeat("a", 121), "a\x00", "\xff"} {
		slug, err := mount.AgentSlug(agentUUID, name)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "name" || slug != "" {
			t.Errorf("name %q: %q, %v; want a FieldError of name", name, slug, err)
		}
	}
}

// Mounts trap 1: a raw agent id that can't be one is refused before anything else.
func TestBadAgentIDsAreRefused(t *testing.T) {
	for _, agent := range []access.AgentID{"", access.AgentID(strings.Repeat("x", 257)), "a\x00b", "\xff"} {
		slug, err := mount.AgentSlug(agent, "")
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "agent" || slug != "" {
			t.Errorf("agent %.20q: %q, %v; want a FieldError of agent", agent, slug, err)
		}
	}
}

func TestScopeOf(t *testing.T) {
	for _, c := range []struct {
		rule, project, owner, want, field string
	}{
		{"the project is the scope, whoever owns the session", "web", "ana", "project:web", ""},
		{"a project's scope needs no owner", "web", "", "project:web", ""},
		{"without a project the owner is", "", "ana", "user:ana", ""},
		{"a project with a user's name is not the user", "user:ana", "ana", "project:user:ana", ""},
		{"a user with a project's name is not the project", "", "project:web", "user:project:web", ""},
		{"one of them there must be", "", "", "", "owner"},
		{"a bad project is named", "a\x00", "ana", "", "project"},
		{"a bad owner is named", "", strings.Repeat("x", 257), "", "owner"},
	} {
		got, err := mount.ScopeOf(access.ProjectID(c.project), access.UserID(c.owner))
		field := ""
		if e, ok := errors.AsType[*access.FieldError](err); ok {
			field = e.Field
		}
		if got != c.want || field != c.field {
			t.Errorf("%s: ScopeOf(%q, %q) = %q, %v", c.rule, c.project, c.owner, got, err)
		}
	}
}

// Two folders have one scope and slug only where they are the same folder, and
// a slug has one form, whatever the agent and the name are.
func TestScopeAndSlugAreInjective(t *testing.T) {
	form := regexp.MustCompile(`^__bkr__agent__[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}__[a-z0-9]+(-[a-z0-9]+)*$`)
	word := rapid.OneOf(rapid.SampledFrom([]string{"user:", "project:", "", ":"}), rapid.StringN(0, 8, 32))
	type folder struct{ project, owner, agent, name string }
	draw := rapid.Custom(func(t *rapid.T) folder {
		return folder{
			word.Draw(t, "project") + word.Draw(t, "project too"), word.Draw(t, "owner"),
			rapid.SampledFrom([]string{"a", "A", "b", agentUUID}).Draw(t, "agent"),
			rapid.SampledFrom([]string{"", "n", "m", "n-m"}).Draw(t, "name"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		key := func(f folder) (scope, slug string, ok bool) {
			scope, err := mount.ScopeOf(access.ProjectID(f.project), access.UserID(f.owner))
			if err != nil {
				return "", "", false
			}
			slug, err = mount.AgentSlug(access.AgentID(f.agent), f.name)
			if err != nil || !form.MatchString(slug) {
				t.Fatalf("%+v: slug %q, %v", f, slug, err)
			}
			return scope, slug, true
		}
		scopeA, slugA, okA := key(a)
		scopeB, slugB, okB := key(b)
		if !okA || !okB {
			return
		}
		for _, f := range []*folder{&a, &b} {
			if f.project != "" {
				f.owner = ""
			}
		}
		if (scopeA == scopeB && slugA == slugB) != (a == b) {
			t.Fatalf("%+v is %s %s, %+v is %s %s", a, scopeA, slugA, b, scopeB, slugB)
		}
	})
}
