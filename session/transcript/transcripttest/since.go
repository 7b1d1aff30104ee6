package transcripttest

import (
	"fmt"
	"sync/atomic"

	"github.com/bunkroom/bunkroom/session/transcript"
)

func sinceChecks() []check {
	return []check{
		{"since", "Every change is a fact with a number of its own, read again from any number on, in pages of any size. (case 28)", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Fence: 1, Begin: true, Append: []transcript.NewEntry{asks("a"), calls("b", "c1")}})
			c := starts("b", "c1")
			c.Fence, c.Labels = 1, labels("a", "x").Labels
			b.commit(c)
			c = settles("b", "c1", transcript.CallFailed, `{"exit":1}`)
			c.Fence, c.End = 1, true
			b.commit(c)
			b.commit(drafts(asks("d")))
			b.commit(transcript.Change{Abort: []transcript.EntryID{"d"}})
			b.commit(transcript.Change{Head: transcript.After("a")})
			b.commit(refers("r", transcript.After("a"), 0))
			b.commit(refers("r", head(), 1))
			b.commit(unlabels("a", "x"))
			b.commit(transcript.Change{Status: transcript.Archived})
			all := b.facts(talk, 0, 0)
			var happened []string
			last := int64(0)
			for _, f := range all {
				happened = append(happened, string(f.Kind))
				if f.Seq <= last {
					b.Errorf("seq %d is after %d", f.Seq, last)
				}
				last = f.Seq
			}
			b.same("what happened", happened, []string{
				"turn_begun", "entry_appended", "entry_appended", "call_started", "labelled", "call_settled", "turn_ended", "entry_aborted",
				"head_moved", "ref_moved", "ref_removed", "unlabelled", "status_changed",
			})
			if t := b.load(talk); t.LastSeq != last {
				b.Errorf("the newest is %d, the row says %d", last, t.LastSeq)
			}
			for _, limit := range []int{1, 2, len(all), len(all) + 1} {
				b.same(fmt.Sprintf("in pages of %d", limit), b.facts(talk, 0, limit), all)
			}
			for i, f := range all {
				b.same(fmt.Sprintf("after %d", f.Seq), b.facts(talk, f.Seq, 3), all[i+1:])
			}
			page, err := b.store.Since(b.Context(), talk, last+100, 1)
			if err != nil || len(page.Facts) > 0 || page.More || page.Next != last+100 {
				b.Errorf("after what is to come: %+v, %v", page, err)
			}
			whole, err := b.store.Since(b.Context(), talk, 0, len(all))
			if err != nil || whole.More {
				b.Errorf("a page of just all says that there is more: %v", err)
			}
		}},
		{"since-races", "Whoever reads on while others write gets every fact, once and in order: none with a lower number comes later.", func(b *bench) {
			b.create(talk)
			b.grow(talk, head(), "root")
			const writers, each = 8, 12
			var left atomic.Int64
			left.Store(writers)
			var got []transcript.Fact
			errs := parallel(writers+1, func(i int) error {
				if i < writers {
					defer left.Add(-1)
					for n := range each {
						id := transcript.EntryID(fmt.Sprintf("%d of %d", n, i))
						c := transcript.Change{Conversation: talk, Append: []transcript.NewEntry{asks(id)}}
						if n%2 == 1 {
							c.Labels = labels("root", string(id)).Labels
						}
						if _, err := b.store.Commit(b.Context(), c); err != nil {
							return err
						}
					}
					return nil
				}
				after := int64(0)
				for {
					last := left.Load() == 0 // before the page is read
					page, err := b.store.Since(b.Context(), talk, after, 7)
					if err != nil {
						return err
					}
					got, after = append(got, page.Facts...), page.Next
					if last && !page.More {
						return nil
					}
				}
			})
			for _, err := range errs {
				if err != nil {
					b.Fatalf("one was answered with %v", err)
				}
			}
			if want := 1 + writers*each + writers*each/2; len(got) != want {
				b.Errorf("got %d facts, want %d", len(got), want)
			}
			b.same("what was read meanwhile", got, b.facts(talk, 0, 0))
		}},
	}
}
