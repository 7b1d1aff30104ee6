package mount

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/bunkroom/bunkroom/access"
)

// host asks the host application about an actor, and tells it of denials.
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

// ask asks the directory once, for no more than q is about. A fault leaves
// every fact unknown, which never allows anything.
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

// known is ErrUndecided where the host could not answer about a project that
// the request itself names: then that gives nothing away.
func (f answer) known(project access.ProjectID) error {
	if f.fault == nil {
		return nil
	}
	return fmt.Errorf("%w: project %q: %w", ErrUndecided, project, f.fault)
}

// rule turns a decision about something that exists into an error, and tells
// the audit of a denial. What nobody could find out is no denial, and a
// project that is gone is not there to be denied.
func (h host) rule(ctx context.Context, a access.Actor, f answer, d access.Decision, verb, object string, notFound error) error {
	switch {
	case d.Allow:
		return nil
	case f.fault != nil && !d.Hidden:
		return fmt.Errorf("%w: %s %s: %w", ErrUndecided, verb, object, f.fault)
	case h.audit != nil && f.fault == nil && d.Reason != access.ReasonProjectGone:
		h.audit(ctx, access.Event{Actor: a, Verb: verb, Object: object, Reason: d.Reason})
	}
	return d.Err(verb, object, notFound)
}

// checkActor checks the ids of who asks. Whether anybody does is for access to decide.
func checkActor(a access.Actor) error {
	if err := access.CheckOptionalID("actor.User", a.User); err != nil {
		return err
	}
	return access.CheckOptionalID("actor.Agent", a.Agent)
}

// The not-found errors. They are made from what was asked for, so that what is
// absent, somebody else's or protected gives the same bytes.
func noMount(id ID) error                 { return fmt.Errorf("%w: %s", ErrNotFound, id) }
func noProject(id access.ProjectID) error { return fmt.Errorf("%w: project %s", ErrNotFound, id) }
func noAgent(id access.AgentID) error     { return fmt.Errorf("%w: agent %s", ErrNotFound, id) }
func noFolder(agent access.AgentID) error {
	return fmt.Errorf("%w: folder of agent %s", ErrNotFound, agent)
}
