package session_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// overtake has act happen just before the nth commit of r.
func (r *replica) overtake(nth int, act func()) {
	r.meddle(func(call string, _, n int) trouble {
		if call == "commit" && n == nth {
			return trouble{hold: func(context.Context) { act() }}
		}
		return trouble{}
	})
}

func TestOvertaken(t *testing.T) {
	inWorld(t, "T-38: a reopen that an end overtakes is decided anew on what is there then", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		id := r.warm()
		r.end(ann, id)
		r.overtake(1, func() {
			if _, err := other.Reopen(t.Context(), ann, id); err != nil {
				t.Error(err)
			}
			other.end(ann, id)
		})
		s, err := r.Reopen(t.Context(), ann, id)
		if err != nil || s.Ended() || s != w.snap(id).Session {
			t.Errorf("answered %+v, %v; stored %+v", s, err, w.snap(id).Session)
		}
		if got := r.only("commit"); len(got) != 2 {
			t.Errorf("commits %v: the first was overtaken, and no stamp without a look", got)
		}
	})

	inWorld(t, "T-39: an end decided before a reopen writes nothing, and decided anew kills only what the session has by then", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		id := r.warm()
		first := w.snap(id).Sandbox.Incarnation
		var second sandbox.Incarnation
		r.overtake(1, func() {
			other.end(ann, id)
			if _, err := other.Reopen(t.Context(), ann, id); err != nil {
				t.Error(err)
			}
			closeWork(t, other.mustWork(ann, inSession(id)))
			second = w.snap(id).Sandbox.Incarnation
		})
		wantReport(t, "the overlapping end comes after the reopen", r.end(ann, id), session.EndReport{Ended: true, Destroyed: true})
		killed := map[sandbox.Incarnation]int{}
		for _, c := range w.boxes.Calls() {
			if c.Op == memory.OpDestroy {
				killed[c.Incarnation]++
			}
		}
		if second == first || killed[first] != 1 || killed[second] != 1 {
			t.Errorf("first %s, second %s, killed %v: want each once", first, second, killed)
		}
	})

	inWorld(t, "T-42: of two inserts of one id the loser is told in our words, however the store says it", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		const id = session.ConversationID("0199ffff-0000-7000-8000-00000000000c")
		errs := together(2, func(i int) error {
			_, _, err := w.replica().Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder", Conversation: id})
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Errorf("the same request twice is one session: %v", err)
		}
		_, err := r.NewConversation(t.Context(), ann, session.NewConversation{Conversation: id})
		wantErr(t, "another request with the id", err, session.ErrConversationTaken)
	})
}

// T-59: there is one way to a live sandbox. Whatever a Work hands out ends
// with it, and nothing else of the Service hands any out (see internal/arch).
func TestOneChokePoint(t *testing.T) {
	inWorld(t, "T-59: nothing runs in a sandbox without a hold and a slot", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		var mu sync.Mutex
		ran := 0
		w.boxes.Handle("probe", func(context.Context, *memory.Command) int {
			mu.Lock()
			defer mu.Unlock()
			ran++
			return 0
		})
		work := r.mustWork(ann, inSession(s.ID))
		sb := work.Sandbox()
		if _, err := sandbox.Run(t.Context(), sb, sandbox.Cmd{Argv: []string{"probe"}}, nil, nil); err != nil || ran != 1 {
			t.Fatalf("ran %d, %v", ran, err)
		}
		if got := r.only("admit", "acquire", "create"); len(got) != 3 || got[0] != "admit" || got[1] != "acquire" {
			t.Errorf("before it ran: %v", got)
		}
		closeWork(t, work)
		if _, err := sandbox.Run(t.Context(), sb, sandbox.Cmd{Argv: []string{"probe"}}, nil, nil); !errors.Is(err, sandbox.ErrClosed) || ran != 1 {
			t.Errorf("after the work: ran %d, %v", ran, err)
		}
	})
}
