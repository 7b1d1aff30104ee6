package files

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gocloud.dev/blob"
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
// lists it. Two processes may each let in what fits by its own count.
type Quota struct {
	Bytes   int64
	Objects int64 // files, and markers of empty directories
}

// Usage is what a folder holds.
type Usage struct {
	Bytes   int64
	Objects int64
}

func (u Usage) plus(v Usage) Usage { return Usage{u.Bytes + v.Bytes, u.Objects + v.Objects} }

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
	var u Usage
	err := d.each(ctx, string(d.prefix), "", func(o *blob.ListObject) bool {
		if o.Key != string(d.prefix) { // the root's own marker is nothing of the user's
			u = u.plus(Usage{o.Size, 1})
		}
		return true
	})
	if err != nil {
		return Usage{}, fault("count", "", err)
	}
	return u, nil
}

// account is what is known of a folder's usage.
type account struct {
	mu      sync.Mutex
	counted time.Time // zero: it is to be counted anew
	usage   Usage     // when it was counted, and what was written here since
	held    Usage     // for what is being written
}

// accounts has one for each folder with a quota that was written to.
type accounts struct{ all sync.Map }

func (a *accounts) of(d *Folder) *account {
	one, _ := a.all.LoadOrStore(d.prefix, &account{})
	return one.(*account)
}

// claim holds room for what is being written. A nil one is that of a folder without a quota.
type claim struct {
	quota Quota
	*account
	old, held Usage // what is replaced, and what is held beyond it
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
	return d.claimRoom(ctx, old, Usage{max(0, size-old.Bytes), 1 - old.Objects})
}

// claimRoom holds room for more than there is, beside what is replaced.
func (d *Folder) claimRoom(ctx context.Context, old, more Usage) (*claim, error) {
	if d.quota == (Quota{}) {
		return nil, nil
	}
	unlock, err := d.f.locks.lock(ctx, "quota "+string(d.prefix)) // of many writers one counts
	if err != nil {
		return nil, err
	}
	defer unlock()
	c := &claim{quota: d.quota, account: d.f.accounts.of(d), old: old}
	if now := d.f.c.Now(); c.stale(now, d.f.c.CountEvery) {
		usage, err := d.Usage(ctx)
		if err != nil {
			return nil, err
		}
		c.count(usage, now)
	}
	if err := c.hold(more); err != nil {
		return nil, err
	}
	return c, nil
}

func (a *account) stale(now time.Time, every time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counted.IsZero() || now.Sub(a.counted) >= every
}

func (a *account) count(u Usage, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usage, a.counted = u, at
}

// recount has the folder counted anew before the next write.
func (d *Folder) recount() {
	if d.quota == (Quota{}) {
		return
	}
	a := d.f.accounts.of(d)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counted = time.Time{}
}

// hold holds more, or answers with a [*FullError].
func (c *claim) hold(more Usage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.usage.plus(c.account.held).plus(more)
	switch {
	case c.quota.Bytes > 0 && more.Bytes > 0 && next.Bytes > c.quota.Bytes:
		return &FullError{Limit: c.quota.Bytes, Used: next.Bytes, Unit: "bytes"}
	case c.quota.Objects > 0 && more.Objects > 0 && next.Objects > c.quota.Objects:
		return &FullError{Limit: c.quota.Objects, Used: next.Objects, Unit: "objects"}
	}
	c.account.held = c.account.held.plus(more)
	c.held = c.held.plus(more)
	return nil
}

// read holds what is read of a body, n bytes so far, beyond what was held.
func (c *claim) read(n int64) error {
	if c == nil {
		return nil
	}
	if more := n - c.old.Bytes - c.held.Bytes; more > 0 {
		return c.hold(Usage{Bytes: more})
	}
	return nil
}

// wrote notes that n bytes are in the place of what was there. From then on they are not held, too.
func (c *claim) wrote(n int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.usage = c.usage.plus(Usage{n - c.old.Bytes, 1 - c.old.Objects})
	c.giveBack()
}

// release gives up what is held. It is called once, whatever came of it.
func (c *claim) release() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveBack()
}

// giveBack gives back what is held; the account is locked.
func (c *claim) giveBack() {
	c.account.held = c.account.held.plus(Usage{-c.held.Bytes, -c.held.Objects})
	c.held = Usage{}
}
