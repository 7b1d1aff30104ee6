package billing

// Terms are what an account must keep to. Hosts choose them by plan; the zero
// value admits nothing, for it lets nothing be in flight.
type Terms struct {
	// Estimate is reserved by every hold. The studied system: 0.02.
	Estimate Micros
	// Floor is what must be left once the estimate is reserved, or more: the
	// account may start work only above it. Below 0 it is an overdraft. The studied system: 0.25.
	Floor Micros
	// InFlight is how many holds an account may have at once. The studied system: at least 50.
	// What was let in goes on where it has come down since.
	InFlight int
	// DailyCap is the most that a day of UTC may cost, with what is reserved; 0 = no cap.
	DailyCap Micros
	// MaxDebt is the most debt an account may have and still start work; 0 = none. Debt counts
	// against what may be spent all the same.
	MaxDebt Micros
}

// Standing is how an account stands at one moment.
type Standing struct {
	Available Micros // what is left of the grants that count now
	Debt      Micros // charged and not covered by any grant
	Held      Micros // reserved by the holds that are open and have not expired
	Holds     int    // how many those are
	Spent     Micros // charged on this day of UTC
}

// Spendable is what is neither spent nor reserved.
func (s Standing) Spendable() Micros { return s.Available.less(s.Debt).less(s.Held) }

// AdmitReason says why an account may start work, or may not. It is for logs
// and the host's own admins.
type AdmitReason uint8

// The reasons. The zero value admits nothing.
const (
	AdmitUndecided   AdmitReason = iota
	Admitted                     // it may
	RefusedInFlight              // as much is in flight as may be
	RefusedDebt                  // too much is owed
	RefusedCredit                // not enough is left
	RefusedDailyCap              // the day's cap is reached
	RefusedHoldEnded             // the hold that should go on has expired, or was closed
	RefusedClosed                // the work's account is closed: nothing more is charged, and this was not
)

var admitReasons = [...]string{"undecided", "admitted", "too many in flight", "in debt", "out of credit", "daily cap reached", "hold ended", "account closed"}

func (r AdmitReason) String() string {
	if int(r) >= len(admitReasons) {
		return admitReasons[AdmitUndecided]
	}
	return admitReasons[r]
}

// AdmitDecision is whether work may start. The zero value says no.
type AdmitDecision struct {
	Allow  bool
	Reason AdmitReason
	// Limit is the ceiling that the reason is about, and Remaining what is left
	// of it before this work: of holds, or of micros. Where it is allowed they are about credit.
	Limit, Remaining int64
}

// Admit decides whether an account that stands like this may start one more
// work. Of several reasons the first in the order of the constants is given.
func Admit(s Standing, t Terms) AdmitDecision {
	spendable, estimate := s.Spendable(), max(t.Estimate, 0)
	left := t.DailyCap.less(s.Spent).less(s.Held)
	switch {
	case s.Holds >= t.InFlight:
		return AdmitDecision{Reason: RefusedInFlight, Limit: int64(t.InFlight), Remaining: int64(max(t.InFlight-s.Holds, 0))}
	case s.Debt > t.MaxDebt:
		return AdmitDecision{Reason: RefusedDebt, Limit: int64(t.MaxDebt), Remaining: 0}
	case spendable.less(estimate) <= t.Floor:
		return AdmitDecision{Reason: RefusedCredit, Limit: int64(t.Floor), Remaining: int64(spendable)}
	case t.DailyCap > 0 && left.less(estimate) < 0:
		return AdmitDecision{Reason: RefusedDailyCap, Limit: int64(t.DailyCap), Remaining: int64(max(left, 0))}
	}
	return AdmitDecision{Allow: true, Reason: Admitted, Limit: int64(t.Floor), Remaining: int64(spendable)}
}
