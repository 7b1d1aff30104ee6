package access_test

import (
	"testing"

	"github.com/bunkroom/bunkroom/access"
)

// allowedCase is what is asked most: a member, confined to some projects, in a project's session.
func allowedCase() (access.Actor, access.SessionFacts, access.Facts) {
	return access.Actor{User: "bob", Agent: "helper", Scope: access.ScopeOf("q", "p")},
		access.SessionFacts{Owner: "ada", Project: "p"},
		access.Facts{Project: access.Yes, Role: access.RoleMember, Code: access.Yes, AgentCode: access.Yes}
}

func TestAllowAllocatesNothing(t *testing.T) {
	a, s, f := allowedCase()
	for name, ask := range map[string]func() access.Decision{
		"SeeSession": func() access.Decision { return access.SeeSession(a, s, f) },
		"RunCode":    func() access.Decision { return access.RunCode(a, s, "coder", f) },
	} {
		if !ask().Allow {
			t.Fatalf("%s denies", name)
		}
		if n := testing.AllocsPerRun(1000, func() {
			if ask().Err("verb", "object", errNotFound) != nil {
				t.Error("denied")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkSeeSession(b *testing.B) {
	a, s, f := allowedCase()
	b.ReportAllocs()
	for b.Loop() {
		if !access.SeeSession(a, s, f).Allow {
			b.Fatal("denied")
		}
	}
}

func BenchmarkRunCode(b *testing.B) {
	a, s, f := allowedCase()
	b.ReportAllocs()
	for b.Loop() {
		if !access.RunCode(a, s, "coder", f).Allow {
			b.Fatal("denied")
		}
	}
}
