package transcripttest

import (
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func archiveInputChecks() []inboxCheck {
	archive := transcript.Change{Status: transcript.Archived}
	return []inboxCheck{
		{"archive-waiting", "Nothing is archived while inputs wait, unless the same commit takes them back; what is too late anyway is no obstacle. (spec §2.4)", func(b *inboxBench) {
			b.create(talk)
			later := steer("later")
			later.Wait = time.Hour
			b.admits(steer("a"), mortal("m"), input(transcript.LaneBarrier, "k"), later, steer("gone"))
			b.changes("gone", transcript.InputCommand{Cancel: true})
			b.clock.Step(time.Minute)
			b.unwritten("with inputs that wait", archive, is(transcript.ErrWaiting), string(talk))
			b.commit(transcript.Change{Hold: true})
			b.unwritten("with inputs that are held", archive, is(transcript.ErrWaiting))
			after := b.load(talk).LastSeq
			all := archive
			all.CancelWaiting = true
			done := b.commit(all)
			if done.Transcript.Status != transcript.Archived || done.Transcript.LastSeq != after+5 {
				b.Errorf("got %+v, after %d", done, after)
			}
			b.same("what happened", b.news(after), []string{"a cancelled", "m expired", "k cancelled", "later cancelled"})
			if a, m := b.input("a"), b.input("m"); a.State != transcript.InputCancelled || a.Version != 2 || m.State != transcript.InputExpired || m.Version != 2 {
				b.Errorf("got %+v and %+v", a, m)
			}
			b.same("what waits", lined(b.inputs()), []transcript.EntryID{})
			b.sound(talk)
			inputs := b.inputs(states()...)
			b.commit(all)
			b.commit(archive)
			b.same("archived again", b.inputs(states()...), inputs)
			if now := b.load(talk).LastSeq; now != after+5 {
				b.Errorf("archived again, the newest seq is %d, and was %d", now, after+5)
			}
			b.commit(transcript.Change{Status: transcript.Active, Resume: true})
			if got, err := b.box.Admit(b.Context(), talk, steer("a"), most); err != nil || got.Created || got.Input.State != transcript.InputCancelled {
				b.Errorf("what was taken back, again: got %+v, %v", got, err)
			}
			b.admits(mortal("late"))
			b.clock.Step(time.Minute)
			after = b.load(talk).LastSeq
			b.commit(archive)
			b.same("what happened", b.news(after), []string{"late expired"})
			b.commit(transcript.Change{Status: transcript.Active})
			b.admits(steer("said"), steer("not said"))
			last := promotes("said")
			last.Status = transcript.Archived
			b.unwritten("with one of two that wait", last, is(transcript.ErrWaiting))
			b.changes("not said", transcript.InputCommand{Cancel: true})
			b.commit(last)
			if in := b.input("said"); in.State != transcript.InputPromoted {
				b.Errorf("got %+v", in)
			}
			b.sound(talk)
		}},
		{"delete-waiting", "Nothing is deleted while inputs wait, unless the change says that they go with it. (spec §2.4)", func(b *inboxBench) {
			gone := transcript.Change{Status: transcript.Deleted}
			b.create(talk)
			b.admits(steer("a"), mortal("m"))
			b.unwritten("with inputs that wait", gone, is(transcript.ErrWaiting), string(talk))
			for _, status := range []transcript.Status{"", transcript.Active, transcript.Importing} {
				b.unwritten("taken back for nothing", transcript.Change{Status: status, CancelWaiting: true, Hold: true}, as[*access.FieldError])
			}
			b.commit(transcript.Change{Status: transcript.Deleted, CancelWaiting: true})
			b.absent(talk)
			b.create(talk)
			b.same("what waits in one made again", lined(b.inputs(states()...)), []transcript.EntryID{})
			b.admits(mortal("m"))
			b.clock.Step(time.Minute)
			b.commit(gone)
			b.absent(talk)
			b.purge(3)
		}},
	}
}
