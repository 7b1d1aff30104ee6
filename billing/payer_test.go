package billing_test

import (
	"reflect"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

func TestPayer(t *testing.T) { // T-56, T-57, T-69
	nobody := billing.PayerDecision{}
	for _, c := range []struct {
		rule             string
		owner            access.UserID
		project          access.ProjectID
		account          access.UserID
		runtime, storage billing.PayerDecision
	}{
		{"what is personal is its owner's", "ann", "", "", paidBy("ann", billing.PayerOwner), paidBy("ann", billing.PayerOwner)},
		{"whatever account the host names", "ann", "", "bob", paidBy("ann", billing.PayerOwner), paidBy("ann", billing.PayerOwner)},
		{"a project's is the account's of its owner", "ann", "web", "bob", paidBy("bob", billing.PayerProject), paidBy("bob", billing.PayerProject)},
		{"also where the session is the owner's own", "bob", "web", "bob", paidBy("bob", billing.PayerProject), paidBy("bob", billing.PayerProject)},
		{"who can't be found out is stood in for where something runs, and waited for where something is kept (T-69)",
			"ann", "web", "", paidBy("ann", billing.PayerFallback), nobody},
		{"a project without a session's owner has its account", "", "web", "bob", paidBy("bob", billing.PayerProject), paidBy("bob", billing.PayerProject)},
		{"where nobody is known nobody pays, and nothing runs (T-57)", "", "web", "", nobody, nobody},
		{"what is nobody's is charged to no account", "", "", "bob", nobody, nobody},
		{"the zero value is nobody", "", "", "", nobody, nobody},
	} {
		p := billing.Paying{Owner: c.owner, Project: c.project, Account: c.account}
		if got := billing.RuntimePayer(p); got != c.runtime {
			t.Errorf("runtime: %s: %+v", c.rule, got)
		}
		if got := billing.StoragePayer(p); got != c.storage {
			t.Errorf("storage: %s: %+v", c.rule, got)
		}
	}
}

func paidBy(payer access.UserID, why billing.PayerReason) billing.PayerDecision {
	return billing.PayerDecision{Payer: payer, Reason: why}
}

// A reason names nobody exactly where there is nobody.
func TestPayerReasonAndPayerAgree(t *testing.T) {
	for _, owner := range []access.UserID{"", "ann"} {
		for _, project := range []access.ProjectID{"", "web"} {
			for _, account := range []access.UserID{"", "ann", "bob"} {
				p := billing.Paying{Owner: owner, Project: project, Account: account}
				run, kept := billing.RuntimePayer(p), billing.StoragePayer(p)
				for _, d := range []billing.PayerDecision{run, kept} {
					if (d.Payer == "") != (d.Reason == billing.PayerUnresolved) {
						t.Errorf("%+v: %+v", p, d)
					}
				}
				if kept.Payer != "" && kept != run {
					t.Errorf("%+v: who keeps and who runs differ: %+v and %+v", p, kept, run)
				}
				if project != "" && account == "" && kept.Payer != "" {
					t.Errorf("%+v: somebody pays for what is kept in a project whose account is not known (T-69)", p)
				}
			}
		}
	}
}

// Who pays is found out from the session alone: neither an agent nor a page
// nor any other place the work was asked from can even be told. (T-56, S-15)
func TestNothingButTheSessionSaysWhoPays(t *testing.T) {
	for _, c := range []struct {
		of   any
		want []string
	}{
		{billing.Paying{}, []string{"Owner", "Project", "Account"}},
		{billing.Use{}, []string{"Meter", "Class", "Resource", "Payer", "Session", "Project"}},
	} {
		var got []string
		for f := range reflect.TypeOf(c.of).Fields() {
			got = append(got, f.Name)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%T has %v, want %v", c.of, got, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{billing.PayerUnresolved.String(), "unresolved"},
		{billing.PayerOwner.String(), "owner"},
		{billing.PayerProject.String(), "project"},
		{billing.PayerFallback.String(), "fallback"},
		{billing.HoldState(0).String(), "none"},
		{billing.HoldOpen.String(), "open"},
		{billing.HoldSettled.String(), "settled"},
		{billing.HoldReleased.String(), "released"},
		{billing.HoldExpired.String(), "expired"},
		{billing.AdmitUndecided.String(), "undecided"},
		{billing.Admitted.String(), "admitted"},
		{billing.RefusedInFlight.String(), "too many in flight"},
		{billing.RefusedDebt.String(), "in debt"},
		{billing.RefusedCredit.String(), "out of credit"},
		{billing.RefusedDailyCap.String(), "daily cap reached"},
		{billing.RefusedHoldEnded.String(), "hold ended"},
		{billing.RefusedClosed.String(), "account closed"},
		{billing.AdmitReason(200).String(), "undecided"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
