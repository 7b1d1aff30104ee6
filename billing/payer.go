package billing

import "github.com/bunkroom/bunkroom/access"

// Paying is what the deciders need to know of who pays for a session.
type Paying struct {
	Owner   access.UserID    // of the session
	Project access.ProjectID // of the session; empty = personal
	// Account is what the host says: the account of the project's owner. Empty means it could not be found out.
	Account access.UserID
}

// PayerReason says why somebody pays, or nobody does.
type PayerReason uint8

// The reasons. The zero value names nobody.
const (
	PayerUnresolved PayerReason = iota // the host could not say, and nobody else may be charged
	PayerOwner                         // what is personal is its owner's
	PayerProject                       // the project's
	PayerFallback                      // the host could not say, so the session's owner
)

func (r PayerReason) String() string {
	if r > PayerFallback {
		r = PayerUnresolved
	}
	return [...]string{"unresolved", "owner", "project", "fallback"}[r]
}

// PayerDecision says who pays. The zero value names nobody.
type PayerDecision struct {
	Payer  access.UserID // empty = nobody: do without
	Reason PayerReason
}

// RuntimePayer is who pays for work in a session. It is the session that
// decides, whatever agent or surface asked for the work. Somebody must be
// charged for what runs: where the host can't say who pays for the project, the session's owner is.
func RuntimePayer(p Paying) PayerDecision {
	d := StoragePayer(p)
	if d.Reason == PayerUnresolved && p.Owner != "" {
		return PayerDecision{Payer: p.Owner, Reason: PayerFallback}
	}
	return d
}

// StoragePayer is who pays for what a session's sandbox keeps. Where the host
// can't say, nobody is charged this time: nothing is lost, for the watermark stays where it is.
func StoragePayer(p Paying) PayerDecision {
	switch {
	case p.Project == "" && p.Owner != "":
		return PayerDecision{Payer: p.Owner, Reason: PayerOwner}
	case p.Project != "" && p.Account != "":
		return PayerDecision{Payer: p.Account, Reason: PayerProject}
	}
	return PayerDecision{}
}
