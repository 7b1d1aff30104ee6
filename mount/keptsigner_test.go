package mount_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
)

// countingMinter mints what is good for a quarter of an hour, the least that storage grants.
type countingMinter struct{ minted atomic.Int64 }

const leastLife = 15 * time.Minute

func (m *countingMinter) Sign(_ context.Context, g mount.Grant) (mount.Credentials, error) {
	m.minted.Add(1)
	return mount.Credentials{Bucket: "b", Prefix: g.Prefix, AccessKey: "a", SecretKey: "hush", Expires: time.Now().Add(leastLife)}, nil
}

// awayStore can't be asked for rows while it is away.
type awayStore struct {
	mount.Store
	away atomic.Bool
}

func (s *awayStore) Get(ctx context.Context, id mount.ID) (mount.Row, error) {
	if s.away.Load() {
		return mount.Row{}, errors.New("no connection")
	}
	return s.Store.Get(ctx, id)
}

func keptRow(t *testing.T, store mount.Store) mount.Row {
	t.Helper()
	folders, err := mount.NewFolders(mount.FoldersConfig{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	row, err := folders.GetOrCreate(t.Context(), mount.Folder{Project: "web", Agent: "reviewer"}, "ann")
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func prefixOf(t *testing.T, namespace string, row mount.Row) mount.Prefix {
	t.Helper()
	p, err := mount.PrefixOf(namespace, row)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// archive puts a row away, or takes it out again.
func archive(t *testing.T, store mount.Store, id mount.ID, is bool) {
	t.Helper()
	if _, err := store.Update(t.Context(), id, mount.Change{By: "ann", Archived: &is}); err != nil {
		t.Fatal(err)
	}
}

func TestKeptSignerMintsForWhatIsKept(t *testing.T) {
	store := &awayStore{Store: memory.New(nil).Mounts()}
	row := keptRow(t, store)
	other := row
	other.Scope = "project:app"
	for _, c := range []struct {
		rule   string
		prefix mount.Prefix
		before func()
		want   error // nil: minted
	}{
		{"there is a row", prefixOf(t, "", row), func() {}, nil},
		{"in a bucket that several installations share", prefixOf(t, "some/where", row), func() {}, nil},
		{"the id is in another's scope", prefixOf(t, "", other), func() {}, mount.ErrNotFound},
		{"no row has that id", prefixOf(t, "", mount.Row{ID: folderOne, Scope: row.Scope}), func() {}, mount.ErrNotFound},
		{"the rows can't be asked for", prefixOf(t, "", row), func() { store.away.Store(true) }, mount.ErrUnavailable},
		{"it was put away", prefixOf(t, "", row), func() { store.away.Store(false); archive(t, store, row.ID, true) }, mount.ErrUnavailable},
		{"it was taken out again", prefixOf(t, "", row), func() { archive(t, store, row.ID, false) }, nil},
		{"it was deleted", prefixOf(t, "", row), func() {
			if _, err := store.Delete(t.Context(), mount.Target{ID: row.ID}, 1); err != nil {
				t.Fatal(err)
			}
		}, mount.ErrNotFound},
	} {
		c.before()
		m := &countingMinter{}
		s, err := mount.NewKeptSigner(mount.KeptSignerConfig{Signer: m, Store: store})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Sign(t.Context(), mount.Grant{Prefix: c.prefix})
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || (err == nil) != (got.Prefix == c.prefix) {
			t.Errorf("%s: %v, %v; want %v", c.rule, got, err, c.want)
		}
		if n := m.minted.Load(); (n == 1) != (c.want == nil) {
			t.Errorf("%s: minted %d times", c.rule, n)
		}
	}

	s, err := mount.NewKeptSigner(mount.KeptSignerConfig{Signer: &countingMinter{}, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []mount.Prefix{"", "mounts/", "mounts/project%3aweb/x/"} {
		if _, err := s.Sign(t.Context(), mount.Grant{Prefix: p}); !isFieldOf(err, "Prefix") {
			t.Errorf("%q: %v", p, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Sign(ctx, mount.Grant{Prefix: prefixOf(t, "", row)}); !errors.Is(err, context.Canceled) && !errors.Is(err, mount.ErrNotFound) {
		t.Errorf("too late: %v", err)
	}
	for field, c := range map[string]mount.KeptSignerConfig{"Signer": {Store: store}, "Store": {Signer: s}} {
		if _, err := mount.NewKeptSigner(c); !isFieldOf(err, field) {
			t.Errorf("without a %s: %v", field, err)
		}
	}
}

func isFieldOf(err error, field string) bool {
	e, ok := errors.AsType[*access.FieldError](err)
	return ok && e.Field == field
}

// Credentials can't be revoked before they expire; but the end of a folder ends what is minted
// for it at the next renewal, under a mount that is in use too, and the access to it with the last expiry.
func TestTheEndOfAFolderEndsItsRenewals(t *testing.T) {
	for how, end := range map[string]func(t *testing.T, store mount.Store, id mount.ID){
		"put away": func(t *testing.T, store mount.Store, id mount.ID) { archive(t, store, id, true) },
		"deleted": func(t *testing.T, store mount.Store, id mount.ID) {
			if _, err := store.Delete(t.Context(), mount.Target{ID: id}, 1); err != nil {
				t.Fatal(err)
			}
		},
		"put away, and taken out before it was too late": func(t *testing.T, store mount.Store, id mount.ID) {
			archive(t, store, id, true)
			time.AfterFunc(leastLife/2, func() { archive(t, store, id, false) })
		},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, m := memory.New(nil).Mounts(), &countingMinter{}
				row := keptRow(t, store)
				s, err := mount.NewKeptSigner(mount.KeptSignerConfig{Signer: m, Store: store})
				if err != nil {
					t.Fatal(err)
				}
				r, err := mount.NewRenewer(mount.RenewerConfig{
					Signer: s, Grant: mount.Grant{Prefix: prefixOf(t, "", row), Run: "run-7"},
					Install: func(context.Context, mount.Credentials, time.Time) error { return nil },
				})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				defer r.Stop(context.Background())
				time.Sleep(time.Hour)
				synctest.Wait()
				before := m.minted.Load()
				if before < 4 || r.State().Expired {
					t.Errorf("minted %d times in an hour: %+v", before, r.State())
				}
				end(t, store, row.ID)
				time.Sleep(leastLife)
				synctest.Wait()
				if now := m.minted.Load(); how == "deleted" || how == "put away" {
					if state := r.State(); now != before || !state.Expired || state.Err == nil {
						t.Errorf("minted %d times after its end: %+v", now-before, state)
					}
				} else if now == before || r.State().Expired {
					t.Errorf("minted %d times though it is kept: %+v", now-before, r.State())
				}
			})
		})
	}
}

// What an agent had access to it loses with the folder: no run gets new credentials for one that was put away.
func ExampleNewKeptSigner() {
	ctx, store := context.Background(), memory.New(nil).Mounts()
	folders, err := mount.NewFolders(mount.FoldersConfig{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	row, err := folders.GetOrCreate(ctx, mount.Folder{Project: "web", Agent: "reviewer"}, "ann")
	if err != nil {
		fmt.Println(err)
		return
	}
	prefix, err := mount.PrefixOf("", row)
	if err != nil {
		fmt.Println(err)
		return
	}
	signer, err := mount.NewKeptSigner(mount.KeptSignerConfig{Signer: &countingMinter{}, Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = signer.Sign(ctx, mount.Grant{Prefix: prefix})
	fmt.Println("while it is kept:", err)
	away := true
	if _, err := store.Update(ctx, row.ID, mount.Change{By: "ann", Archived: &away}); err != nil {
		fmt.Println(err)
		return
	}
	_, err = signer.Sign(ctx, mount.Grant{Prefix: prefix})
	fmt.Println("put away:", errors.Is(err, mount.ErrUnavailable))
	// Output:
	// while it is kept: <nil>
	// put away: true
}
