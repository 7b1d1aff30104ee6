package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// keys name what a write must have to itself though there may be no row to
// lock: what it counts, and what it expects not to be there.
type keys []string

func limitKey(k session.LimitKind, scope string) string { return fmt.Sprintf("limit %d %s", k, scope) }
func leaseKey(k session.LeaseKind, name string) string  { return fmt.Sprintf("lease %d %s", k, name) }
func sessionKey(id session.ID) string                   { return "session " + string(id) }
func environmentKey(id session.EnvironmentID) string    { return "environment " + string(id) }
func worksKey(id sandbox.ID) string                     { return "works " + string(id) }
func sandboxKey[T ~string](id T) string                 { return "sandbox " + string(id) }

// keysOf are the keys of a change that is not stamped yet.
func keysOf(c session.Change) (all keys) {
	for _, l := range c.Limits {
		all = append(all, limitKey(l.Kind, l.Scope))
	}
	// Absence is no row that could be locked: who expects it, and who inserts, meet at the key.
	if c.Session != nil && c.Session.Version == 0 {
		all = append(all, sessionKey(c.Session.ID))
	}
	if c.Environment != nil && c.Environment.Version == 0 {
		all = append(all, environmentKey(c.Environment.ID))
	}
	for _, g := range c.Expect {
		switch {
		case g.Version != 0:
		case g.Session != "":
			all = append(all, sessionKey(g.Session))
		case g.Environment != "":
			all = append(all, environmentKey(g.Environment))
		default:
			all = append(all, sandboxKey(g.Sandbox))
		}
	}
	// What the outbox has of a sandbox is part of what its row says.
	if r := c.Sandbox; r != nil && (r.Version == 0 || c.Unclaimed != "") {
		all = append(all, sandboxKey(r.ID))
	}
	for _, t := range slices.Concat(c.Bury, c.Mark, c.Prove) {
		all = append(all, sandboxKey(t.Sandbox))
	}
	if c.Idle != "" { // nor is there a row of a work that is about to begin
		all = append(all, worksKey(c.Idle))
	}
	for _, a := range c.Delete { // its fence goes unless a lease is being acquired
		switch {
		case a.Session != "":
			all = append(all, sessionKey(a.Session), leaseKey(session.LeaseWork, string(a.Session)))
		case a.Environment != "":
			all = append(all, environmentKey(a.Environment))
		default:
			all = append(all, leaseKey(session.LeaseTurn, string(a.Conversation)))
		}
	}
	return all
}

// numbers are the numbers of the locks behind keys, in the one order in which
// everybody takes them. Every program that writes to the database, of
// whatever version, must come to the same.
func (s *store) numbers(keys keys) string {
	all := make([]int64, len(keys))
	for i, k := range keys {
		sum := sha256.Sum256([]byte(s.prefix + " " + k))
		all[i] = int64(binary.BigEndian.Uint64(sum[:8]))
	}
	slices.Sort(all)
	text := make([]string, 0, len(all))
	for _, n := range slices.Compact(all) {
		text = append(text, strconv.FormatInt(n, 10))
	}
	return "{" + strings.Join(text, ",") + "}"
}

// lock is the first thing a write does, unless it does that along with something else: see begin. It returns the clock.
func (p place) lock(ctx context.Context, keys keys) (time.Time, error) {
	d := p.store.dialect
	if d.Keys == "" {
		if p.host != nil { // a transaction of our own begins with it
			if _, err := p.exec(ctx, d.Lock); err != nil {
				return time.Time{}, err
			}
		}
		return p.store.at(time.Time{}), nil
	}
	var clock time.Time
	var isolation string
	switch err := p.row(ctx, d.Keys, p.store.numbers(keys)).Scan(moment{&clock}, &isolation); {
	case err != nil:
		return time.Time{}, err
	case isolation != "read committed":
		return time.Time{}, &access.FieldError{Field: "tx", Rule: "must be read committed, is " + isolation}
	}
	return clock, nil
}

const readClock = `SELECT NOW()`

// clock is the moment a read goes by.
func (p place) clock(ctx context.Context) (now time.Time, err error) {
	if p.store.writer == nil {
		err = p.row(ctx, readClock).Scan(moment{&now})
	}
	return p.store.at(now), err
}

// own is this process's clock as an argument, where it is the one that counts; else NULL.
func (s *store) own() any {
	if s.writer == nil {
		return nil
	}
	return micros(s.at(time.Time{}))
}

// at is what NOW() in a statement answered: where that is nothing, what this process's clock shows.
func (s *store) at(now time.Time) time.Time {
	if now.IsZero() {
		now = s.now().UTC().Truncate(time.Microsecond)
	}
	return now
}
