package transcripttest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func admitChecks() []inboxCheck {
	conflict, promoted := as[*transcript.InputConflictError], as[*transcript.PromotedError]
	return []inboxCheck{
		{"admit", "An input that comes waits, with all that it was given, and moves no head.", func(b *inboxBench) {
			b.create(talk)
			b.grow(talk, head(), "a")
			before := b.load(talk)
			for i, e := range full() {
				in := transcript.NewInput{Entry: e, Lane: transcript.LaneFollowUp, Wait: time.Hour + 1, Life: 2 * time.Hour, Billing: "hold 7 ü"}
				if i%2 == 0 {
					in.After = transcript.After("a")
				} else {
					in.Ref, in.Life = "main", 0
				}
				if i == 0 {
					in.After = transcript.BeforeRoot()
				}
				got := b.admits(in)
				want := transcript.Input{
					NewInput: in, State: transcript.InputPending, Version: 1, Order: got.Input.Order, Admitted: b.load(talk).LastSeq,
					NotBefore: got.Input.NotBefore, Expires: got.Input.Expires, CreatedAt: got.Input.CreatedAt,
				}
				b.same("the answer", got, transcript.Admitted{Input: want, Created: true})
				b.same("the input", b.input(e.ID), want)
				now := b.clock.Now()
				if d := got.Input.NotBefore.Sub(got.Input.CreatedAt); d.Truncate(time.Second) != time.Hour || got.Input.CreatedAt.Sub(now).Abs() > time.Hour*24*365*30 {
					b.Errorf("it came at %v and is to wait until %v", got.Input.CreatedAt, got.Input.NotBefore)
				}
				if d := got.Input.Expires.Sub(got.Input.CreatedAt); in.Life > 0 && d != in.Life || in.Life == 0 && !got.Input.Expires.IsZero() {
					b.Errorf("it came at %v and expires at %v", got.Input.CreatedAt, got.Input.Expires)
				}
			}
			after := b.load(talk)
			if after.Head != before.Head || after.Version != before.Version || after.Entries != before.Entries || after.LastSeq != before.LastSeq+int64(len(full())) {
				b.Errorf("the transcript is %+v, and was %+v", after, before)
			}
			if news := b.news(before.LastSeq); len(news) != len(full()) || news[1] != string(full()[1].ID)+" pending" {
				b.Errorf("what happened: %v", news)
			}
			b.sound(talk)
		}},
		{"admit-retry", "Twice with one id and content is once, whatever has become of it meanwhile.", func(b *inboxBench) {
			b.create(talk)
			b.admits(steer("a"), steer("b"), steer("c"))
			edited := asks("b")
			edited.Parts[0] = transcript.TextPart("something else")
			b.changes("b", transcript.InputCommand{Edit: &edited})
			b.changes("b", transcript.InputCommand{Lane: transcript.LaneFollowUp})
			b.changes("c", transcript.InputCommand{Cancel: true})
			before, inputs := b.picture(talk), b.inputs(states()...)
			for _, want := range inputs {
				got, err := b.box.Admit(b.Context(), talk, steer(want.Entry.ID), 1)
				if err != nil || got.Created {
					b.Errorf("%s again: got %+v, %v", want.Entry.ID, got, err)
				}
				b.same("the answer", got.Input, want)
			}
			b.same("after that", b.picture(talk), before)
			b.same("the inputs", b.inputs(states()...), inputs)
		}},
		{"admit-conflict", "The id of an input that came with other content is *InputConflictError.", func(b *inboxBench) {
			b.create(talk)
			b.admits(steer("a"))
			kind, text, turn := steer("a"), steer("a"), steer("a")
			kind.Entry.Kind = transcript.KindSynthetic
			text.Entry.Parts = []transcript.Part{transcript.TextPart("something else")}
			turn.Entry.Turn = "t"
			for what, in := range map[string]transcript.NewInput{"another kind": kind, "another text": text, "another turn": turn} {
				b.uncalled(what, in, most, conflict, "a")
			}
		}},
		{"admit-entry", "The id of an entry, inherited, given up or once an input, is *PromotedError.", func(b *inboxBench) {
			b.create(talk)
			b.grow(talk, head(), "a")
			b.commit(drafts(asks("given up")))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"given up"}})
			b.admits(steer("p"))
			b.commit(promotes("p"))
			for _, id := range []transcript.EntryID{"a", "given up", "p"} {
				b.uncalled("the id of an entry", steer(id), most, promoted, string(id))
			}
			other := steer("p")
			other.Entry.Kind = transcript.KindSynthetic
			b.uncalled("the id of an entry, and of an input with other content", other, most, promoted, "p")
			for i, reference := range []bool{true, false} {
				fork := []access.ConversationID{third, "01990000-0000-7000-8000-000000000002"}[i]
				b.fork(transcript.Fork{From: talk, To: fork, ByReference: reference})
				if _, err := b.box.Admit(b.Context(), fork, steer("a"), most); !promoted(err) {
					b.Errorf("in a fork: got error %v", err)
				}
			}
		}},
		{"admit-limit", "So many inputs may wait: *LimitError. What is done or has expired does not wait, and a retry is no more.", func(b *inboxBench) {
			b.create(talk)
			mortal := steer("m")
			mortal.Life = time.Minute
			b.admits(steer("a"), steer("b"), steer("c"), mortal)
			over := func(what string, max int, id transcript.EntryID) {
				b.uncalled(what, steer(id), max, as[*transcript.LimitError])
			}
			over("a fifth of four", 4, "e")
			over("of fewer than there are", 2, "e")
			if got, err := b.box.Admit(b.Context(), talk, steer("a"), 4); err != nil || got.Created {
				b.Errorf("a retry: got %+v, %v", got, err)
			}
			b.clock.Step(time.Minute)
			b.changes("b", transcript.InputCommand{Cancel: true})
			for _, id := range []transcript.EntryID{"e", "f"} {
				if got, err := b.box.Admit(b.Context(), talk, steer(id), 4); err != nil || !got.Created {
					b.Fatalf("with room for it: got %+v, %v", got, err)
				}
			}
			over("no room any more", 4, "g")
			for i, e := range []transcript.EntryID{"a", "c", "e", "f"} {
				b.commit(promotes(e))
				if i == 1 {
					continue
				}
				id := transcript.EntryID(fmt.Sprint("n", i))
				if _, err := b.box.Admit(b.Context(), talk, steer(id), 4); err != nil {
					b.Errorf("%s after a promotion: %v", id, err)
				}
			}
			b.sound(talk)
		}},
		{"admit-refused", "What can't be is refused by its field; of what is not there, or takes nothing, nothing waits.", func(b *inboxBench) {
			b.create(talk)
			b.grow(talk, head(), "a")
			b.commit(drafts(asks("given up")))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"given up"}})
			field := as[*access.FieldError]
			wrong := func(do func(*transcript.NewInput)) transcript.NewInput {
				in := steer("x")
				do(&in)
				return in
			}
			for what, in := range map[string]transcript.NewInput{
				"no id":            wrong(func(in *transcript.NewInput) { in.Entry.ID = "" }),
				"no kind":          wrong(func(in *transcript.NewInput) { in.Entry.Kind = "" }),
				"no lane":          wrong(func(in *transcript.NewInput) { in.Lane = "" }),
				"a lane of nobody": wrong(func(in *transcript.NewInput) { in.Lane = "x" }),
				"two places":       wrong(func(in *transcript.NewInput) { in.After = transcript.Position{Entry: "a", Root: true} }),
				"a place and ref":  wrong(func(in *transcript.NewInput) { in.After, in.Ref = transcript.After("a"), "r" }),
				"before its time":  wrong(func(in *transcript.NewInput) { in.Wait = -1 }),
				"no life":          wrong(func(in *transcript.NewInput) { in.Life = -1 }),
				"NUL":              wrong(func(in *transcript.NewInput) { in.Billing = "\x00" }),
			} {
				b.uncalled(what, in, most, field)
			}
			b.uncalled("a limit of none", steer("x"), 0, field)
			large := steer("x")
			large.Entry.Parts = []transcript.Part{transcript.TextPart(strings.Repeat("x", transcript.MaxEntryBytes))}
			b.uncalled("too large", large, most, as[*transcript.LimitError])
			for _, id := range []transcript.EntryID{"nothing", "given up", "x"} {
				b.uncalled("after what is not there", wrong(func(in *transcript.NewInput) { in.After = transcript.After(id) }), most, is(transcript.ErrNotFound), string(id))
			}
			if _, err := b.box.Admit(b.ended(), talk, steer("x"), most); err == nil {
				b.Errorf("with a context that has ended: no error")
			}
			b.admits(steer("w"))
			b.commit(transcript.Change{Status: transcript.Archived, CancelWaiting: true})
			b.uncalled("what is archived", steer("x"), most, is(transcript.ErrArchived), string(talk))
			b.unchanged("what is archived", "w", transcript.InputCommand{Cancel: true}, is(transcript.ErrArchived))
			b.commit(transcript.Change{Status: transcript.Deleted})
			for _, c := range []access.ConversationID{talk, other} {
				_, admit := b.box.Admit(b.Context(), c, steer("x"), most)
				_, list := b.box.Inputs(b.Context(), c, "", most)
				_, change := b.box.ChangeInput(b.Context(), c, "w", transcript.InputCommand{Cancel: true})
				for what, err := range map[string]error{"Admit": admit, "Inputs": list, "ChangeInput": change} {
					if !errors.Is(err, transcript.ErrNotFound) {
						b.Errorf("%s of what is not there: got error %v", what, err)
					}
				}
			}
			b.create(other)
			b.commit(transcript.Change{Conversation: other, Status: transcript.Importing})
			if _, err := b.box.Admit(b.Context(), other, steer("x"), most); !errors.Is(err, transcript.ErrBusy) {
				b.Errorf("while it is imported: got error %v", err)
			}
		}},
		{"admit-any-time", "A turn that is under way, a draft and a compaction are no obstacle, and are not disturbed. (case 33)", func(b *inboxBench) {
			b.create(talk)
			b.grow(talk, head(), "a", "b")
			b.commit(transcript.Change{Fence: 5, Begin: true})
			b.commit(transcript.Change{Fence: 5, Draft: &transcript.Draft{NewEntry: asks("d")}})
			context, err := b.store.Context(b.Context(), talk, head(), enough)
			if err != nil {
				b.Fatalf("Context: %v", err)
			}
			plan, ok := transcript.PlanCompaction(context, func(transcript.Entry) int64 { return 1 }, transcript.CompactionRule{Keep: 1})
			if !ok {
				b.Fatalf("there is nothing to compact")
			}
			if got := b.admits(steer("typed meanwhile")); !got.InTurn {
				b.Errorf("got %+v, want InTurn", got)
			}
			b.commit(transcript.Change{Fence: 5, Expect: plan.Head, Append: []transcript.NewEntry{
				{ID: "k", Kind: transcript.KindCompaction, Compaction: plan.Compaction("what there was")},
			}, Abort: []transcript.EntryID{"d"}})
			b.same("what waits", lined(b.inputs()), []transcript.EntryID{"typed meanwhile"})
			if got, err := b.box.Admit(b.Context(), talk, steer("typed meanwhile"), most); err != nil || !got.InTurn || got.Created {
				b.Errorf("again: got %+v, %v", got, err)
			}
			c := promotes("typed meanwhile")
			c.Fence, c.End = 5, true
			b.commit(c)
			if got := b.admits(steer("later")); got.InTurn {
				b.Errorf("got %+v, want no turn", got)
			}
			b.same("the path", ids(b.path(talk, head())), []transcript.EntryID{"a", "b", "k", "typed meanwhile"})
		}},
	}
}

// uncalled admits what must be refused, and expects nothing to be written.
func (b *inboxBench) uncalled(what string, in transcript.NewInput, max int, refusal func(error) bool, subjects ...string) {
	b.Helper()
	before, inputs := b.picture(talk), b.inputs(states()...)
	got, err := b.box.Admit(b.Context(), talk, in, max)
	if err == nil || !refusal(err) {
		b.Errorf("%s: got one that is %s, and error %v", what, got.Input.State, err)
		return
	}
	for _, s := range subjects {
		if !strings.Contains(err.Error(), s) {
			b.Errorf("%s: error %q does not name its subject %s", what, err, s)
		}
	}
	b.same(what+": after a refusal", b.picture(talk), before)
	b.same(what+": the inputs after a refusal", b.inputs(states()...), inputs)
}
