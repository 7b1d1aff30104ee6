package talk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// create makes an empty transcript.
func create(c access.ConversationID) Step {
	return Step{Do: func(ctx context.Context, d Desk) error {
		_, err := d.Store.Create(ctx, c)
		return err
	}}
}

// commit commits a change; one that names no conversation is of Main.
func commit(c transcript.Change) Step {
	if c.Conversation == "" {
		c.Conversation = Main
	}
	return Step{Do: func(ctx context.Context, d Desk) error {
		_, err := d.Store.Commit(ctx, c)
		return err
	}}
}

// or is a step that is answered so where it was done already.
func (s Step) or(again func(error) bool) Step {
	s.Again = again
	return s
}

func fork(f transcript.Fork) Step {
	return Step{Do: func(ctx context.Context, d Desk) error {
		_, err := d.Store.Fork(ctx, f)
		return err
	}}
}

func admit(lane transcript.Lane, e transcript.NewEntry) Step {
	return Step{Do: func(ctx context.Context, d Desk) error {
		_, err := d.Inbox.Admit(ctx, Main, transcript.NewInput{Entry: e, Lane: lane}, 100)
		return err
	}}
}

// lapse admits what is too late at once.
func lapse(e transcript.NewEntry) Step {
	return Step{Do: func(ctx context.Context, d Desk) error {
		_, err := d.Inbox.Admit(ctx, Main, transcript.NewInput{Entry: e, Lane: transcript.LaneSteer, Life: 1}, 100)
		return err
	}}
}

// expire puts away what is too late.
func expire() Step {
	return Step{Do: func(ctx context.Context, d Desk) error {
		_, err := d.Inbox.Expire(ctx, Main, transcript.MaxListed)
		return err
	}}
}

func input(id transcript.EntryID, cmd transcript.InputCommand) Step {
	return Step{Do: func(ctx context.Context, d Desk) error {
		_, err := d.Inbox.ChangeInput(ctx, Main, id, cmd)
		return err
	}}
}

// purge purges until there is nothing left, so many rows at a time.
func purge(limit int) Step {
	return Step{Do: func(ctx context.Context, d Desk) error {
		for {
			if n, err := d.Store.Purge(ctx, limit); err != nil || n == 0 {
				return err
			}
		}
	}}
}

// carry exports a conversation, and imports it as another.
func carry(from, to access.ConversationID) Step {
	return Step{Do: func(ctx context.Context, d Desk) error {
		var text bytes.Buffer
		if err := transcript.Export(ctx, d.Store, from, &text, time.Unix(1, 0)); err != nil {
			return err
		}
		_, err := transcript.Import(ctx, d.Store, to, &text)
		return err
	}}
}

// all does steps one after the other.
func all(steps ...Step) func(context.Context, Desk) error {
	return func(ctx context.Context, d Desk) error {
		for i, s := range steps {
			if err := s.Do(ctx, d); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		return nil
	}
}

func says(kind transcript.Kind, id transcript.EntryID, more ...transcript.Part) transcript.NewEntry {
	return transcript.NewEntry{
		ID: id, Kind: kind, Actor: "ann", Parts: append([]transcript.Part{transcript.TextPart("of " + string(id))}, more...),
		Usage: transcript.Usage{Input: 3, Output: int64(len(id)), CostMicros: 5},
	}
}

func asks(id transcript.EntryID) transcript.NewEntry { return says(transcript.KindUser, id) }

// works is an assistant's entry with pending calls.
func works(id transcript.EntryID, calls ...transcript.CallID) transcript.NewEntry {
	e := says(transcript.KindAssistant, id)
	for _, c := range calls {
		e.Parts = append(e.Parts, transcript.Part{Type: transcript.PartCall, Call: &transcript.Call{
			ID: c, Name: "run", Arguments: json.RawMessage(`{"command":"` + string(c) + `"}`),
		}})
	}
	return e
}

// large is an object that does not stand in its row.
func large(of string) json.RawMessage {
	return json.RawMessage(`{"of":"` + strings.Repeat(of, transcript.InlineBytes+1) + `"}`)
}

// shows is a user's entry with something large.
func shows(id transcript.EntryID) transcript.NewEntry {
	return says(transcript.KindUser, id, transcript.Part{Type: "image", Data: large("i")})
}

func sets(id transcript.EntryID, key, value string) transcript.NewEntry {
	return transcript.NewEntry{ID: id, Kind: transcript.KindState, State: &transcript.StateDelta{Set: map[string]json.RawMessage{key: json.RawMessage(value)}}}
}

func compacts(id, kept transcript.EntryID, pinned ...transcript.EntryID) transcript.NewEntry {
	return transcript.NewEntry{ID: id, Kind: transcript.KindCompaction, Compaction: &transcript.Compaction{Summary: "what was said", FirstKept: kept, Pinned: pinned, TokensBefore: 9}}
}

func entries(all ...transcript.NewEntry) []transcript.NewEntry { return all }

func settles(id transcript.EntryID, call transcript.CallID, status transcript.CallStatus, result json.RawMessage) transcript.Settlement {
	return transcript.Settlement{CallAddress: transcript.CallAddress{Entry: id, Call: call}, Status: status, Result: result}
}

// begun is Main with two entries.
func begun() Step {
	return Step{Do: all(create(Main), commit(transcript.Change{Append: entries(asks("first"), says(transcript.KindAssistant, "second"))}))}
}

// rich is Main with something of everything, and two branches.
func rich() Step {
	return Step{Do: all(begun(),
		commit(transcript.Change{Append: entries(sets("set", "k", `1`), works("work", "open", "late"), shows("image"))}),
		commit(transcript.Change{Start: []transcript.CallAddress{{Entry: "work", Call: "open"}}, Settle: []transcript.Settlement{settles("work", "late", transcript.CallSucceeded, large("r"))}}),
		commit(transcript.Change{Append: entries(compacts("folded", "work", "first"), asks("after"))}),
		commit(transcript.Change{After: transcript.After("second"), KeepHead: true, Append: entries(asks("beside"), works("beside work", "b"))}),
		commit(transcript.Change{
			Labels: []transcript.LabelChange{{Entry: "first", Label: "good"}, {Entry: "beside", Label: "tried"}},
			Refs:   []transcript.RefChange{{Name: "here", To: transcript.After("work")}, {Name: "there", To: transcript.After("beside")}},
		}),
		commit(transcript.Change{Draft: &transcript.Draft{NewEntry: says(transcript.KindAssistant, "given up")}}),
		commit(transcript.Change{Abort: []transcript.EntryID{"given up"}}),
	)}
}
