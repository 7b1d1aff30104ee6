package session

import (
	"context"
	"fmt"

	"github.com/bunkroom/bunkroom/sandbox"
)

// missing is a live machine that is not to be seen, for the second time.
type missing struct {
	due  Due
	seen sandbox.Observed
}

// seeLive looks at a live machine that nobody has looked at for long. Whether
// it is lost, where it is not to be seen, is decided once it is known how many are missing.
func (p *pass) seeLive(ctx context.Context, due *Due) outcome {
	s := due.Snapshot
	seen, err := p.sees(ctx, s)
	if err != nil {
		return failed(err)
	}
	terms := p.machines.terms(s.Sandbox.Provider)
	d, err := Decide(s, CommandHappened{Event: seen, Terms: terms})
	if err != nil {
		return failed(err)
	}
	if next := d.Change.Sandbox; next != nil && next.State == sandbox.Lost {
		p.missing = append(p.missing, missing{*due, seen})
		return outcome{later: true}
	}
	out, err := p.learn(ctx, s, seen)
	if err != nil {
		return failed(err)
	}
	o := outcome{action: ReclaimSeen, reason: "its provider shows it", written: out.committed}
	if d.Report != nil {
		o = o.because(ReclaimWaited, fmt.Sprintf("its provider does not show it, and it is lost once that is so twice, at least %v apart", terms.Caps.Lag()))
	}
	return o
}

// lose declares the missing lost, except at a provider where there are too many of them.
func (p *pass) lose(ctx context.Context) {
	gone := p.missing
	p.missing = nil
	clear(p.trips) // of before it was looked
	for _, m := range gone {
		row := m.due.Snapshot.Sandbox
		o := outcome{action: ReclaimSpared, reason: fmt.Sprintf("it is missing, as are others of its provider, of which no more than %d may be", p.options.Budget)}
		switch blind, err := p.tripped(ctx, row.Provider); {
		case err != nil:
			o.err = err
		case !blind:
			o = o.because(ReclaimLost, fmt.Sprintf("its provider has not shown it twice, at least %v apart", p.machines.terms(row.Provider).Caps.Lag()))
			out, err := p.learn(ctx, m.due.Snapshot, m.seen)
			o.err, o.written = err, out.committed
		}
		p.report(ctx, &m.due, o)
	}
}

// tripped reports whether more machines of a provider are missing than may be
// lost. That is counted in the rows, and over more time than passes between two
// looks at one machine: each pass finds no more than those whose turn it is.
func (p *pass) tripped(ctx context.Context, provider string) (bool, error) {
	if blind, asked := p.trips[provider]; asked {
		return blind, nil
	}
	n, err := p.machines.rows.store.Missing(ctx, MissingQuery{
		Provider: provider, Lately: 2 * max(p.options.Unseen, reclaimUnseen), Limit: p.options.Budget + 1,
	})
	if err != nil {
		return false, err
	}
	blind := n > p.options.Budget
	p.trips[provider] = blind
	if blind {
		p.rep.Tripped = true
		p.log.ErrorContext(ctx, "more machines of a provider are missing than may be lost, and none is declared lost; reclaim with a larger budget if they are gone indeed",
			"provider", provider, "budget", p.options.Budget)
	}
	return blind, nil
}
