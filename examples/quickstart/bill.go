package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// The price list, in millionths of a unit of currency: 0.12140625 for an hour
// of work, 0.15 for a GB that is kept for a month.
var prices = []billing.Priced{
	{Meter: billing.MeterRuntime, Rate: billing.Rate{Price: 12_140_625, Per: 360_000_000_000}},
	{Meter: billing.MeterStorage, Rate: billing.Rate{Price: 150_000, Per: 2_531_250_000_000}},
}

// terms are what an account must keep to, whatever its plan.
func terms(access.Plan) billing.Terms {
	return billing.Terms{Estimate: billing.Unit / 50, Floor: billing.Unit / 4, InFlight: 10}
}

// bill is what the run has cost.
type bill struct {
	Before billing.Micros `json:"balance_before_micros"`
	After  billing.Micros `json:"balance_after_micros"`
	Lines  []line         `json:"lines"`

	ledger  billing.Ledger
	entries int64 // in the book before
	holds   int   // before: those of a run that was killed last until they expire
}

// line is one line of it, which is one meter event.
type line struct {
	Event    string         `json:"event"`
	Meter    billing.Meter  `json:"meter"`
	Session  string         `json:"session"`
	From     time.Time      `json:"from"`
	To       time.Time      `json:"to"`
	Quantity int64          `json:"quantity"`
	Amount   billing.Micros `json:"amount_micros"`
}

// till opens the gate to the ledger. The account gets its welcome credit once,
// however often this runs.
func (b *bill) till(ctx context.Context, ledger billing.Ledger) (billing.Gate, error) {
	tariffs, err := billing.NewTariffs(prices...)
	if err != nil {
		return nil, err
	}
	_, err = ledger.Grant(ctx, billing.Grant{ID: "welcome", Payer: person, Amount: 5 * billing.Unit, Source: "welcome"})
	if err != nil {
		return nil, err
	}
	before, err := ledger.Balance(ctx, person)
	if err != nil {
		return nil, err
	}
	b.ledger, b.Before, b.entries, b.holds = ledger, worth(before), before.Account.Entries, before.Holds
	return billing.NewTill(billing.TillConfig{Ledger: ledger, Tariffs: tariffs, Terms: terms})
}

// worth is what an account has, whatever of it is reserved.
func worth(b billing.Balance) billing.Micros { return b.Available - b.Debt }

// add adds up what has been charged since, and says whether it can be explained.
func (b *bill) add(ctx context.Context) (explained bool, detail string, err error) {
	after, err := b.ledger.Balance(ctx, person)
	if err != nil {
		return false, "", err
	}
	b.After = worth(after)
	var sum billing.Micros
	for e, err := range billing.Entries(ctx, b.ledger, person, b.entries) {
		if err != nil {
			return false, "", err
		}
		sum += e.Amount
		b.Lines = append(b.Lines, line{e.ID, e.Use.Meter, string(e.Use.Session), e.From, e.To, e.Quantity, e.Amount})
	}
	book, err := billing.Verify(ctx, b.ledger, person)
	if err != nil {
		return false, "", err
	}
	faults := book.Faults
	if sum != b.Before-b.After {
		faults = append(faults, fmt.Sprintf("the lines sum to %v, and the balance fell by %v", sum, b.Before-b.After))
	}
	if after.Holds > b.holds {
		faults = append(faults, fmt.Sprintf("%d holds are left", after.Holds))
	}
	if len(faults) > 0 {
		return false, strings.Join(faults, "; "), nil
	}
	return true, fmt.Sprintf("%v in %d lines, %v left", sum, len(b.Lines), b.After), nil
}

func (b *bill) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nthe bill\tsession\tfrom\tto\tquantity\tamount\n")
	for _, l := range b.Lines {
		session := l.Session
		if len(session) > 8 {
			session = "…" + session[len(session)-8:]
		}
		unit := map[billing.Meter]string{billing.MeterRuntime: "µs", billing.MeterStorage: "KiB s"}[l.Meter]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d %s\t%v\n", l.Meter, session, l.From.Format("15:04:05.000"), l.To.Format("15:04:05.000"), l.Quantity, unit, l.Amount)
	}
	w.Flush()
}
