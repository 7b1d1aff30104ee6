// Package access answers one question: may this actor do that?
//
// It is the lowest room of the house. It declares the ids every other room
// speaks in, who is asking ([Actor]), what the host knows about them ([Facts])
// and the deciders that turn both into a [Decision]. A decider is a pure
// function: no context, no clock, no input or output. The same facts give the
// same answer.
//
// The host supplies one method, [Directory.Facts]. Every answer in it has a
// third value, "unknown", and unknown never allows anything. The zero
// [Decision] denies.
//
//	facts, err := directory.Facts(ctx, access.Question{Actor: a, Project: s.Project, Want: access.WantRole})
//	if err != nil { … }
//	if d := access.SeeSession(a, access.SessionFacts{Owner: s.Owner, Project: s.Project}, facts); !d.Allow {
//		return d.Err("see session", string(s.ID), session.ErrNotFound)
//	}
//
// A decision may be Hidden: then the caller must answer exactly as it would
// for an id that does not exist, so that a stranger can't tell "not there"
// from "not yours". [Decision.Err] does that.
//
// Values of this package are safe for concurrent use.
package access
