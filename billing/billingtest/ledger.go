package billingtest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// TestLedger runs the suite of billing.Ledger. open returns a fresh, empty
// ledger that goes by clock, and cleans up with t.Cleanup. opts may be nil.
func TestLedger(t *testing.T, open func(t *testing.T, clock *Clock) billing.Ledger, opts *Options) {
	t.Helper()
	for _, c := range ledgerChecks() {
		t.Run(c.name, func(t *testing.T) {
			c.run(newBench(t, c, opts, func(clock *Clock) billing.Ledger { return open(t, clock) }))
		})
	}
}

func ledgerChecks() []check {
	return slices.Concat(holdChecks(), holdRaceChecks(), closeChecks(), renewChecks(), postChecks(), postOnceChecks(), postManyChecks(),
		postRaceChecks(), cutChecks(), chargeChecks(), burnChecks(), dayChecks(), grantChecks(), balanceChecks(), statementChecks(),
		exportChecks(), expireChecks(), inputChecks(), nameChecks(), randomChecks())
}

// The names that checks use where any would do.
const (
	alice = access.UserID("alice")
	bob   = access.UserID("bob")
)

// terms are those of checks that are about something else.
var terms = billing.Terms{Estimate: 20, Floor: 250, InFlight: 50}

// each charges a micro for each of a quantity.
var each = billing.Rate{Price: 1, Per: 1}

// now is the moment on the ledger's clock.
func (b *bench) now() time.Time {
	b.Helper()
	return b.balance("nobody").Now
}

func (b *bench) balance(payer access.UserID) billing.Balance {
	b.Helper()
	got, err := b.ledger.Balance(b.Context(), payer)
	if err != nil {
		b.Fatalf("Balance(%s): %v", payer, err)
	}
	return got
}

// stands expects that the account stands like this.
func (b *bench) stands(payer access.UserID, want billing.Standing) {
	b.Helper()
	b.same("how "+string(payer)+" stands", b.balance(payer).Standing, want)
}

// give grants amount to payer, from long ago on, after edit (which may be nil) has had its way.
func (b *bench) give(payer access.UserID, amount billing.Micros, edit func(*billing.Grant)) billing.Grant {
	b.Helper()
	g := billing.Grant{ID: billing.GrantID(b.id()), Payer: payer, Amount: amount, Source: "monthly", GrantedAt: b.now().Add(-100 * time.Hour)}
	if edit != nil {
		edit(&g)
	}
	got, err := b.ledger.Grant(b.Context(), g)
	if err != nil {
		b.Fatalf("Grant(%+v): %v", g, err)
	}
	return got
}

// use is something new that payer pays for.
func (b *bench) use(payer access.UserID) billing.Use {
	return billing.Use{
		Meter: billing.MeterRuntime, Class: "small", Resource: "work " + b.id(), Payer: payer, Session: "session", Project: "project",
	}
}

// ask is a request for work of payer's.
func (b *bench) ask(payer access.UserID) billing.HoldRequest {
	return billing.HoldRequest{ID: billing.HoldID(b.id()), Use: b.use(payer), Terms: terms, TTL: 15 * time.Minute}
}

func (b *bench) hold(r billing.HoldRequest) billing.Hold {
	b.Helper()
	h, err := b.ledger.Hold(b.Context(), r)
	if err != nil {
		b.Fatalf("Hold(%+v): %v", r, err)
	}
	return h
}

// refused expects that there is no hold, for that reason.
func (b *bench) refused(r billing.HoldRequest, reason billing.AdmitReason) *billing.RefusedError {
	b.Helper()
	h, err := b.ledger.Hold(b.Context(), r)
	var refused *billing.RefusedError
	if !errors.As(err, &refused) {
		b.Fatalf("Hold(%+v): got %+v and error %v, want a *RefusedError", r, h, err)
	}
	if refused.Payer != r.Payer || refused.Decision.Reason != reason || refused.Decision.Allow {
		b.Errorf("Hold(%+v): got %+v, want %q for %s", r, *refused, reason, r.Payer)
	}
	b.same("a hold that is refused", h, billing.Hold{})
	return refused
}

// held is the hold as it is listed.
func (b *bench) held(h billing.Hold) billing.Hold {
	b.Helper()
	for _, other := range b.holds(h.Resource) {
		if other.ID == h.ID {
			return other
		}
	}
	b.Fatalf("hold %s of %s is not listed", h.ID, h.Resource)
	return billing.Hold{}
}

func (b *bench) holds(resource string) []billing.Hold {
	b.Helper()
	all, err := b.ledger.Holds(b.Context(), resource)
	if err != nil {
		b.Fatalf("Holds(%s): %v", resource, err)
	}
	return all
}

// span is a post of so much time and quantity, a micro each.
func span(u billing.Use, from time.Time, long time.Duration, quantity int64) billing.Post {
	return billing.Post{Use: u, From: from, To: from.Add(long), Quantity: quantity, Rate: each}
}

// on is p as a part of h's work.
func on(h billing.Hold, p billing.Post) billing.Post {
	p.Hold, p.Terms = h.ID, terms
	return p
}

// last is p as the end of its work.
func last(p billing.Post) billing.Post {
	p.Last = true
	return p
}

// posts posts some, at once, and returns what became of them.
func (b *bench) posts(all ...billing.Post) []billing.Posted {
	b.Helper()
	got, err := b.ledger.Post(b.Context(), all...)
	if err != nil {
		b.Fatalf("Post: %v", err)
	}
	if len(got) != len(all) {
		b.Fatalf("Post: %d answers to %d posts", len(got), len(all))
	}
	return got
}

// post posts p, which must be well.
func (b *bench) post(p billing.Post) billing.Posted {
	b.Helper()
	got := b.posts(p)[0]
	if got.Err != nil {
		b.Fatalf("Post(%+v): %v", p, got.Err)
	}
	return got
}

// fails posts p, which must end with that outcome and leave no trace.
func (b *bench) fails(p billing.Post, want string) {
	b.Helper()
	before := b.picture(p.Payer, p.Key())
	got := b.posts(p)[0]
	b.ends("Post", got.Err, want)
	b.same("a post that fails", got, billing.Posted{Err: got.Err})
	b.same("the account after a post that failed", b.picture(p.Payer, p.Key()), before)
}

// spend has payer use so much, of something new, up to now.
func (b *bench) spend(payer access.UserID, amount billing.Micros) billing.Posted {
	b.Helper()
	return b.post(span(b.use(payer), b.now().Add(-time.Minute), time.Minute, int64(amount)))
}

// keyOf is the watermark of a use.
func keyOf(u billing.Use) billing.MarkKey {
	return billing.MarkKey{Resource: u.Resource, Meter: u.Meter}
}

func (b *bench) mark(k billing.MarkKey) billing.Mark {
	b.Helper()
	all, err := b.ledger.Marks(b.Context(), []billing.MarkKey{k})
	if err != nil || len(all) != 1 {
		b.Fatalf("Marks: %+v, %v", all, err)
	}
	return all[0]
}

// statement is the whole book of payer.
func (b *bench) statement(payer access.UserID) (all []billing.Entry) {
	b.Helper()
	for e, err := range billing.Entries(b.Context(), b.ledger, payer, 0) {
		if err != nil {
			b.Fatalf("Statement of %s: %v", payer, err)
		}
		all = append(all, e)
	}
	return all
}

// verify expects that the book of payer and the balance agree.
func (b *bench) verify(payers ...access.UserID) {
	b.Helper()
	for _, payer := range payers {
		v, err := billing.Verify(b.Context(), b.ledger, payer)
		if err != nil {
			b.Fatalf("Verify(%s): %v", payer, err)
		}
		for _, fault := range v.Faults {
			b.Errorf("the book of %s: %s", payer, fault)
		}
	}
}

// picture is all that can be seen of an account and a meter, without the clock.
type picture struct {
	Balance billing.Balance
	Entries []billing.Entry
	Mark    billing.Mark
	Holds   []billing.Hold
}

func (b *bench) picture(payer access.UserID, k billing.MarkKey) picture {
	b.Helper()
	p := picture{Balance: b.balance(payer), Entries: b.statement(payer), Mark: b.mark(k), Holds: b.holds(k.Resource)}
	p.Balance.Now = time.Time{}
	return p
}

// dated expects that something was dated on the ledger's clock, since that time.
func (b *bench) dated(what string, at, since time.Time) {
	b.Helper()
	if now := b.now(); at.Before(since) || at.After(now) {
		b.Errorf("%s at %v, want it from %v to %v", what, at, since, now)
	}
}
