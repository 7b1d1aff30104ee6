package e2e

import (
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

// sessionOp is what a client asks of one owner's sessions, which go by their first conversations.
type sessionOp struct {
	Op           string // Spawn, End, Reopen or List
	Owner        access.UserID
	Conversation session.ConversationID
}

// sessionOut is what it was answered. Lost: nothing, for the process was killed.
type sessionOut struct {
	Lost  bool
	Code  string
	Ended bool
	Open  []session.ConversationID
}

// owned is the state of the model: the sessions of one owner, and which of them are open.
type owned map[session.ConversationID]bool

func (s owned) open() (n int) {
	for _, open := range s {
		if open {
			n++
		}
	}
	return n
}

// with is s with a session that is open or not.
func (s owned) with(id session.ConversationID, open bool) owned {
	next := maps.Clone(s)
	next[id] = open
	return next
}

// sessionsModel is one owner's sessions under a ceiling: it is never exceeded,
// and nothing is refused because of it below it.
func sessionsModel(ceiling int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return owned{} },
		Step: func(state, input, output any) (bool, any) {
			return stepSessions(state.(owned), input.(sessionOp), output.(sessionOut), ceiling)
		},
		Equal: func(a, b any) bool { return maps.Equal(a.(owned), b.(owned)) },
	}
}

// stepSessions says whether the answer is right where s is, and what is then.
// What was never answered is done as far as it can be: a call that never
// happened is one that comes after everything else.
func stepSessions(s owned, in sessionOp, out sessionOut, ceiling int) (bool, owned) {
	open, there := s[in.Conversation]
	full := s.open() >= ceiling
	switch in.Op {
	case "Spawn", "Reopen":
		limited := full && !open
		if in.Op == "Spawn" && there { // a repetition
			limited = false
		}
		switch {
		case out.Lost && limited, in.Op == "Reopen" && !there:
			return out.Lost, s
		case out.Lost:
		case limited:
			return out.Code == "session_limit", s
		case out.Code != "":
			return false, s
		}
		if in.Op == "Spawn" && there {
			return true, s
		}
		return true, s.with(in.Conversation, true)
	case "End":
		if !there || !out.Lost && (out.Code != "" || out.Ended != open) {
			return out.Lost, s
		}
		return true, s.with(in.Conversation, false)
	case "List":
		if out.Lost {
			return true, s
		}
		var want []session.ConversationID
		for id, open := range s {
			if open {
				want = append(want, id)
			}
		}
		slices.Sort(want)
		return slices.Equal(want, out.Open), s
	}
	return false, s
}
