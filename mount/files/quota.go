package files

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gocloud.dev/blob"

	"github.com/bunkroom/bunkroom/mount"
)

// DefaultCountEvery is how old a count may be by which a quota is kept, where Config names no other time.
const DefaultCountEvery = time.Minute

// Quota is the most that a folder may hold; 0 = any number.
//
// It is kept by what goes through this package: what is not known to fit is
// refused with a [*FullError], before the body is read where its size was
// announced, and otherwise as soon as it is too much; nothing is written then. What
// agents write through their mounts is not held up, but counted: a folder is
// counted anew where the last count is older than Config.CountEvery, which
// lists it. Two processes may each let in what fits by its own count. A rename
// needs no room, and leaves two copies where it is broken off: in a folder that holds too much it is refused.
type Quota struct {
	Bytes   int64
	Objects int64 // files, and markers of empty directories
}

// Usage is what a folder holds.
type Usage struct {
	Bytes   int64
	Objects int64
}

func (u Usage) plus(v Usage) Usage  { return Usage{u.Bytes + v.Bytes, u.Objects + v.Objects} }
func (u Usage) minus(v Usage) Usage { return Usage{u.Bytes - v.Bytes, u.Objects - v.Objects} }

// FullError says that a folder can't hold what was to be written.
type FullError struct {
	Limit, Used int64  // Used: with what is being written now
	Unit        string // "bytes" or "objects"
}

func (e *FullError) Error() string {
	return fmt.Sprintf("files: the folder is full: %d of at most %d %s", e.Used, e.Limit, e.Unit)
}

// Problem says that there is no room.
func (e *FullError) Problem() (status int, code, sentence string) {
	return 507, "folder_full", "There is not enough room in this folder."
}

// Usage counts what the folder holds now, by listing all of it.
func (d *Folder) Usage(ctx context.Context) (Usage, error) {
	return d.usage(ctx, func(string, int64) {})
}

// usage is Usage, and tells of each object.
func (d *Folder) usage(ctx context.Context, tell func(path string, size int64)) (u Usage, err error) {
	err = d.each(ctx, string(d.prefix), "", func(o *blob.ListObject) bool {
		if o.Key != string(d.prefix) { // the root's own marker is nothing of the user's
			u = u.plus(Usage{o.Size, 1})
			tell(o.Key[len(d.prefix):], o.Size)
		}
		return true
	})
	if err != nil {
		return Usage{}, fault("count", "", err)
	}
	return u, nil
}

// account is what is known of a folder's usage. It never knows of less than
// there is, but for what others have written since it was counted: what can't
// be told apart, as of two writers that replace one file, counts twice until then.
type account struct {
	mu      sync.Mutex
	counted time.Time           // zero: it is to be counted anew
	usage   Usage               // when it was counted, and what was written here since
	open    map[*claim]struct{} // of what is being written
	written Usage               // since the count that is being made was begun
	twice   bool                // something counts twice

	users int // guarded by accounts.mu: who has got hold of it and not let go
}

// total is what there is, and what is held; the account is locked.
func (a *account) total() Usage {
	u := a.usage
	for c := range a.open {
		u = u.plus(c.held).minus(c.old)
	}
	return u
}

// accounts has one for each folder with a quota that was written to lately:
// one that nobody uses, and whose count is too old to go by, is forgotten.
type accounts struct {
	mu    sync.Mutex
	all   map[mount.Prefix]*account
	swept time.Time
}

// of gets hold of the account of a folder. Whoever does so lets go of it.
func (a *accounts) of(d *Folder) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.all[d.prefix]
	if one == nil {
		a.sweep(d.f.c.Now(), d.f.c.CountEvery)
		one = &account{open: map[*claim]struct{}{}}
		if a.all == nil {
			a.all = map[mount.Prefix]*account{}
		}
		a.all[d.prefix] = one
	}
	one.users++
	return one
}

// known is the account of a folder, nil where there is none. It is let go of too.
func (a *accounts) known(d *Folder) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.all[d.prefix]
	if one != nil {
		one.users++
	}
	return one
}

// leave lets go of an account.
func (a *accounts) leave(one *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one.users--
}

// sweep forgets what is of no use, once in the time that a count is good for.
// What somebody has got hold of stays: two accounts of one folder would not
// know of each other's writers. a is locked.
func (a *accounts) sweep(now time.Time, every time.Duration) {
	if since := now.Sub(a.swept); 0 <= since && since < every {
		return
	}
	a.swept = now
	for prefix, one := range a.all {
		if one.users == 0 && one.stale(now, every) {
			delete(a.all, prefix)
		}
	}
}

// claim holds room for what is being written. A nil one is that of a folder without a quota.
type claim struct {
	quota Quota
	all   *accounts
	*account
	path string // what is replaced; empty where that is nothing in particular
	old  Usage  // of that, which this claim alone frees
	held Usage
}

// claim holds room at path for size bytes; for 0, where their number is not known.
func (d *Folder) claim(ctx context.Context, path string, size int64) (*claim, error) {
	if d.quota == (Quota{}) {
		return nil, nil
	}
	var old Usage
	switch attrs, err := d.attributes(ctx, path, false); {
	case err == nil:
		old = Usage{attrs.Size, 1}
	case !isNotFound(err):
		return nil, fault("look at", path, err)
	}
	return d.room(ctx, &claim{path: path, old: old, held: Usage{size, 1}})
}

// room holds what c asks for, or answers with a [*FullError].
func (d *Folder) room(ctx context.Context, c *claim) (*claim, error) {
	if d.quota == (Quota{}) {
		return nil, nil
	}
	unlock, err := d.f.locks.lock(ctx, "quota "+string(d.prefix)) // of many writers one counts
	if err != nil {
		return nil, err
	}
	defer unlock()
	c.quota, c.all, c.account = d.quota, &d.f.accounts, d.f.accounts.of(d)
	if err := d.admit(ctx, c); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// admit counts where that is due, and lets a claim in where there is room.
func (d *Folder) admit(ctx context.Context, c *claim) error {
	if c.stale(d.f.c.Now(), d.f.c.CountEvery) {
		if err := d.count(ctx, c.account); err != nil {
			return err
		}
	}
	refused := c.begin()
	if refused == nil || c.exact() {
		return refused
	}
	if err := d.count(ctx, c.account); err != nil {
		return err
	}
	return c.begin()
}

// fits answers with a [*FullError] where a folder holds more than it may already.
func (d *Folder) fits(ctx context.Context) error {
	c, err := d.room(ctx, &claim{})
	if c == nil || err != nil {
		return err
	}
	defer c.release()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over(c.total(), Usage{1, 1})
}

func (a *account) stale(now time.Time, every time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counted.IsZero() || now.Sub(a.counted) >= every
}

// exact reports whether nothing counts twice.
func (a *account) exact() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.twice
}

// count lists the folder. What is written meanwhile is added to what was
// found, be it in there already; what is being replaced frees what was found of it.
func (d *Folder) count(ctx context.Context, a *account) error {
	now := d.f.c.Now()
	a.mu.Lock()
	a.written = Usage{}
	a.mu.Unlock()
	found := map[string]int64{} // the sizes of what is being replaced
	u, err := d.usage(ctx, func(path string, size int64) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for c := range a.open {
			if c.path == path {
				found[path] = size
			}
		}
	})
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usage, a.counted, a.twice = u.plus(a.written), now, a.written != Usage{}
	for c := range a.open {
		if size, there := found[c.path]; there && c.old != (Usage{}) {
			c.old = Usage{min(c.old.Bytes, size), 1}
		} else {
			c.old = Usage{}
		}
	}
	return nil
}

// recount has the folder counted anew before the next write.
func (d *Folder) recount() {
	if d.quota == (Quota{}) {
		return
	}
	a := d.f.accounts.known(d)
	if a == nil {
		return // it is counted anew anyway
	}
	defer d.f.accounts.leave(a)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counted = time.Time{}
}

// begin holds what the claim asks for, or answers with a [*FullError]. Of
// several that replace one file the first frees its room.
func (c *claim) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.open {
		if other.path == c.path && c.path != "" && c.old != (Usage{}) {
			c.old, c.twice = Usage{}, true
		}
	}
	if err := c.over(c.total().plus(c.held).minus(c.old), c.held.minus(c.old)); err != nil {
		return err
	}
	c.open[c] = struct{}{}
	return nil
}

// over says that a usage is too much, where it is so by what is added.
func (c *claim) over(next, more Usage) error {
	switch {
	case c.quota.Bytes > 0 && more.Bytes > 0 && next.Bytes > c.quota.Bytes:
		return &FullError{Limit: c.quota.Bytes, Used: next.Bytes, Unit: "bytes"}
	case c.quota.Objects > 0 && more.Objects > 0 && next.Objects > c.quota.Objects:
		return &FullError{Limit: c.quota.Objects, Used: next.Objects, Unit: "objects"}
	}
	return nil
}

// read holds what is read of a body, n bytes so far, beyond what was held.
func (c *claim) read(n int64) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	more := Usage{Bytes: n - c.held.Bytes}
	if more.Bytes <= 0 {
		return nil
	}
	if n > c.old.Bytes { // else there is no more of it than there was
		if err := c.over(c.total().plus(more), more); err != nil {
			return err
		}
	}
	c.held = c.held.plus(more)
	return nil
}

// wrote notes that n bytes are in the place of what was there. From then on they are not held, too.
func (c *claim) wrote(n int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written = c.written.plus(Usage{n, 1})
	c.usage = c.usage.plus(Usage{n, 1}).minus(c.old)
	delete(c.open, c)
}

// release gives up what is held, whatever came of it. It is called once.
func (c *claim) release() {
	if c == nil {
		return
	}
	defer c.all.leave(c.account)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, c)
}
