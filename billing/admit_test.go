package billing_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/billing"
)

// The terms of the studied system.
var usual = billing.Terms{Estimate: 20_000, Floor: 250_000, InFlight: 50}

func TestAdmit(t *testing.T) {
	capped := usual
	capped.DailyCap = 1_000_000
	lenient := usual
	lenient.MaxDebt = 100_000
	overdraft := usual
	overdraft.Floor = -500_000

	const enough = 270_001 // one more than the floor and the estimate
	for _, c := range []struct {
		rule  string
		s     billing.Standing
		terms billing.Terms
		want  billing.AdmitDecision
	}{
		{"above the floor it may", standing(enough, 0, 0, 0, 0), usual,
			billing.AdmitDecision{Allow: true, Reason: billing.Admitted, Limit: 250_000, Remaining: enough}},
		{"at the floor it may not", standing(enough-1, 0, 0, 0, 0), usual,
			billing.AdmitDecision{Reason: billing.RefusedCredit, Limit: 250_000, Remaining: enough - 1}},
		{"what others hold is not there", standing(enough, 0, 1, 1, 0), usual,
			billing.AdmitDecision{Reason: billing.RefusedCredit, Limit: 250_000, Remaining: enough - 1}},
		{"the 50th may", standing(1<<40, 0, 49*20_000, 49, 0), usual,
			billing.AdmitDecision{Allow: true, Reason: billing.Admitted, Limit: 250_000, Remaining: 1<<40 - 49*20_000}},
		{"the 51st may not", standing(1<<40, 0, 50*20_000, 50, 0), usual,
			billing.AdmitDecision{Reason: billing.RefusedInFlight, Limit: 50}},
		{"more than may be in flight leaves none, and not less than none", standing(1<<40, 0, 0, 60, 0), usual,
			billing.AdmitDecision{Reason: billing.RefusedInFlight, Limit: 50}},
		{"who owes anything may not", standing(1<<40, 1, 0, 0, 0), usual,
			billing.AdmitDecision{Reason: billing.RefusedDebt}},
		{"who owes no more than is allowed may", standing(enough+100_000, 100_000, 0, 0, 0), lenient,
			billing.AdmitDecision{Allow: true, Reason: billing.Admitted, Limit: 250_000, Remaining: enough}},
		{"and what is owed is not there either", standing(enough+99_999, 100_000, 0, 0, 0), lenient,
			billing.AdmitDecision{Reason: billing.RefusedCredit, Limit: 250_000, Remaining: enough - 1}},
		{"more debt may not", standing(1<<40, 100_001, 0, 0, 0), lenient,
			billing.AdmitDecision{Reason: billing.RefusedDebt, Limit: 100_000}},
		{"the day may cost all of its cap", standing(1<<40, 0, 20_000, 1, 960_000), capped,
			billing.AdmitDecision{Allow: true, Reason: billing.Admitted, Limit: 250_000, Remaining: 1<<40 - 20_000}},
		{"and no micro more", standing(1<<40, 0, 20_000, 1, 960_001), capped,
			billing.AdmitDecision{Reason: billing.RefusedDailyCap, Limit: 1_000_000, Remaining: 19_999}},
		{"a day that cost more leaves nothing, and not less", standing(1<<40, 0, 0, 0, 1_000_001), capped,
			billing.AdmitDecision{Reason: billing.RefusedDailyCap, Limit: 1_000_000}},
		{"no cap is no cap", standing(1<<40, 0, 0, 0, 1<<50), usual,
			billing.AdmitDecision{Allow: true, Reason: billing.Admitted, Limit: 250_000, Remaining: 1 << 40}},
		{"a floor below 0 is an overdraft", standing(0, 0, 0, 0, 0), overdraft,
			billing.AdmitDecision{Allow: true, Reason: billing.Admitted, Limit: -500_000}},
		{"that is used up at its floor too", standing(0, 0, 480_000, 24, 0), overdraft,
			billing.AdmitDecision{Reason: billing.RefusedCredit, Limit: -500_000, Remaining: -480_000}},
		{"terms that are not set admit nothing", standing(1<<40, 0, 0, 0, 0), billing.Terms{},
			billing.AdmitDecision{Reason: billing.RefusedInFlight}},
		{"in flight comes before debt", standing(0, 1, 0, 50, 1<<40), capped,
			billing.AdmitDecision{Reason: billing.RefusedInFlight, Limit: 50}},
		{"debt before credit", standing(0, 1, 0, 0, 1<<40), capped,
			billing.AdmitDecision{Reason: billing.RefusedDebt}},
		{"credit before the day's cap", standing(0, 0, 0, 0, 1<<40), capped,
			billing.AdmitDecision{Reason: billing.RefusedCredit, Limit: 250_000}},
	} {
		if got := billing.Admit(c.s, c.terms); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.rule, got, c.want)
		}
	}
}

func standing(available, debt, held billing.Micros, holds int, spent billing.Micros) billing.Standing {
	return billing.Standing{Available: available, Debt: debt, Held: held, Holds: holds, Spent: spent}
}

// All combinations of what may speak against it: the first reason is given, and without any it may.
func TestAdmitDecidesEverything(t *testing.T) {
	terms := usual
	terms.DailyCap, terms.MaxDebt = 1_000_000, 10
	for n := range 16 {
		s := standing(1<<40, 0, 0, 0, 0)
		want := billing.Admitted
		for i, speak := range []struct {
			why billing.AdmitReason
			how func()
		}{ // the last that speaks against it is the first of the reasons
			{billing.RefusedDailyCap, func() { s.Spent = 1_000_000 }},
			{billing.RefusedCredit, func() { s.Available = 0 }},
			{billing.RefusedDebt, func() { s.Debt = 11 }},
			{billing.RefusedInFlight, func() { s.Holds = 50 }},
		} {
			if n&(1<<i) != 0 {
				speak.how()
				want = speak.why
			}
		}
		if got := billing.Admit(s, terms); got.Reason != want || got.Allow != (n == 0) {
			t.Errorf("%+v: %+v, want %v", s, got, want)
		}
	}
}

// More credit, fewer holds, less debt and less spent never turn a yes into a no;
// and what is let in is above the floor once it is reserved.
func TestAdmitIsMonotone(t *testing.T) {
	amount := rapid.Int64Range(0, 1_000_000)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) billing.Micros { return billing.Micros(amount.Draw(t, name)) }
		s := standing(draw("available"), draw("debt"), draw("held"), rapid.IntRange(0, 5).Draw(t, "holds"), draw("spent"))
		terms := billing.Terms{
			Estimate: draw("estimate"), Floor: draw("floor") - draw("overdraft"), InFlight: rapid.IntRange(0, 6).Draw(t, "in flight"),
			DailyCap: draw("cap"), MaxDebt: draw("max debt"),
		}
		got := billing.Admit(s, terms)
		if got.Allow != (got.Reason == billing.Admitted) {
			t.Fatalf("%+v", got)
		}
		if got.Allow && s.Spendable()-terms.Estimate <= terms.Floor {
			t.Errorf("let in, and not above the floor: %+v, %+v", s, terms)
		}
		better := s
		better.Available += draw("more")
		better.Debt -= min(draw("less debt"), better.Debt)
		better.Spent -= min(draw("less spent"), better.Spent)
		better.Holds -= min(rapid.IntRange(0, 2).Draw(t, "fewer"), better.Holds)
		if got.Allow && !billing.Admit(better, terms).Allow {
			t.Errorf("%+v may, and %+v may not: %+v", s, better, terms)
		}
	})
}
