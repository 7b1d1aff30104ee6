package transcripttest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func purgeChecks() []check {
	return []check{
		{"purge", "Purge removes what was deleted, at most so many rows at a time, and nothing else. (case 8, invariant 12)", func(b *bench) {
			b.create(other)
			b.commit(transcript.Change{Conversation: other, Append: full(), Labels: labels("state", "x").Labels, Refs: refers("r", transcript.After("state"), 0).Refs})
			b.commit(transcript.Change{Conversation: other, Status: transcript.Archived})
			b.create(third)
			b.grow(third, head(), "a")
			one, two := b.picture(other), b.picture(third)
			if n := b.purge(10); n != 0 {
				b.Errorf("of what is not deleted %d rows were removed", n)
			}
			b.source()
			b.commit(transcript.Change{Status: transcript.Deleted})
			entries := len(full()) + 20
			if n := b.purge(4); n < entries {
				b.Errorf("%d rows were removed, of at least %d", n, entries)
			}
			if n := b.purge(4); n != 0 {
				b.Errorf("%d rows were removed when there were none left", n)
			}
			b.same("what is archived", b.picture(other), one)
			b.same("what is in use", b.picture(third), two)
			b.absent(talk)
			t := b.create(talk)
			b.same("made again", t, transcript.Empty(talk, t.CreatedAt))
		}},
		{"purge-forks", "While its source is purged bit by bit, a fork is there whole, and takes what is written.", func(b *bench) {
			b.create(talk)
			all := numbered("s", 12)
			b.grow(talk, head(), all...)
			b.fork(transcript.Fork{From: talk, To: other, At: transcript.After(all[8]), ByReference: true})
			b.fork(transcript.Fork{From: talk, To: third, At: transcript.After(all[4]), ByReference: true})
			b.commit(transcript.Change{Status: transcript.Deleted})
			want, wrote := all[:9:9], 0
			for range 1000 {
				n, err := b.store.Purge(b.Context(), 2)
				if err != nil || n > 2 {
					b.Fatalf("Purge: %d, %v", n, err)
				}
				if n == 0 {
					break
				}
				if wrote++; wrote <= 5 {
					id := transcript.EntryID(fmt.Sprint("own ", wrote))
					b.grow(other, head(), id)
					want = append(want, id)
				}
				b.same("the path of one", ids(b.path(other, head())), want)
				b.same("the path of the other", ids(b.path(third, head())), all[:5])
				b.same("all of the other", len(b.timeline(transcript.TimelineQuery{Conversation: third})), 5)
			}
			b.sound(other)
			b.sound(third)
		}},
	}
}

func raceChecks() []check {
	const writers = 64
	none := func(b *bench, errs []error, but func(error) bool) (done int) {
		b.Helper()
		for _, err := range errs {
			switch {
			case err == nil:
				done++
			case but == nil || !but(err):
				b.Fatalf("one was answered with %v", err)
			}
		}
		return done
	}
	return []check{
		{"race-expect", "Of 64 writers that expect the same head one appends; every other gets *HeadError, and nothing is forked silently. (case 26)", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "root")
			errs := parallel(writers, func(i int) error {
				_, err := b.store.Commit(b.Context(), transcript.Change{
					Conversation: talk, Expect: transcript.After("root"), Append: []transcript.NewEntry{asks(numbered("w", writers)[i])},
				})
				return err
			})
			if done := none(b, errs, as[*transcript.HeadError]); done != 1 {
				b.Errorf("%d appended, want 1", done)
			}
			p := b.picture(talk)
			if p.Row.Entries != 2 || len(p.Timeline) != 2 || len(p.Tips) != 1 {
				b.Errorf("there are %d entries with the tips %v", len(p.Timeline), p.Tips)
			}
			b.sound(talk)
		}},
		{"race-rebase", "Of 64 writers that look again after each *HeadError everyone appends once, one after the other. (cases 14, 25, 26)", func(b *bench) {
			b.create(talk)
			errs := parallel(writers, func(i int) error {
				c := transcript.Change{Conversation: talk, Expect: transcript.BeforeRoot(), Append: []transcript.NewEntry{asks(numbered("w", writers)[i])}}
				for {
					_, err := b.store.Commit(b.Context(), c)
					var moved *transcript.HeadError
					if !errors.As(err, &moved) {
						return err
					}
					c.Expect = moved.Actual
				}
			})
			none(b, errs, nil)
			if got := b.pathWith(transcript.PathQuery{Conversation: talk}); len(got) != writers {
				b.Errorf("the path has %d entries, want %d", len(got), writers)
			}
			b.sound(talk)
		}},
		{"race-append", "64 writers that expect nothing make one chain, without a gap or a branch.", func(b *bench) {
			b.create(talk)
			none(b, parallel(writers, func(i int) error {
				_, err := b.store.Commit(b.Context(), transcript.Change{Conversation: talk, Append: []transcript.NewEntry{asks(numbered("w", writers)[i]), asks(numbered("v", writers)[i])}})
				return err
			}), nil)
			got := b.pathWith(transcript.PathQuery{Conversation: talk})
			if len(got) != 2*writers {
				b.Fatalf("the path has %d entries, want %d", len(got), 2*writers)
			}
			for i := 0; i < len(got); i += 2 {
				if got[i].ID[1:] != got[i+1].ID[1:] {
					b.Errorf("%s is followed by %s: a change was torn apart", got[i].ID, got[i+1].ID)
				}
			}
			b.sound(talk)
		}},
		{"race-told", "What each of 64 writers is told is how the transcript was after its own entry, as if they had come one after the other.", func(b *bench) {
			b.create(talk)
			b.create(other)
			entry := func(i int) transcript.NewEntry {
				e := asks(numbered("w", writers)[i])
				if i%5 == 0 {
					e = calls(e.ID, "c1", "c2")
				}
				e.Usage = transcript.Usage{Input: int64(i), Output: int64(2 * i), CacheRead: int64(3 * i), CacheWrite: int64(5 * i), CostMicros: int64(7 * i)}
				return e
			}
			var answers [writers]transcript.Committed
			none(b, parallel(writers, func(i int) (err error) {
				answers[i], err = b.store.Commit(b.Context(), transcript.Change{Conversation: talk, Append: []transcript.NewEntry{entry(i)}})
				return err
			}), nil)
			for _, e := range b.pathWith(transcript.PathQuery{Conversation: talk}) {
				i := slices.Index(numbered("w", writers), e.ID)
				want := b.commit(transcript.Change{Conversation: other, Append: []transcript.NewEntry{entry(i)}})
				got := answers[i]
				if got.Transcript.UpdatedAt.Before(e.CreatedAt) {
					b.Errorf("after %s the transcript was updated at %v, and the entry is of %v", e.ID, got.Transcript.UpdatedAt, e.CreatedAt)
				}
				want.Transcript.Conversation, want.Transcript.CreatedAt, want.Transcript.UpdatedAt = talk, got.Transcript.CreatedAt, got.Transcript.UpdatedAt
				b.same(fmt.Sprintf("what is told of %s", e.ID), got, want)
			}
			b.sound(talk)
		}},
		{"race-retry", "Of 40 that append the same one writes; the others are retries with the same answer. (invariant 9)", func(b *bench) {
			b.create(talk)
			var answers [40]transcript.Committed
			none(b, parallel(len(answers), func(i int) (err error) {
				answers[i], err = b.store.Commit(b.Context(), transcript.Change{Conversation: talk, Append: []transcript.NewEntry{asks("a"), calls("b", "c1")}})
				return err
			}), nil)
			wrote := 0
			for _, a := range answers {
				if !a.Retried {
					wrote++
				}
				b.same("the seqs", a.Seqs, answers[0].Seqs)
			}
			if t := b.load(talk); wrote != 1 || t.Entries != 2 {
				b.Errorf("%d wrote, and there are %d entries", wrote, t.Entries)
			}
		}},
		{"race-conflict", "Of 20 that append other content under one id one writes; the others get *EntryConflictError.", func(b *bench) {
			b.create(talk)
			errs := parallel(20, func(i int) error {
				_, err := b.store.Commit(b.Context(), transcript.Change{Conversation: talk, Append: []transcript.NewEntry{says(transcript.KindUser, "a", fmt.Sprint(i))}})
				return err
			})
			if done := none(b, errs, as[*transcript.EntryConflictError]); done != 1 {
				b.Errorf("%d wrote", done)
			}
		}},
		{"race-settle", "Of 20 that settle a call in their own way one does; the others get *SettledError.", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{calls("a", "c1")}})
			errs := parallel(20, func(i int) error {
				c := settles("a", "c1", transcript.CallSucceeded, fmt.Sprint(i))
				c.Conversation = talk
				_, err := b.store.Commit(b.Context(), c)
				return err
			})
			if done := none(b, errs, as[*transcript.SettledError]); done != 1 {
				b.Errorf("%d settled it", done)
			}
			if errs[0] == nil && string(b.call("a", "c1").Result) != "0" {
				b.Errorf("the result is another's: %s", b.call("a", "c1").Result)
			}
			b.sound(talk)
		}},
		{"race-turns", "Of turns that begin and write at once nothing of an older one is written after a newer has begun. (case 3, invariant 13)", func(b *bench) {
			b.create(talk)
			const turns, each = 16, 6
			errs := parallel(turns, func(i int) error {
				fence := int64(i + 1)
				c := transcript.Change{Conversation: talk, Fence: fence, Begin: true}
				for n := range each {
					if _, err := b.store.Commit(b.Context(), c); err != nil {
						return err
					}
					e := asks(transcript.EntryID(fmt.Sprintf("%d of %d", n, fence)))
					e.Turn = transcript.TurnID(fmt.Sprint(fence))
					c = transcript.Change{Conversation: talk, Fence: fence, Append: []transcript.NewEntry{e}}
				}
				return nil
			})
			none(b, errs, is(transcript.ErrFenced))
			if errs[turns-1] != nil {
				b.Errorf("the last one was answered with %v", errs[turns-1])
			}
			begun := int64(0)
			for _, f := range b.facts(talk, 0, 0) {
				switch f.Kind {
				case transcript.FactTurnBegun:
					if f.Fence <= begun {
						b.Errorf("turn %d has begun after %d", f.Fence, begun)
					}
					begun = f.Fence
				case transcript.FactAppended:
					if e := b.get(talk, f.Entry); e.Turn != transcript.TurnID(fmt.Sprint(begun)) {
						b.Errorf("entry %s of turn %s was appended in turn %d", e.ID, e.Turn, begun)
					}
				}
			}
			if t := b.load(talk); t.Fence != turns || !t.InTurn {
				b.Errorf("got %+v", t)
			}
		}},
		{"race-create", "40 that make one transcript at once get the same, and 40 that make their own all get theirs. (case 54)", func(b *bench) {
			var rows, own [40]transcript.Transcript
			none(b, parallel(2*len(rows), func(i int) (err error) {
				if i < len(rows) {
					rows[i], err = b.store.Create(b.Context(), talk)
					return err
				}
				i -= len(rows)
				own[i], err = b.store.Create(b.Context(), access.ConversationID(numbered("own ", len(own))[i]))
				return err
			}), nil)
			for i, t := range rows {
				b.same("one of them", t, rows[0])
				b.same("one's own", b.load(own[i].Conversation), own[i])
			}
		}},
		{"race-fork", "Of 16 that make one fork at once all get the same, while its source is written to.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), numbered("s", 5)...)
			both(func(byReference bool, to access.ConversationID) {
				var rows [16]transcript.Transcript
				none(b, parallel(2*len(rows), func(i int) (err error) {
					if i >= len(rows) {
						_, err = b.store.Commit(b.Context(), transcript.Change{
							Conversation: talk, Append: []transcript.NewEntry{asks(numbered(fmt.Sprintf("w %v", byReference), 2*len(rows))[i])},
						})
						return err
					}
					rows[i], err = b.store.Fork(b.Context(), transcript.Fork{From: talk, To: to, At: transcript.After("s0003"), ByReference: byReference})
					return err
				}), nil)
				for _, t := range rows {
					b.same("one of them", t, rows[0])
				}
				b.same("its path", ids(b.path(to, head())), numbered("s", 4))
				b.sound(to)
			})
		}},
		{"race-delete", "What is appended while a transcript is deleted and made again is in the new one whole, or gone with the old one. (case 55)", func(b *bench) {
			b.create(talk)
			const each = 10
			errs := parallel(9, func(i int) error {
				for n := range each {
					if i == 8 {
						if n%3 == 0 {
							if _, err := b.store.Commit(b.Context(), transcript.Change{Conversation: talk, Status: transcript.Deleted}); err != nil {
								return err
							}
							if _, err := b.store.Create(b.Context(), talk); err != nil {
								return err
							}
						}
						if _, err := b.store.Purge(b.Context(), 3); err != nil {
							return err
						}
						continue
					}
					c := transcript.Change{Conversation: talk, Append: []transcript.NewEntry{asks(numbered(fmt.Sprint(i, " "), each)[n])}}
					if _, err := b.store.Commit(b.Context(), c); err != nil && !errors.Is(err, transcript.ErrNotFound) {
						return err
					}
				}
				return nil
			})
			none(b, errs, nil)
			p := b.picture(talk)
			if n := int64(len(p.Timeline)); n != p.Row.Entries || int(n) != len(b.path(talk, head())) {
				b.Errorf("it says %d entries, and has %d, of which %d are on the path", p.Row.Entries, n, len(b.path(talk, head())))
			}
			b.sound(talk)
			b.purge(10)
			b.same("after the old ones' rows are gone", b.picture(talk), p)
		}},
	}
}
