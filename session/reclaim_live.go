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
func (p *pass) seeLive(ctx context.Context, due Due) outcome {
	s := due.Snapshot
	seen, err := p.sees(ctx, s)
	if err != nil {
		return failed(err)
	}
	terms := p.machines.terms(s.Sandbox)
	d, err := Decide(s, CommandHappened{Event: seen, Terms: terms})
	if err != nil {
		return failed(err)
	}
	if next := d.Change.Sandbox; next != nil && next.State == sandbox.Lost {
		p.missing = append(p.missing, missing{due, seen})
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

// lose declares the missing lost, unless there are too many of them.
func (p *pass) lose(ctx context.Context) {
	gone := p.missing
	p.missing = nil
	if len(gone) > p.options.Budget {
		p.rep.Tripped = true
		p.log.ErrorContext(ctx, "more live machines are missing than may be lost at once, and none is declared lost; reclaim with a larger budget if they are gone indeed",
			"missing", len(gone), "budget", p.options.Budget)
	}
	for _, m := range gone {
		o := outcome{action: ReclaimSpared, reason: fmt.Sprintf("it is missing as are %d others, and no more than %d may be lost at once", len(gone)-1, p.options.Budget)}
		if !p.rep.Tripped {
			lag := p.machines.terms(m.due.Snapshot.Sandbox).Caps.Lag()
			o = o.because(ReclaimLost, fmt.Sprintf("its provider has not shown it twice, at least %v apart", lag))
			out, err := p.learn(ctx, m.due.Snapshot, m.seen)
			o.err, o.written = err, out.committed
		}
		p.report(ctx, m.due, o)
	}
}
