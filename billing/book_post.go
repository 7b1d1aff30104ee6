package billing

import (
	"fmt"
	"math"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Post is one post of [Ledger.Post].
func (b *Book) Post(p Post) Posted {
	out, err := b.post(p)
	if err != nil {
		return Posted{Err: err}
	}
	return out
}

func (b *Book) post(p Post) (Posted, error) {
	p.From, p.To = utc(p.From), utc(p.To) // first, for what is below a microsecond is no length
	if err := p.check(); err != nil {
		return Posted{}, err
	}
	mark, there := Mark{MarkKey: p.Key()}, b.marks[p.Key()]
	if there != nil {
		mark = there.Mark
	}
	hold := b.holds[p.Hold]
	if p.Hold != "" {
		switch {
		case hold == nil:
			return Posted{}, fmt.Errorf("%w: hold %s", ErrNotFound, p.Hold)
		case hold.Use != p.Use:
			return Posted{}, fmt.Errorf("%w: hold %s is for something else", ErrConflict, p.Hold)
		}
	}
	out, again, err := b.posted(p, mark)
	if err != nil {
		return Posted{}, err
	}
	if hold != nil {
		out.Hold = *hold
	}
	switch {
	case again && (mark.Closed || !mark.Through.Equal(p.To)):
		return out, nil // and whatever came of it has come since
	case again: // it may still have to close or renew
	case mark.Closed, hold != nil && (hold.State == HoldSettled || hold.State == HoldReleased):
		return Posted{}, fmt.Errorf("%w: %s of %s", ErrClosed, p.Meter, p.Resource)
	case !mark.Through.IsZero() && !mark.Through.Equal(p.From):
		return Posted{}, &MarkError{MarkKey: p.Key(), From: p.From, Through: mark.Through}
	case p.To.After(p.From):
		if out.Charged, err = b.charge(p, &mark); err != nil {
			return Posted{}, err
		}
	}
	mark.Through, mark.Closed = p.To, p.Last
	if mark.Of == (Use{}) || !again && p.To.After(p.From) { // what is said twice, or is nothing, makes nobody else pay
		mark.Of = p.Use
	}
	if there == nil {
		there = &bookMark{}
		put(&b.marks, p.Key(), there)
	}
	*there = bookMark{mark, true}
	b.account(p.Payer)
	if hold != nil {
		out.Hold, out.Refused = b.goOn(*hold, p)
	}
	return out, nil
}

// check refuses what no caller should ever have made.
func (p Post) check() error {
	if err := p.Use.check(); err != nil {
		return err
	}
	if err := access.CheckOptionalID("Hold", p.Hold); err != nil {
		return err
	}
	switch {
	case p.From.IsZero():
		return field("From", "must be set")
	case p.To.Before(p.From):
		return field("To", "must not be before From")
	case p.Quantity < 0:
		return field("Quantity", "must not be negative")
	case p.Quantity > 0 && !p.To.After(p.From):
		return field("Quantity", "must be 0 where the span has no length")
	case p.To.After(p.From) && (p.Rate.Per < 1 || p.Rate.Price < 0):
		return field("Rate", "must have a price of at least 0 for at least 1")
	case p.Renew < 0:
		return field("Renew", "must not be negative")
	}
	return nil
}

// posted reports whether p had been posted before: the same span with the
// same content, or one without length that changes nothing any more.
func (b *Book) posted(p Post, mark Mark) (out Posted, again bool, err error) {
	if !p.To.After(p.From) {
		again = p.Last && mark.Closed && mark.Through.Equal(p.To)
		return Posted{Repeated: again}, again, nil
	}
	was, ok := b.entries[UsageID(p.Key(), p.From)]
	if !ok {
		return Posted{}, false, nil
	}
	if was.Use != p.Use || !was.To.Equal(p.To) || was.Quantity != p.Quantity {
		same := was.Use
		same.Payer = p.Payer
		// Somebody else has posted, up to another time, or while another paid.
		if mark.Through.After(p.From) && same == p.Use && (was.Use.Payer != p.Payer || !was.To.Equal(p.To)) {
			return Posted{}, false, &MarkError{MarkKey: p.Key(), From: p.From, Through: mark.Through}
		}
		return Posted{}, false, fmt.Errorf("%w: usage %s", ErrConflict, was.ID)
	}
	return Posted{Repeated: true, Charged: was.Amount}, true, nil
}

// charge writes the entry of a span, and has the account's grants pay for it.
func (b *Book) charge(p Post, mark *Mark) (Micros, error) {
	carried := mark.Left
	amount, left, err := p.Rate.Charge(p.Quantity, carried)
	if err != nil {
		return 0, err
	}
	total := mark.Total + p.Quantity
	if total < mark.Total {
		return 0, &OverflowError{What: "quantity"}
	}
	b.paying = b.paying[:0]
	for _, g := range b.grants[p.Payer] {
		b.paying = append(b.paying, *g)
	}
	// To is the first instant that is not used any more: it is the one before that must be covered.
	draws, short := burn(b.paying, p.To.Add(-time.Microsecond), amount)

	var account Account
	if a := b.accounts[p.Payer]; a != nil {
		account = *a
	}
	if today := day(b.now); today > account.Day {
		account.Day, account.Spent = today, 0
	}
	debt, ok1 := account.Debt.plus(short)
	spent, ok2 := account.Spent.plus(amount)
	if short > 0 && !ok1 || amount > 0 && !ok2 {
		return 0, &OverflowError{What: "account"}
	}
	mark.Left, mark.Total = left, total
	a := b.account(p.Payer)
	a.Day, a.Spent, a.Debt = account.Day, spent, debt

	postings := make([]Posting, 0, len(draws)+2)
	for _, d := range draws {
		b.draw(p.Payer, d.Grant, d.Amount)
		postings = append(postings, Posting{grantAccount(d.Grant), -d.Amount})
	}
	if short > 0 {
		postings = append(postings, Posting{debtAccount(p.Payer), -short})
	}
	if amount > 0 {
		postings = append(postings, Posting{revenueAccount(p.Meter), amount})
	}
	b.enter(Entry{
		ID: UsageID(p.Key(), p.From), Kind: EntryUsage, Payer: p.Payer, Amount: amount,
		Use: p.Use, From: p.From, To: p.To, Quantity: p.Quantity, Rate: p.Rate, Carried: carried, Postings: postings,
	})
	return amount, nil
}

func (b *Book) draw(payer access.UserID, id GrantID, amount Micros) {
	b.grants[payer][id].Remaining -= amount
	put(&b.dirty.grants, id, payer)
}

// goOn renews or closes the hold of a post. It returns it as it is now, and why it may not go on.
func (b *Book) goOn(h Hold, p Post) (Hold, *RefusedError) {
	expired := !b.now.Before(h.Until)
	open := h.State == HoldOpen
	switch {
	case p.Last && open:
		h.State, h.ClosedAt = HoldSettled, b.now
		b.write(h)
		return h, nil
	case p.Last || p.Renew == 0:
		return h, nil
	case open && expired:
		h.State, h.ClosedAt = HoldExpired, b.now
		b.write(h)
		fallthrough
	case !open:
		return h, &RefusedError{Payer: h.Payer, Decision: AdmitDecision{Reason: RefusedHoldEnded}}
	}
	// It was let in already: how much else is in flight is no reason to end it.
	terms := p.Terms
	terms.InFlight = math.MaxInt
	// Where it may not go on the hold runs out: what is used until then is posted to it.
	if d := Admit(b.standing(h.Payer, h.ID), terms); !d.Allow {
		return h, &RefusedError{Payer: h.Payer, Decision: d}
	}
	h.Until = later(h.Until, b.now.Add(p.Renew).Truncate(time.Microsecond))
	b.write(h)
	return h, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
