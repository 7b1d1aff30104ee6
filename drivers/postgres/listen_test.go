package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// listener is a replica that listens.
type listener struct {
	t     testing.TB
	hub   *transcript.Hub
	db    *postgres.DB
	store transcript.Store
}

// listens opens a replica that listens until the test ends.
func listens(t *testing.T, dsn string) listener {
	t.Helper()
	l := listener{t: t, hub: transcript.NewHub(), db: opened(t, dsn, nil)}
	l.store = transcript.Ringing(l.db.Transcripts(), l.hub)
	w := l.hub.Watch("until it listens")
	defer w.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	done := make(chan error)
	go func() { done <- l.db.Listen(ctx, l.hub) }()
	l.hears(w)
	t.Cleanup(func() {
		cancel(enough)
		if err := <-done; !errors.Is(err, enough) && !errors.Is(err, context.Canceled) {
			t.Errorf("Listen ends with %v, want the context's cause", err)
		}
	})
	return l
}

// hears waits until a bell rings.
func (l listener) hears(w *transcript.Watch) {
	l.t.Helper()
	select {
	case <-w.Bell:
	case <-time.After(time.Minute):
		l.t.Fatal("nothing rings")
	}
}

func (l listener) append(c access.ConversationID, id transcript.EntryID) {
	l.t.Helper()
	_, err := l.store.Commit(l.t.Context(), transcript.Change{Conversation: c, Append: []transcript.NewEntry{{ID: id, Kind: transcript.KindMarker}}})
	if err != nil {
		l.t.Fatal(err)
	}
}

// What one replica writes rings in the other at once, and only there; and
// again once a connection that was lost is there anew.
func TestListen(t *testing.T) {
	_, dsn := schema(t)
	if err := opened(t, dsn, nil).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	one, two := listens(t, dsn), listens(t, dsn)
	for _, c := range []access.ConversationID{"talk", "other"} {
		if _, err := one.store.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	own, far, back := one.hub.Watch("talk"), two.hub.Watch("talk"), one.hub.Watch("other")
	one.append("talk", "a")
	one.hears(own)
	two.hears(far)
	page, err := two.store.Since(t.Context(), "talk", 0, 0)
	if err != nil || len(page.Facts) != 1 || page.Facts[0].Entry != "a" {
		t.Errorf("when it rings there is %+v, %v", page, err)
	}
	two.append("other", "b") // which is heard after what one has sent
	one.hears(back)
	select {
	case <-own.Bell:
		t.Error("what one has sent rings at home again")
	default:
	}
	admin(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN bunkroom_rings'")
	two.hears(far) // it is there again, and nobody knows what it has missed
	one.hears(own)
	one.append("talk", "c")
	two.hears(far)

	follower, done := make(chan transcript.EntryID, 9), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		for e, err := range transcript.Follow(ctx, two.store, two.hub, "talk", 0) {
			if err != nil {
				return
			}
			if e.Fact != nil {
				follower <- e.Fact.Entry
			}
		}
	}()
	for _, want := range []transcript.EntryID{"a", "c"} {
		if got := <-follower; got != want {
			t.Errorf("seen: %s, want %s", got, want)
		}
	}
	one.append("talk", "d")
	if got := <-follower; got != "d" {
		t.Errorf("seen: %s", got)
	}
	cancel()
	<-done
}

func TestListenRefuses(t *testing.T) {
	db := migrated(t)
	if err := db.Listen(t.Context(), nil); err == nil {
		t.Error("without a hub: no error")
	}
	ended, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	if err := db.Listen(ended, transcript.NewHub()); !errors.Is(err, why) {
		t.Errorf("with a context that has ended: %v", err)
	}
}
