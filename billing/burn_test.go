package billing_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/billing"
)

// noon is when these tests play: 2026-03-01.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestBurn(t *testing.T) {
	day := 24 * time.Hour
	monthly := billing.Grant{ID: "monthly", Priority: 0, Remaining: 100, GrantedAt: noon.Add(-day), ExpiresAt: noon.Add(day)}
	topUp := billing.Grant{ID: "top-up", Priority: 1, Remaining: 1000, GrantedAt: noon.Add(-2 * day)}
	with := func(g billing.Grant, change func(*billing.Grant)) billing.Grant { change(&g); return g }
	for _, c := range []struct {
		rule   string
		grants []billing.Grant
		amount billing.Micros
		draws  []billing.Draw
		short  billing.Micros
	}{
		{"the lowest priority pays first", []billing.Grant{topUp, monthly}, 60, []billing.Draw{{Grant: "monthly", Amount: 60}}, 0},
		{"the next pays the rest", []billing.Grant{topUp, monthly}, 160, []billing.Draw{{Grant: "monthly", Amount: 100}, {Grant: "top-up", Amount: 60}}, 0},
		{"what none covers is owed", []billing.Grant{topUp, monthly}, 1101, []billing.Draw{{Grant: "monthly", Amount: 100}, {Grant: "top-up", Amount: 1000}}, 1},
		{"without grants all is owed", nil, 7, nil, 7},
		{"nothing draws nothing", []billing.Grant{monthly}, 0, nil, 0},
		{"an empty grant pays nothing", []billing.Grant{with(monthly, func(g *billing.Grant) { g.Remaining = 0 })}, 5, nil, 5},
		{"of one priority the one that expires earlier pays",
			[]billing.Grant{with(topUp, func(g *billing.Grant) { g.Priority = 0 }), monthly}, 1, []billing.Draw{{Grant: "monthly", Amount: 1}}, 0},
		{"of one expiry the older one",
			[]billing.Grant{topUp, with(topUp, func(g *billing.Grant) { g.ID, g.GrantedAt = "a-newer", noon.Add(-day) })}, 1, []billing.Draw{{Grant: "top-up", Amount: 1}}, 0},
		{"of one age the first by id",
			[]billing.Grant{topUp, with(topUp, func(g *billing.Grant) { g.ID = "first" })}, 1, []billing.Draw{{Grant: "first", Amount: 1}}, 0},
		{"a grant pays from its first instant",
			[]billing.Grant{with(topUp, func(g *billing.Grant) { g.GrantedAt = noon })}, 1, []billing.Draw{{Grant: "top-up", Amount: 1}}, 0},
		{"and nothing of before",
			[]billing.Grant{with(topUp, func(g *billing.Grant) { g.GrantedAt = noon.Add(1) })}, 1, nil, 1},
		{"to its last",
			[]billing.Grant{with(topUp, func(g *billing.Grant) { g.ExpiresAt = noon.Add(1) })}, 1, []billing.Draw{{Grant: "top-up", Amount: 1}}, 0},
		{"and nothing of after",
			[]billing.Grant{with(topUp, func(g *billing.Grant) { g.ExpiresAt = noon })}, 1, nil, 1},
	} {
		draws, short := billing.Burn(c.grants, noon, c.amount)
		if diff := cmp.Diff(c.draws, draws); diff != "" || short != c.short {
			t.Errorf("%s: short of %v, and %s", c.rule, short, diff)
		}
	}
}

// grantsGen draws grants that differ little, so that ties are common.
func grantsGen(t *rapid.T) []billing.Grant {
	n := rapid.IntRange(0, 8).Draw(t, "grants")
	grants := make([]billing.Grant, n)
	for i := range grants {
		grants[i] = billing.Grant{
			ID:        billing.GrantID(rune('a' + i)),
			Priority:  rapid.IntRange(-1, 1).Draw(t, "priority"),
			Remaining: billing.Micros(rapid.Int64Range(0, 50).Draw(t, "remaining")),
			GrantedAt: noon.Add(time.Duration(rapid.IntRange(-2, 1).Draw(t, "granted")) * time.Hour),
		}
		if hours := rapid.IntRange(-1, 2).Draw(t, "expires"); hours > -1 {
			grants[i].ExpiresAt = noon.Add(time.Duration(hours) * time.Hour)
		}
	}
	return rapid.Permutation(grants).Draw(t, "order")
}

// Draws and what is short sum to the amount; no grant pays more than it has, or
// what it may not; the order that grants come in makes no difference.
func TestBurnProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		grants := grantsGen(t)
		was := slices.Clone(grants)
		amount := billing.Micros(rapid.Int64Range(0, 300).Draw(t, "amount"))
		draws, short := billing.Burn(grants, noon, amount)
		if diff := cmp.Diff(was, grants); diff != "" {
			t.Errorf("the grants were changed: %s", diff)
		}
		sum, byID := short, map[billing.GrantID]billing.Grant{}
		var could billing.Micros
		for _, g := range grants {
			byID[g.ID] = g
			if !g.GrantedAt.After(noon) && (g.ExpiresAt.IsZero() || noon.Before(g.ExpiresAt)) {
				could += g.Remaining
			}
		}
		for i, d := range draws {
			g := byID[d.Grant]
			sum += d.Amount
			if d.Amount < 1 || d.Amount > g.Remaining || g.GrantedAt.After(noon) || !g.ExpiresAt.IsZero() && !noon.Before(g.ExpiresAt) {
				t.Errorf("draw %+v of %+v", d, g)
			}
			if i > 0 {
				if before := byID[draws[i-1].Grant]; billing.BurnOrder(before, g) >= 0 || draws[i-1].Amount != before.Remaining {
					t.Errorf("%v pays though %v has something left", d.Grant, before.ID)
				}
			}
		}
		if sum != amount || short != max(amount-could, 0) {
			t.Errorf("%v in all and short of %v, of %v where %v could be paid", sum, short, amount, could)
		}
		again, rest := billing.Burn(rapid.Permutation(grants).Draw(t, "other order"), noon, amount)
		if diff := cmp.Diff(draws, again); diff != "" || rest != short {
			t.Errorf("another order, another result: %s", diff)
		}
	})
}

// BurnOrder is a total order: of two grants exactly one comes first, and what comes before is transitive.
func TestBurnOrderIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		grants := grantsGen(t)
		for _, a := range grants {
			for _, b := range grants {
				ab, ba := billing.BurnOrder(a, b), billing.BurnOrder(b, a)
				if ab != -ba || (ab == 0) != (a.ID == b.ID) {
					t.Errorf("%+v and %+v: %d, %d", a, b, ab, ba)
				}
				for _, c := range grants {
					if ab < 0 && billing.BurnOrder(b, c) < 0 && billing.BurnOrder(a, c) >= 0 {
						t.Errorf("%v before %v before %v, and not the first before the last", a, b, c)
					}
				}
			}
		}
	})
}
