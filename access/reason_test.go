package access_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
)

// tells is what a client is told of each reason: the hidden ones all alike, and
// none by the name under which the audit has it.
var tells = map[access.Reason]string{
	access.ReasonNone:                "403 forbidden: You don't have access to this.",
	access.ReasonAllowed:             "200 allowed: Allowed.",
	access.ReasonNoUser:              notFound,
	access.ReasonOutOfScope:          notFound,
	access.ReasonNotOwner:            notFound,
	access.ReasonProjectGone:         notFound,
	access.ReasonNotMember:           notFound,
	access.ReasonUnknown:             notFound,
	access.ReasonNoCode:              "403 forbidden: You may not run code here.",
	access.ReasonAgentNoCode:         "403 forbidden: This agent may not run code here.",
	access.ReasonNotYoursToStop:      "403 forbidden: Only its owner or an admin of the project may end it.",
	access.ReasonAgentElsewhere:      "400 wrong_project: The agent belongs to another project than the session.",
	access.ReasonAgentUnavailable:    "409 agent_unavailable: This agent is not available.",
	access.ReasonAssistantOnly:       "400 assistant_only: A personal session hosts only the assistant.",
	access.ReasonPrivateConversation: notFound,
	access.ReasonTooDeep:             "403 delegation_limit: Agents have asked one another as often as they may.",
	access.ReasonNotYourConversation: "403 forbidden: Only who opened the conversation may write in it.",
	access.ReasonShellElsewhere:      notFound,
	access.ReasonProtected:           notFound,
	access.ReasonViewOnly:            "403 forbidden: You may look at these files and not change them.",
}

const notFound = "404 not_found: Not found."

func TestEveryReasonIsAProblem(t *testing.T) { // T-44, T-45; the table is total
	names := map[string]bool{}
	for _, r := range access.Reasons() {
		status, code, sentence := r.Problem()
		if got := fmt.Sprintf("%d %s: %s", status, code, sentence); got != tells[r] {
			t.Errorf("%v is told as %q, want %q", r, got, tells[r])
		}
		if names[r.String()] || r.String() == "" {
			t.Errorf("%d has the name %q of another", r, r)
		}
		if names[r.String()] = true; r != access.ReasonAllowed && (code == r.String() || strings.Contains(sentence, r.String())) {
			t.Errorf("a client is told the reason %v: %s %q", r, code, sentence)
		}
	}
	if len(tells) != len(access.Reasons()) {
		t.Errorf("%d reasons, %d lines", len(access.Reasons()), len(tells))
	}
	strange, none := access.Reason(200), access.ReasonNone
	s1, c1, t1 := strange.Problem()
	if s2, c2, t2 := none.Problem(); s1 != s2 || c1 != c2 || t1 != t2 {
		t.Errorf("a reason that is none is told as %d %s %q", s1, c1, t1)
	}
}

func TestErrOfADecision(t *testing.T) {
	absent := fmt.Errorf("session: not found: %s", "id")
	for _, c := range []struct {
		says string
		d    access.Decision
		want error // nil = a *DeniedError
		none bool
	}{
		{says: "an allow is none", d: access.Decision{Allow: true, Reason: access.ReasonAllowed}, none: true},
		{says: "a hidden denial is the absent object's", d: access.Decision{Hidden: true, Reason: access.ReasonNotMember}, want: absent},
		{says: "an open denial", d: access.Decision{Reason: access.ReasonNoCode}},
		{says: "the zero decision", d: access.Decision{}},
	} {
		err := c.d.Err("run code", "id", absent)
		var denied *access.DeniedError
		switch {
		case c.none:
			if err != nil {
				t.Errorf("%s: %v", c.says, err)
			}
		case c.want != nil:
			if err != c.want {
				t.Errorf("%s: %v", c.says, err)
			}
		case !errors.As(err, &denied) || *denied != (access.DeniedError{Verb: "run code", Object: "id", Reason: c.d.Reason}):
			t.Errorf("%s: %v", c.says, err)
		default:
			s1, c1, t1 := denied.Problem()
			if s2, c2, t2 := c.d.Reason.Problem(); s1 != s2 || c1 != c2 || t1 != t2 {
				t.Errorf("%s: told as %d %s %q", c.says, s1, c1, t1)
			}
		}
	}
}

func TestSentinel(t *testing.T) {
	s := access.NewSentinel("x: busy", 409, "busy", "It is busy.")
	twin := access.NewSentinel("x: busy", 409, "busy", "It is busy.")
	err := fmt.Errorf("%w: id 1", s)
	if !errors.Is(err, s) || errors.Is(err, twin) {
		t.Error("a sentinel is itself and no other")
	}
	if status, code, sentence := s.Problem(); s.Error() != "x: busy" || status != 409 || code != "busy" || sentence != "It is busy." {
		t.Errorf("%v: %d %s %q", s, status, code, sentence)
	}
}

func TestDirectoryFunc(t *testing.T) {
	q := access.Question{Actor: access.Actor{User: "ada"}, Project: "p", Want: access.WantRole | access.WantCode}
	outage := errors.New("outage")
	var d access.Directory = access.DirectoryFunc(func(_ context.Context, got access.Question) (access.Facts, error) {
		if got.Project != q.Project || got.Actor.User != "ada" || !got.Want.Has(access.WantRole) || got.Want.Has(access.WantBilling) {
			t.Errorf("asked %+v", got)
		}
		return access.Facts{Plan: "pro"}, outage
	})
	if f, err := d.Facts(t.Context(), q); f.Plan != "pro" || err != outage {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestTriOf(t *testing.T) {
	if access.TriOf(true) != access.Yes || access.TriOf(false) != access.No || access.Tri(0) != access.Unknown {
		t.Error("a known answer is not the unknown one")
	}
	for want, s := range map[string]fmt.Stringer{
		"yes": access.Yes, "no": access.No, "unknown": access.Unknown, "none": access.RoleNone,
		"member": access.RoleMember, "admin": access.RoleAdmin, "owner": access.RoleOwner,
	} {
		if s.String() != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
}
