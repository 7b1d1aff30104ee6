package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/mount"
)

// Sixty-four callers get or make folders at once, all of them the same one
// that is not there yet, or each its own that is, against the upsert written by
// hand and prepared, whose callers take turns at a lock. (Mounts trap 5)
func BenchmarkMountCrowd(b *testing.B) {
	const crowd = 64
	db, raw := pair(b)
	upsert := prepare(b, raw, `INSERT INTO bunkroom_mounts
		(id, scope, slug, kind, agent, name, created_by, updated_by, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (scope, slug) DO UPDATE SET archived_at = NULL, archived_by = '', updated_by = excluded.updated_by, updated_at = excluded.updated_at
		RETURNING id, version, scope, slug, kind, agent, name, created_by, created_at, updated_by, updated_at`)
	var turn sync.Mutex
	var rounds atomic.Int64
	for _, c := range []struct {
		name string
		slug func(round int64, caller int) string
	}{
		{"one folder", func(round int64, _ int) string { return fmt.Sprint("slug ", round) }},
		{"a folder each", func(_ int64, caller int) string { return fmt.Sprint("own ", caller) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			compare(b, func() error {
				round := rounds.Add(1)
				return together(crowd, func(i int) (string, error) {
					r, err := db.Mounts().GetOrCreate(context.Background(), mount.Row{
						ID: mount.ID(id.New()), Scope: "project:p", Slug: c.slug(round, i), Kind: mount.KindAgent, Agent: "a", Name: "default", CreatedBy: "ana",
					})
					return string(r.ID), err
				}, c.name == "one folder")
			}, func() error {
				round := rounds.Add(1)
				return together(crowd, func(i int) (string, error) {
					turn.Lock()
					defer turn.Unlock()
					return mountByHand(upsert, c.slug(round, i))
				}, c.name == "one folder")
			})
		})
	}
}

// together is so many calls at once, which all get the same where they are to.
func together(n int, call func(i int) (string, error), same bool) error {
	ids, errs := make([]string, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { ids[i], errs[i] = call(i) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			return err
		}
		if same && ids[i] != ids[0] {
			return fmt.Errorf("one got %s, another %s", ids[0], ids[i])
		}
	}
	return nil
}

func mountByHand(upsert *sql.Stmt, slug string) (string, error) {
	var r mount.Row
	var created, updated int64
	at := time.Now().UnixMicro()
	err := upsert.QueryRow(id.New(), "project:p", slug, 1, "a", "default", "ana", "ana", at, at).Scan(
		&r.ID, &r.Version, &r.Scope, &r.Slug, &r.Kind, &r.Agent, &r.Name, &r.CreatedBy, &created, &r.UpdatedBy, &updated)
	return string(r.ID), err
}
