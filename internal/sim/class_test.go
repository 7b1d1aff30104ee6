package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// class is what of an error is the same in all stores.
func class(err error) string {
	if err == nil {
		return "ok"
	}
	if limit, ok := errors.AsType[*session.LimitError](err); ok {
		return "limit of " + limit.Kind.String()
	}
	for word, as := range map[string]any{ // at most one of them is in an error
		"held": new(*session.HeldError), "elsewhere": new(*session.ElsewhereError), "being made": new(*sandbox.ProvisioningError),
		"machine lost": new(*sandbox.LostError), "too many attempts": new(*sandbox.AttemptsError), "refused": new(*billing.RefusedError),
		"billed elsewhere": new(*billing.MarkError),
	} {
		if errors.As(err, as) {
			return word
		}
	}
	for _, known := range []struct {
		err  error
		word string
	}{
		{session.ErrUnknown, "unknown"}, {session.ErrStale, "stale"}, {session.ErrExists, "exists"}, {session.ErrClaimed, "claimed"},
		{session.ErrNotFound, "not found"}, {session.ErrEnded, "ended"}, {session.ErrFenced, "fenced"}, {session.ErrUnavailable, "unavailable"},
		{session.ErrEnvironmentGone, "environment gone"}, {session.ErrDraining, "draining"}, {sandbox.ErrUnavailable, "unavailable"},
		{session.ErrNoMachine, "no machine"}, {session.ErrOutOfCredit, "out of credit"}, {session.ErrRevoked, "revoked"}, {session.ErrClosed, "closed"},
		{billing.ErrUnknown, "unknown"}, {billing.ErrClosed, "closed"}, {billing.ErrConflict, "conflict"}, {billing.ErrNotFound, "not found"},
		{sandbox.ErrGone, "gone"}, {sandbox.ErrNotAllowed, "not allowed"},
		{sandbox.ErrWorking, "working"}, {errOutage, "outage"}, {errBusy, "busy"}, {errLost, "lost"}, {errDead, "dead"}, {context.Canceled, "cancelled"}, {context.DeadlineExceeded, "too late"},
	} {
		if errors.Is(err, known.err) {
			return known.word
		}
	}
	return fmt.Sprintf("%T", err)
}
