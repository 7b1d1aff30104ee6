package sqlite_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// What was answered is committed: whoever closes a database while others write to
// it finds, once it is opened again, everything that was acknowledged, and nothing
// that was refused; what is between is ErrUnknown. (case 28)
func TestCloseWhileTalking(t *testing.T) {
	path := filepath.Join(t.TempDir(), "closed.db")
	db, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Transcripts().Create(t.Context(), common); err != nil {
		t.Fatal(err)
	}
	const writers = 16
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		said = map[transcript.EntryID]error{}
	)
	enough := make(chan struct{}, writers*1000)
	for by := range writers {
		all.Go(func() {
			for n := range 1000 {
				e := remark(by, n)
				_, err := db.Transcripts().Commit(t.Context(), transcript.Change{Conversation: common, Append: []transcript.NewEntry{e}})
				mu.Lock()
				said[e.ID] = err
				mu.Unlock()
				if err != nil {
					return
				}
				enough <- struct{}{}
			}
		})
	}
	for range 100 {
		<-enough
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
	again, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	there := written(t, again, common)
	refused := 0
	for id, err := range said {
		switch {
		case err == nil && !there[id]:
			t.Errorf("%s was acknowledged, and is not there", id)
		case err != nil && !errors.Is(err, transcript.ErrUnknown) && there[id]:
			t.Errorf("%s was refused with %v, and is there", id, err)
		case err != nil:
			refused++
		}
		delete(there, id)
	}
	if len(there) > 0 || refused == 0 {
		t.Errorf("%d were refused, and there is what nobody has said: %v", refused, there)
	}
	if faults, err := again.Transcripts().Verify(t.Context(), common); err != nil || len(faults) > 0 {
		t.Errorf("%q, %v", faults, err)
	}
}

// written are the entries of a conversation's path.
func written(t *testing.T, db *sqlite.DB, c access.ConversationID) map[transcript.EntryID]bool {
	t.Helper()
	there := map[transcript.EntryID]bool{}
	for q := (transcript.PathQuery{Conversation: c, Limit: transcript.MaxListed}); ; {
		page, err := db.Transcripts().Path(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			if there[e.ID] {
				t.Error(fmt.Sprint(e.ID, " is there twice"))
			}
			there[e.ID] = true
		}
		if q.From = page.Next; q.From.IsZero() {
			return there
		}
	}
}
