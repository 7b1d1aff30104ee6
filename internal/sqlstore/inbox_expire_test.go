package sqlstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// late admits inputs for which it is too late at once.
func late(t *testing.T, db *sqlite.DB, ids ...transcript.EntryID) {
	t.Helper()
	for _, id := range ids {
		if _, err := db.Inbox().Admit(t.Context(), talk, transcript.NewInput{Entry: spoken(id), Lane: transcript.LaneSteer, Life: 1}, 1000); err != nil {
			t.Fatal(err)
		}
	}
}

// putAway is how many inputs have expired, which all of them have to have or none, and the sums have to say so.
func putAway(t *testing.T, db *sqlite.DB, what string, all int) int {
	t.Helper()
	gone, err := db.Inbox().Inputs(t.Context(), talk, "", transcript.MaxListed, transcript.InputExpired)
	if err != nil {
		t.Fatal(err)
	}
	faults, err := db.Transcripts().Verify(t.Context(), talk)
	if err != nil || len(faults) > 0 {
		t.Errorf("%s: %q, %v", what, faults, err)
	}
	facts, err := db.Transcripts().Since(t.Context(), talk, 0, transcript.MaxListed)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, f := range facts.Facts {
		if f.Input == transcript.InputExpired {
			told++
		}
	}
	if n := len(gone); n != 0 && n != all || told != n {
		t.Errorf("%s: %d of %d have expired, and %d facts say so", what, n, all, told)
	}
	return len(gone)
}

// Inputs expire all at once or not at all, wherever it ends: of themselves, as another comes, and as all is archived.
func TestExpiryIsOneCommit(t *testing.T) {
	for what, do := range map[string]func(context.Context, *sqlite.DB) error{
		"expired": func(ctx context.Context, db *sqlite.DB) error {
			n, err := db.Inbox().Expire(ctx, talk, 10)
			if err == nil && n != 3 {
				err = fmt.Errorf("%d expired", n)
			}
			return err
		},
		"another comes": func(ctx context.Context, db *sqlite.DB) error {
			_, err := db.Inbox().Admit(ctx, talk, transcript.NewInput{Entry: spoken("new"), Lane: transcript.LaneSteer}, 2)
			return err
		},
		"archived": func(ctx context.Context, db *sqlite.DB) error {
			_, err := db.Transcripts().Commit(ctx, transcript.Change{Conversation: talk, Status: transcript.Archived, CancelWaiting: true})
			return err
		},
	} {
		for n := 1; ; n++ {
			db, spy := spied(t, nil)
			admits(t, db, "a")
			late(t, db, "x", "y", "z")
			ended, err := spy.givenUp(t, n, func(ctx context.Context) error { return do(ctx, db) })
			if gone := putAway(t, db, fmt.Sprintf("%s, statement %d", what, n), 3); (gone > 0) != (err == nil) {
				t.Errorf("%s, statement %d: %d have expired, and the answer is %v", what, n, gone, err)
			}
			if !ended { // there were fewer statements
				if n < 5 || err != nil {
					t.Errorf("%s: %d statements, error %v", what, n-1, err)
				}
				break
			}
		}
	}
}

// However many inputs expire, or are taken back, at once, it takes the same few statements.
func TestExpiryIsFewStatements(t *testing.T) {
	for what, do := range map[string]func(*sqlite.DB, transcript.Inbox) error{
		"expired": func(_ *sqlite.DB, box transcript.Inbox) error {
			_, err := box.Expire(t.Context(), talk, transcript.MaxListed)
			return err
		},
		"archived": func(db *sqlite.DB, _ transcript.Inbox) error {
			_, err := db.Transcripts().Commit(t.Context(), transcript.Change{Conversation: talk, Status: transcript.Archived, CancelWaiting: true})
			return err
		},
	} {
		var sent []int
		for _, many := range []int{2, 150} {
			db, spy := spied(t, nil)
			admits(t, db, "a", "b")
			for n := range many {
				late(t, db, transcript.EntryID(fmt.Sprint("late ", n)))
			}
			spy.reset(nil, nil)
			if err := do(db, db.Inbox()); err != nil {
				t.Fatal(err)
			}
			sent = append(sent, len(spy.seen()))
			spy.reset(nil, nil)
			if n := putAway(t, db, what, many); n != many {
				t.Errorf("%s: %d of %d", what, n, many)
			}
		}
		if sent[1] > sent[0]+10 { // rows are inserted some at a time
			t.Errorf("%s: of 2 it takes %d statements, of 150 %d", what, sent[0], sent[1])
		}
	}
}
