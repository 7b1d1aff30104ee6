package transcript_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// What the owner's methods do is what the store does.
func TestWriting(t *testing.T) {
	h := newHall(t)
	h.open(session.Conversation{ID: theTalk})
	ctx, s, store := t.Context(), h.service(), h.db.Transcripts()
	do := func(what string, row transcript.Transcript, err error) transcript.Transcript {
		t.Helper()
		if err != nil || row.Conversation != theTalk {
			t.Errorf("%s: %+v, %v", what, row, err)
		}
		return row
	}
	labels := func() []string {
		page, err := store.Headers(ctx, transcript.HeaderQuery{Conversation: theTalk})
		if err != nil {
			t.Fatal(err)
		}
		return page.Headers[0].Labels
	}
	row, err := s.MoveHead(ctx, ann, theTalk, transcript.BeforeRoot(), 0)
	if row = do("MoveHead", row, err); row.Head != transcript.BeforeRoot() {
		t.Errorf("the head is %v", row.Head)
	}
	if _, err := s.MoveHead(ctx, ann, theTalk, transcript.After("question"), row.Version-1); !errors.As(err, new(*transcript.VersionError)) {
		t.Errorf("MoveHead of an older version: %v", err)
	}
	row, err = s.Label(ctx, ann, theTalk, "question", "new")
	do("Label", row, err)
	if got := labels(); !slices.Equal(got, []string{"new", "old"}) {
		t.Errorf("labels %q", got)
	}
	row, err = s.Unlabel(ctx, ann, theTalk, "question", "old")
	do("Unlabel", row, err)
	if got := labels(); !slices.Equal(got, []string{"new"}) {
		t.Errorf("labels %q", got)
	}
	row, err = s.SetRef(ctx, ann, theTalk, "here", transcript.After("question"), 0)
	do("SetRef", row, err)
	if _, err := s.SetRef(ctx, ann, theTalk, "here", transcript.BeforeRoot(), 0); !errors.As(err, new(*transcript.VersionError)) {
		t.Errorf("SetRef of one that is there: %v", err)
	}
	row, err = s.DeleteRef(ctx, ann, theTalk, "there", -1)
	do("DeleteRef", row, err)
	refs, err := store.Refs(ctx, theTalk)
	if err != nil || len(refs) != 1 || refs[0].Name != "here" || refs[0].At != transcript.After("question") {
		t.Errorf("refs %+v, %v", refs, err)
	}
	row, err = s.Hold(ctx, ann, theTalk)
	if row = do("Hold", row, err); !row.Held {
		t.Error("not held")
	}
	row, err = s.Resume(ctx, ann, theTalk)
	if row = do("Resume", row, err); row.Held {
		t.Error("still held")
	}
	if _, err := s.Archive(ctx, ann, theTalk, nil); !errors.Is(err, transcript.ErrWaiting) || h.waiting() != "waits:follow_up" {
		t.Errorf("Archive while an input waits: %v; there waits %s", err, h.waiting())
	}
	row, err = s.Archive(ctx, ann, theTalk, &transcript.ArchiveOptions{CancelWaiting: true})
	if row = do("Archive", row, err); row.Status != transcript.Archived {
		t.Errorf("it is %s", row.Status)
	}
	if _, err := s.Admit(ctx, ann, theTalk, input("new")); !errors.Is(err, transcript.ErrArchived) {
		t.Errorf("Admit while archived: %v", err)
	}
	row, err = s.Restore(ctx, ann, theTalk)
	if row = do("Restore", row, err); row.Status != transcript.Active {
		t.Errorf("it is %s", row.Status)
	}
	h.wait(theTalk, input("goes with it"))
	if err := s.Delete(ctx, ann, theTalk); err != nil {
		t.Error(err)
	}
	if err := s.Delete(ctx, ann, theTalk); !errors.Is(err, transcript.ErrNotFound) {
		t.Errorf("Delete of what is deleted: %v", err)
	}
	if _, err := s.Restore(ctx, ann, theTalk); !errors.Is(err, transcript.ErrNotFound) {
		t.Errorf("Restore of what is deleted: %v", err)
	}
	row, err = s.Create(ctx, ann, theTalk)
	if row = do("Create", row, err); row.LastSeq != 0 {
		t.Errorf("begun anew with %+v", row)
	}
}

// Half of an import is let loose by nobody, and can be thrown away.
func TestStatusOfAnImport(t *testing.T) {
	h := newHall(t)
	h.open(session.Conversation{ID: target})
	store, s := h.db.Transcripts(), h.service()
	if _, err := store.Create(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), transcript.Change{Conversation: target, Status: transcript.Importing}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(t.Context(), ann, target); !errors.Is(err, transcript.ErrBusy) {
		t.Errorf("Restore: %v", err)
	}
	if _, err := s.Archive(t.Context(), ann, target, nil); !errors.Is(err, transcript.ErrBusy) {
		t.Errorf("Archive: %v", err)
	}
	if row, err := store.Load(t.Context(), target); err != nil || row.Status != transcript.Importing {
		t.Errorf("%+v, %v", row, err)
	}
	if err := s.Delete(t.Context(), ann, target); err != nil {
		t.Errorf("Delete: %v", err)
	}
}

// Drained, a conversation is archived, and who drains has what waited.
func TestDrainAndArchive(t *testing.T) {
	h := newHall(t)
	h.open(session.Conversation{ID: theTalk})
	ctx, s := t.Context(), h.service()
	back, err := s.Drain(ctx, ann, theTalk)
	if err != nil || len(back) != 1 {
		t.Fatalf("Drain: %+v, %v", back, err)
	}
	if row, err := s.Archive(ctx, ann, theTalk, nil); err != nil || row.Status != transcript.Archived {
		t.Errorf("Archive: %+v, %v", row, err)
	}
	if in, err := s.Input(ctx, ann, theTalk, "waits"); err != nil || in.State != transcript.InputCancelled {
		t.Errorf("Input: %+v, %v", in, err)
	}
	if _, err := s.Input(ctx, ann, theTalk, "nothing"); !errors.Is(err, transcript.ErrNotFound) {
		t.Errorf("Input of what is not there: %v", err)
	}
	if _, err := s.Input(ctx, ann, theTalk, ""); !errors.As(err, new(*access.FieldError)) {
		t.Errorf("Input of no id: %v", err)
	}
}
