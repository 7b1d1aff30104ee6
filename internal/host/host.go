// Package host asks the host application about an actor and tells it of
// denials, once and in one way for every room that has a Catalog.
package host

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/bunkroom/bunkroom/access"
)

// Host is the host application. It may be used concurrently.
type Host struct {
	Directory access.Directory
	Audit     func(context.Context, access.Event) // nil = nobody is told
	Log       *slog.Logger
	// Unavailable is the room's own error for what the host could not say.
	Unavailable error
}

// Answer is what the host said, and the fault if it could not say.
type Answer struct {
	access.Facts
	Fault       error // nil = it could, though single facts may be unknown
	unavailable error
}

// Ask asks the directory once, for no more than q is about. A fault leaves
// every fact unknown, which never allows anything: the deciders then answer as for a stranger.
func (h Host) Ask(ctx context.Context, q access.Question) Answer {
	if q.Project == "" {
		q.Want &^= access.WantRole
	}
	if q.Agent == "" && q.Actor.Agent == "" {
		q.Want &^= access.WantAgent
	}
	if q.Want == 0 {
		return Answer{}
	}
	f, err := h.Directory.Facts(ctx, q)
	if err != nil {
		h.Log.WarnContext(ctx, "directory could not answer", "project", q.Project, "error", err)
		return Answer{Fault: err, unavailable: h.Unavailable}
	}
	return Answer{Facts: f}
}

// Known is Unavailable where the host could not answer about a project that
// the request itself names. Whether the project exists makes no difference to
// that, so that it may be said.
func (f Answer) Known(project access.ProjectID) error {
	if f.Fault == nil {
		return nil
	}
	return fmt.Errorf("%w: project %q: %w", f.unavailable, project, f.Fault)
}

// Rule turns a decision about something that exists into an error, and tells
// the audit of a denial. A denial that the actor may learn of, but that rests
// on a fact nobody could find out, is not the actor's fault. What does not
// exist makes no event, nor does a host that could not answer.
func (h Host) Rule(ctx context.Context, a access.Actor, f Answer, d access.Decision, verb, object string, notFound error) error {
	switch {
	case d.Allow:
		return nil
	case f.Fault != nil && !d.Hidden:
		return fmt.Errorf("%w: %s %s: %w", f.unavailable, verb, object, f.Fault)
	case f.Fault == nil:
		h.Denied(ctx, access.Event{Actor: a, Verb: verb, Object: object, Reason: d.Reason})
	}
	return d.Err(verb, object, notFound)
}

// Denied tells the audit of a denial, but for one of what does not exist.
func (h Host) Denied(ctx context.Context, e access.Event) {
	if h.Audit != nil && e.Reason != access.ReasonProjectGone {
		h.Audit(ctx, e)
	}
}

// CheckActor checks the ids of who asks. Whether anybody does is for access to decide.
func CheckActor(a access.Actor) error {
	if err := access.CheckOptionalID("actor.User", a.User); err != nil {
		return err
	}
	return access.CheckOptionalID("actor.Agent", a.Agent)
}

// First returns the first of joined errors, so that one field is named.
func First(err error) error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()[0]
	}
	return err
}
