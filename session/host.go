package session

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// host asks the host application and tells it of denials.
type host struct {
	directory access.Directory
	audit     func(context.Context, access.Event)
	log       *slog.Logger
}

// answer is what the host said, and the fault if it could not say.
type answer struct {
	access.Facts
	fault error
}

// ask asks the directory once. A fault leaves every fact unknown, which never
// allows anything: the deciders then answer as for a stranger.
func (h host) ask(ctx context.Context, q access.Question) answer {
	if q.Project == "" {
		q.Want &^= access.WantRole
	}
	if q.Agent == "" && q.Actor.Agent == "" {
		q.Want &^= access.WantAgent
	}
	if q.Want == 0 {
		return answer{}
	}
	f, err := h.directory.Facts(ctx, q)
	if err != nil {
		h.log.WarnContext(ctx, "directory could not answer", "project", q.Project, "error", err)
		return answer{fault: err}
	}
	return answer{Facts: f}
}

// checkActor checks the ids of who asks. Whether anybody does is for access to decide.
func checkActor(a access.Actor) error {
	if err := access.CheckOptionalID("actor.User", a.User); err != nil {
		return err
	}
	return access.CheckOptionalID("actor.Agent", a.Agent)
}

// known is ErrUnavailable where the host could not answer about a project
// that the request itself names. Whether the project exists makes no
// difference to that, so that it may be said.
func (f answer) known(project access.ProjectID) error {
	if f.fault == nil {
		return nil
	}
	return fmt.Errorf("%w: project %q: %w", ErrUnavailable, project, f.fault)
}

// rule turns a decision about something that exists into an error, and tells
// the audit of a denial. A denial that the actor may learn of, but that rests
// on a fact nobody could find out, is not the actor's fault.
func (h host) rule(ctx context.Context, a access.Actor, f answer, d access.Decision, verb, object string, notFound error) error {
	if d.Allow {
		return nil
	}
	if f.fault != nil && !d.Hidden {
		return fmt.Errorf("%w: %s %s: %w", ErrUnavailable, verb, object, f.fault)
	}
	// What does not exist makes no event, nor does what nobody could find out.
	if h.audit != nil && f.fault == nil && d.Reason != access.ReasonProjectGone {
		h.audit(ctx, access.Event{Actor: a, Verb: verb, Object: object, Reason: d.Reason})
	}
	return d.Err(verb, object, notFound)
}

// paying is what is known of who pays for a session.
func (s Session) paying(f answer) billing.Paying {
	return billing.Paying{Owner: s.Owner, Project: s.Project, Account: f.Payer}
}

// The not-found errors. They are made from the id as it was asked for, so
// that an absent id and somebody else's give the same bytes.
func noSession(id ID) error { return fmt.Errorf("%w: session %s", ErrNotFound, id) }
func noConversation(id ConversationID) error {
	return fmt.Errorf("%w: conversation %s", ErrNotFound, id)
}
