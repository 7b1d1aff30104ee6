package session

import (
	"context"
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/host"
)

// maxUnasked is how long work goes on while nobody can say whether it still may.
const maxUnasked = 15 * time.Minute

// entry is whom a work let in, to what: what is asked again while it lasts.
type entry struct {
	actor        access.Actor
	object       string // the id that was asked for
	session      Session
	conversation Conversation // the zero value: of none
}

// question asks for all that decide needs.
func (e entry) question() access.Question {
	return access.Question{
		Actor: e.actor, Project: e.session.Project, Owner: e.session.Owner, Agent: e.conversation.Agent,
		Want: access.WantRole | access.WantCode | access.WantAgent,
	}
}

func (e entry) decide(f access.Facts) access.Decision {
	if v := e.conversation; v.ID != "" {
		if d := access.SeeConversation(e.actor, v.facts(), e.session.Owner, f); !d.Allow {
			return d
		}
	}
	return access.RunCode(e.actor, e.session.facts(), e.conversation.Agent, f)
}

// atBest is f with all that is not known taken for what allows most: what is
// denied all the same is denied for what is known.
func atBest(f access.Facts) access.Facts {
	if f.Project == access.Unknown {
		f.Project = access.Yes
	}
	if f.Role == access.RoleUnknown {
		f.Role = access.RoleOwner
	}
	if f.Code == access.Unknown {
		f.Code = access.Yes
	}
	if f.AgentCode == access.Unknown && f.Agent != access.No {
		f.AgentCode = access.Yes
	}
	return f
}

// askAgain stops the work where whoever opened it may not do so any more, and
// notes when it was last heard that they may.
func (w *Work) askAgain(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, w.vouched.Add(maxUnasked))
	defer cancel()
	asked, h := time.Now(), w.runner.rows.host
	f, err := guarded(ctx, func(ctx context.Context) (host.Answer, error) { return h.Ask(ctx, w.entry.question()), nil })
	switch d := w.entry.decide(atBest(f.Facts)); {
	case errors.Join(err, f.Fault) != nil: // nobody could say
	case !d.Allow:
		w.stop(ErrRevoked)
		e := access.Event{Actor: w.entry.actor, Verb: "work on", Object: w.entry.object, Reason: d.Reason}
		_, err := guarded(ctx, func(ctx context.Context) (struct{}, error) { h.Denied(ctx, e); return struct{}{}, nil })
		if err != nil {
			w.runner.log.WarnContext(ctx, "audit not told", "work", w.id, "session", w.session, "error", err)
		}
	case w.entry.decide(f.Facts).Allow:
		w.vouched = asked
	}
}
