package transcripttest

import (
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// forgets forgets what is older, so many facts at a time, to the end.
func (b *bench) forgets(older time.Duration, limit int) (all transcript.Forgotten) {
	b.Helper()
	for range 10_000 {
		gone, err := b.store.Forget(b.Context(), talk, older, limit)
		if err != nil || gone.Facts > limit || gone.More && gone.Facts < limit {
			b.Fatalf("Forget(%v, %d): got %+v, %v", older, limit, gone, err)
		}
		all.Facts, all.Inputs = all.Facts+gone.Facts, all.Inputs+gone.Inputs
		if !gone.More {
			return all
		}
	}
	b.Fatalf("Forget does not end")
	return all
}

// happened are the kinds of facts that are newer than a seq.
func (b *bench) happened(after int64, limit int) (kinds []string) {
	b.Helper()
	for _, f := range b.facts(talk, after, limit) {
		kinds = append(kinds, string(f.Kind))
	}
	return kinds
}

func forgetChecks() []inboxCheck {
	return []inboxCheck{
		{"forget", "What happened longer ago than a window is forgotten, some at a time, but for entries; who asks from before it on is told so, and everything else stays. (case 7, case 8)", func(b *inboxBench) {
			b.create(talk)
			b.commit(transcript.Change{Fence: 1, Begin: true, Append: []transcript.NewEntry{asks("a"), calls("b", "c1")}})
			s := settles("b", "c1", transcript.CallSucceeded, `{"exit":0}`)
			s.Fence, s.End = 1, true
			b.commit(s)
			b.commit(labels("a", "x"))
			b.commit(refers("r", transcript.After("a"), 0))
			old := b.load(talk).LastSeq
			b.clock.Step(time.Hour)
			b.commit(transcript.Change{Append: []transcript.NewEntry{asks("d")}})
			b.commit(labels("d", "y"))
			before := b.picture(talk)
			if gone := b.forgets(2*time.Hour, 10); gone != (transcript.Forgotten{}) {
				b.Errorf("of what is not that old %+v is gone", gone)
			}
			b.same("after that", b.picture(talk), before)
			if gone := b.forgets(time.Minute, 2); gone.Facts != 5 || gone.Inputs != 0 {
				b.Errorf("%+v is gone, want 5 facts", gone)
			}
			after := b.picture(talk)
			facts := after.Facts
			after.Facts = before.Facts
			b.same("all but what happened", after, before)
			for _, limit := range []int{0, 1} {
				b.same("what happened", b.happened(0, limit), []string{"entry_appended", "entry_appended", "facts_forgotten", "entry_appended", "labelled"})
			}
			b.same("from the forgotten on", b.happened(old, 0), []string{"entry_appended", "labelled"})
			b.same("from among the forgotten on", b.happened(old-1, 0), []string{"facts_forgotten", "entry_appended", "labelled"})
			if facts[2] != (transcript.Fact{Seq: old, Kind: transcript.FactForgotten}) {
				b.Errorf("got %+v, want that all is forgotten up to %d", facts[2], old)
			}
			if gone := b.forgets(time.Minute, 1); gone.Facts != 0 {
				b.Errorf("once more %+v is gone", gone)
			}
			if gone := b.forgets(0, 1); gone.Facts != 1 {
				b.Errorf("of everything %+v is gone, want 1 fact", gone)
			}
			b.same("when all is forgotten", b.happened(0, 0), []string{"entry_appended", "entry_appended", "entry_appended", "facts_forgotten"})
			b.commit(labels("a", "z"))
			b.same("what came since", b.happened(b.load(talk).LastSeq-1, 0), []string{"labelled"})
			b.sound(talk)
		}},
		{"forget-inputs", "With the news that an input was promoted, taken back or lost goes the input; those that wait stay.", func(b *inboxBench) {
			b.create(talk)
			b.admits(steer("said"), steer("taken back"), steer("waits"))
			b.commit(promotes("said"))
			b.clock.Step(time.Hour)
			b.changes("taken back", transcript.InputCommand{Cancel: true})
			b.clock.Step(time.Hour)
			b.admits(steer("new"))
			if gone := b.forgets(90*time.Minute, 1); gone.Inputs != 1 {
				b.Errorf("%+v is gone, want 1 input", gone)
			}
			b.same("after the first", lined(b.inputs(states()...)), []transcript.EntryID{"taken back", "waits", "new"})
			if gone := b.forgets(time.Minute, 10); gone.Inputs != 1 {
				b.Errorf("%+v is gone, want 1 input", gone)
			}
			b.same("after the second", lined(b.inputs(states()...)), []transcript.EntryID{"waits", "new"})
			if _, err := b.box.Admit(b.Context(), talk, steer("said"), most); !as[*transcript.PromotedError](err) {
				b.Errorf("what was said, again: got error %v, want *PromotedError", err)
			}
			b.commit(promotes("waits", "new"))
			b.sound(talk)
		}},
		{"idle", "Those that were left alone are listed in the order of their ids, by status; no page looks at more than was said. (case 8)", func(b *inboxBench) {
			want := map[bool][]access.ConversationID{}
			for i := range 9 {
				c := access.ConversationID(fmt.Sprintf("idle %d", i))
				b.create(c)
				if i%4 == 1 {
					b.commit(transcript.Change{Conversation: c, Status: transcript.Archived})
				}
				want[i%3 == 0] = append(want[i%3 == 0], c)
			}
			b.create("gone")
			b.commit(transcript.Change{Conversation: "gone", Status: transcript.Deleted})
			b.clock.Step(time.Hour)
			for _, c := range want[true] {
				b.commit(transcript.Change{Conversation: c, Refs: []transcript.RefChange{{Name: "r", To: transcript.BeforeRoot()}}, Status: transcript.Active})
			}
			list := func(q transcript.IdleQuery) (ids []access.ConversationID) {
				for range 100 {
					page, err := b.store.Idle(b.Context(), q)
					if err != nil || len(page.Transcripts) > max(q.Limit, 50) {
						b.Fatalf("Idle(%+v): %d, %v", q, len(page.Transcripts), err)
					}
					for _, t := range page.Transcripts {
						b.same("the row", t, b.load(t.Conversation))
						ids = append(ids, t.Conversation)
					}
					if q.After = page.Next; q.After == "" {
						return ids
					}
				}
				b.Fatalf("Idle(%+v): the pages don't end", q)
				return nil
			}
			for _, limit := range []int{0, 1, 2, 9} {
				b.same("for a minute", list(transcript.IdleQuery{For: time.Minute, Limit: limit}), want[false])
				b.same("at all", list(transcript.IdleQuery{Limit: limit}), slices.Sorted(slices.Values(slices.Concat(want[true], want[false]))))
				b.same("for long", list(transcript.IdleQuery{For: 2 * time.Hour, Limit: limit}), []access.ConversationID{})
				b.same("archived", list(transcript.IdleQuery{For: time.Minute, Status: transcript.Archived, Limit: limit}), []access.ConversationID{"idle 1", "idle 5"})
			}
		}},
		{"forget-refused", "What can't be forgotten or asked for is refused by its field.", func(b *inboxBench) {
			b.create(talk)
			ctx := b.Context()
			_, older := b.store.Forget(ctx, talk, -1, 1)
			_, limit := b.store.Forget(ctx, talk, 0, 0)
			_, span := b.store.Idle(ctx, transcript.IdleQuery{For: -1})
			_, status := b.store.Idle(ctx, transcript.IdleQuery{Status: transcript.Deleted})
			_, page := b.store.Idle(ctx, transcript.IdleQuery{Limit: -1})
			for what, err := range map[string]error{"Forget of what is to come": older, "Forget of none": limit, "Idle for what is to come": span, "Idle of what is deleted": status, "Idle of less than none": page} {
				b.field(what, err)
			}
		}},
	}
}
