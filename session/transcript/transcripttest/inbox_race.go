package transcripttest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/bunkroom/bunkroom/session/transcript"
)

func inboxRaceChecks() []inboxCheck {
	return []inboxCheck{
		{"admit-once", "Of many who admit one input at once, one has made it.", func(b *inboxBench) {
			b.create(talk)
			var made sync.Map
			for i, err := range parallel(16, func(i int) error {
				got, err := b.box.Admit(b.Context(), talk, steer("a"), 1)
				if got.Created {
					made.Store(i, true)
				}
				return err
			}) {
				if err != nil {
					b.Errorf("%d: %v", i, err)
				}
			}
			n := 0
			for range made.Range {
				n++
			}
			if n != 1 || len(b.inputs()) != 1 {
				b.Errorf("%d have made it, and there are %v", n, lined(b.inputs()))
			}
			b.sound(talk)
		}},
		{"promote-once", "Of forty inputs that forty promote at once, each is promoted once, and everybody gets one. (case 54)", func(b *inboxBench) {
			b.create(talk)
			for _, id := range numbered("i", 40) {
				b.admits(steer(id))
			}
			got := make([]transcript.EntryID, 40)
			for i, err := range parallel(40, func(i int) error {
				for range 1000 {
					waiting, err := b.box.Inputs(b.Context(), talk, "", most)
					if err != nil {
						return err
					}
					if len(waiting) == 0 {
						return errors.New("there is none left")
					}
					e := waiting[i%len(waiting)].Entry
					e.Turn = transcript.TurnID(fmt.Sprint("turn ", i))
					done, err := b.store.Commit(b.Context(), transcript.Change{Conversation: talk, Append: []transcript.NewEntry{e}, Promote: []transcript.EntryID{e.ID}})
					switch late, conflict := as[*transcript.TooLateError](err), as[*transcript.EntryConflictError](err); {
					case err == nil && !done.Retried:
						got[i] = e.ID
						return nil
					case err == nil, late, conflict, errors.Is(err, transcript.ErrBusy):
					default:
						return err
					}
				}
				return errors.New("others were always faster")
			}) {
				if err != nil {
					b.Errorf("%d: %v", i, err)
				}
			}
			seen := map[transcript.EntryID]bool{}
			for i, id := range got {
				if seen[id] {
					b.Errorf("%s was had twice", id)
				}
				seen[id] = true
				if in := b.input(id); in.State != transcript.InputPromoted || in.Promoted != b.get(talk, id).Seq || b.get(talk, id).Turn != transcript.TurnID(fmt.Sprint("turn ", i)) {
					b.Errorf("%d has %+v", i, in)
				}
			}
			if n := len(b.path(talk, head())); n != 40 {
				b.Errorf("there are %d entries", n)
			}
			b.sound(talk)
		}},
		{"no-third-outcome", "However an input and the end of a turn meet, either the turn goes on or the answer says that there is none. (rule 10)", func(b *inboxBench) {
			b.create(talk)
			wentOn, ended := 0, 0
			for i := range int64(meetings) {
				b.commit(transcript.Change{Fence: i + 1, Begin: true})
				id := transcript.EntryID(fmt.Sprint("i", i))
				var got transcript.Admitted
				var admitted, end error
				parallel(2, func(who int) error {
					if who == int(i)%2 {
						got, admitted = b.box.Admit(b.Context(), talk, steer(id), most)
					} else {
						_, end = b.store.Commit(b.Context(), transcript.Change{Conversation: talk, Fence: i + 1, EndIdle: true})
					}
					return nil
				})
				if admitted != nil || end != nil && !errors.Is(end, transcript.ErrWaiting) {
					b.Fatalf("%d: admitted with %v, ended with %v", i, admitted, end)
				}
				if got.InTurn != (end != nil) || b.load(talk).InTurn != (end != nil) {
					b.Fatalf("%d: the answer says %t of a turn, and the end %v", i, got.InTurn, end)
				}
				c := promotes(id)
				if got.InTurn {
					wentOn++
					c.Fence = i + 1
				} else {
					ended++
				}
				b.commit(c)
				if got.InTurn {
					b.commit(transcript.Change{Fence: i + 1, EndIdle: true})
				}
			}
			if wentOn == 0 || ended == 0 {
				b.Errorf("the turn went on %d times, and ended %d times: they never met", wentOn, ended)
			}
		}},
	}
}

// meetings is how often an input is to meet the end of a turn.
const meetings = 1000
