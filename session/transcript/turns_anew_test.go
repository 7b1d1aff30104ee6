package transcript_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// A transcript that was deleted and made anew knows of no turn. What those of
// the old one have started is ended all the same: the leases of a conversation go on counting.
func TestTakeoverOfADeletedTranscript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		var asked []int64
		asking := func(c *transcript.TurnsConfig) {
			end := c.EndProcesses
			c.EndProcesses = func(ctx context.Context, v access.ConversationID, last int64) error {
				asked = append(asked, last)
				return end(ctx, v, last)
			}
		}
		h.create()
		first := h.runner(asking)
		old := h.begins(first)
		if len(asked) != 0 {
			t.Errorf("before the first turn of all it is asked to end %v", asked)
		}
		_ = first.dies()
		time.Sleep(turnLease)
		store := h.db.Transcripts()
		// Within a turn nothing is deleted: whoever does, takes over; and dies before anything else.
		closing := h.runner(asking)
		if _, err := closing.store.Commit(t.Context(), transcript.Change{Conversation: talk, Fence: old.Fence(), End: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Commit(t.Context(), transcript.Change{Conversation: talk, Status: transcript.Deleted}); err != nil {
			t.Fatal(err)
		}
		h.create()
		if row := h.row(); row.Fence != 0 {
			t.Fatalf("the new one knows of turn %d", row.Fence)
		}
		turn := h.begins(h.runner(asking))
		h.tidy(turn)
		if len(asked) != 1 || asked[0] != turn.Fence()-1 || asked[0] < old.Fence() {
			t.Errorf("asked to end %v, before turn %d", asked, turn.Fence())
		}
		closeTurn(t, turn)
		next := h.begins(h.runner(asking))
		if len(asked) != 2 || asked[1] != turn.Fence() {
			t.Errorf("asked to end %v, where the newest that was begun is %d", asked, turn.Fence())
		}
		closeTurn(t, next)
	})
}
