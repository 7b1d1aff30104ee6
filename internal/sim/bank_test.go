package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// rates is the price list. Neither of the numbers divides the other, so that
// hardly any charge comes out even.
var rates = map[billing.Meter]billing.Rate{
	billing.MeterRuntime: {Price: 7, Per: 1_000_003},
	billing.MeterStorage: {Price: 3, Per: 10_007},
}

// projects are all there are, by who pays for them.
var projects = []struct {
	id    access.ProjectID
	payer access.UserID
	plan  access.Plan
}{{"p", "ann", "pro"}, {"q", "bob", "small"}, {"r", "cem", "none"}}

// agentOf is the agent of a project.
func agentOf(p access.ProjectID) access.AgentID { return access.AgentID("builder-" + p) }

// lateness is how long what a grant paid for may be posted after it has expired.
const lateness = 5 * time.Minute

// bank is the money as it must be: what every call to the ledger was answered, and the
// entries it left, are folded here anew, by rules of this package's own.
type bank struct {
	terms  map[access.Plan]billing.Terms
	grants []billing.Grant // that may be given, some of them twice
	given  map[billing.GrantID]bool
	outage time.Time // the ledger can't be reached until then

	purses   map[access.UserID]*purse
	holds    map[billing.HoldID]*held
	meters   map[billing.MarkKey]*meter
	usage    map[string]bool   // ids of all usage entries
	exported map[string]string // what was exported, by id
}

// purse is an account by its entries alone.
type purse struct {
	entries int64
	sums    map[string]billing.Micros // by account, of all postings
	grants  map[billing.GrantID]billing.Grant
	spent   map[int64]billing.Micros // by day
	day     int64                    // the latest
}

// held is a hold.
type held struct {
	billing.Hold
	op string // of whoever was admitted
}

// meter is one resource's meter.
type meter struct {
	payer    access.UserID
	first    time.Time // when it began
	through  time.Time
	total    int64
	charged  billing.Micros
	spans    map[int64]time.Time // the end of each span, by its beginning
	closed   bool
	finished int // how often it was closed
}

// newBank chooses terms and grants: one account can hardly run dry, one soon does, one begins with nothing.
func (s *sim) newBank() {
	b := &bank{
		given: map[billing.GrantID]bool{}, purses: map[access.UserID]*purse{}, holds: map[billing.HoldID]*held{},
		meters: map[billing.MarkKey]*meter{}, usage: map[string]bool{}, exported: map[string]string{},
	}
	s.bank = b
	terms := func(most int) billing.Terms {
		t := billing.Terms{
			Estimate: billing.Micros(s.rnd.IntN(300)), Floor: billing.Micros(s.rnd.IntN(300) - 150), InFlight: 1 + s.rnd.IntN(most),
		}
		if s.chance(25) {
			t.DailyCap = billing.Micros(500 + s.rnd.IntN(3000))
		}
		if s.chance(30) {
			t.MaxDebt = billing.Micros(s.rnd.IntN(200))
		}
		return t
	}
	b.terms = map[access.Plan]billing.Terms{"pro": {Estimate: 100, InFlight: 4 + s.rnd.IntN(6)}, "small": terms(4), "none": terms(3)}
	if s.chance(20) {
		b.terms["pro"] = terms(4)
	}
	most := map[access.UserID]int{"ann": 1_000_000, "bob": 2500, "cem": 1200}
	for n := range 9 {
		g := billing.Grant{
			ID: billing.GrantID(fmt.Sprintf("g%d", n)), Payer: projects[n%3].payer, Source: "top-up", Priority: s.rnd.IntN(3), Repay: s.chance(50),
		}
		g.Amount = billing.Micros(1 + s.rnd.IntN(most[g.Payer]))
		if n >= 3 && s.chance(60) || n > 0 && n < 3 && s.chance(30) {
			g.ExpiresAt = s.clock().Add(s.upTo(20 * time.Minute))
		}
		b.grants = append(b.grants, g)
	}
}

// till is the gate of one replica.
func (s *sim) till(line wire) *billing.Till {
	var lines []billing.Priced
	for _, m := range slices.Sorted(maps.Keys(rates)) {
		lines = append(lines, billing.Priced{Meter: m, Rate: rates[m]})
	}
	tariffs, err := billing.NewTariffs(lines...)
	if err != nil {
		s.Fatalf("the price list: %v", err)
	}
	gate, err := billing.NewTill(billing.TillConfig{
		Ledger: wiredLedger{line}, Tariffs: tariffs, Terms: func(p access.Plan) billing.Terms { return s.bank.terms[p] },
		OnFault: func(billing.Operation) billing.FaultPolicy {
			if s.open {
				s.tell("let on without the ledger")
				return billing.FailOpen
			}
			return billing.FailClosed
		},
	})
	if err != nil {
		s.Fatalf("NewTill: %v", err)
	}
	return gate
}

// grant gives credit: one that may have been given before, which it must not be again, or another under its id.
func (s *sim) grant(r *replica, n int) {
	g := s.bank.grants[n]
	another := s.bank.given[g.ID] && s.chance(20)
	if another {
		g.Amount++
	}
	s.begin(r, "grant "+string(g.ID)+" ", func(ctx context.Context) error {
		_, err := wiredLedger{wire{r}}.Grant(ctx, g)
		if another && err == nil {
			s.violated("money", "grant %s was given again with another amount", g.ID)
		}
		return err
	})
}

// bookkeep does one of the chores that the host has its ledger for.
func (s *sim) bookkeep(r *replica, n int) {
	line := wiredLedger{wire{r}}
	switch n {
	case 0:
		s.begin(r, "expire", func(ctx context.Context) error { _, err := line.Expire(ctx, lateness, 3); return err })
	case 1:
		s.begin(r, "deliver", func(ctx context.Context) error {
			_, err := billing.Deliver(ctx, line, wiredExporter(line))
			return err
		})
	case 2:
		s.begin(r, "storage", func(ctx context.Context) error { _, err := r.ChargeStorage(ctx); return err })
	case 3:
		s.verify()
	}
}

// verify has the ledger's own verification find nothing.
func (s *sim) verify() {
	for _, p := range projects {
		v, err := billing.Verify(context.Background(), s.ledger, p.payer)
		if err != nil {
			s.Fatalf("Verify: %v", err)
		}
		for _, fault := range v.Faults {
			s.violated("money", "account of %s: %s", p.payer, fault)
		}
	}
	s.log("the books of everybody are verified")
}

// wiredExporter is where meter events go.
type wiredExporter struct{ wire }

func (w wiredExporter) Export(ctx context.Context, events []billing.Entry) error {
	_, err := through(ctx, w.wire, "Export", fmt.Sprint(len(events)), func(context.Context) (struct{}, error) {
		for _, e := range events {
			is := fmt.Sprintf("%s %s %+v %v %v %d %d", e.Kind, e.Payer, e.Use, e.From.UnixMicro(), e.To.UnixMicro(), e.Quantity, e.Amount)
			was, again := w.r.bank.exported[e.ID]
			if again && was != is {
				w.r.violated("money", "event %s was exported as %s, and then as %s", e.ID, was, is)
			}
			if again {
				w.r.tell("exported again")
			}
			w.r.bank.exported[e.ID] = is
		}
		return struct{}{}, nil
	})
	return err
}

// paid reports whether there is a hold on work that lasts, or need not be one.
func (s *sim) paid(work string) bool {
	if s.open {
		return true
	}
	now := s.clock()
	for _, h := range s.bank.holds {
		if h.Resource == work && h.State == billing.HoldOpen && now.Before(h.Until) {
			return true
		}
	}
	return false
}
