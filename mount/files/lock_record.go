package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// record is what the object of a lock holds. Every write has another content,
// by its counter, so that an etag never comes again.
type record struct {
	Epoch    int64         `json:"epoch"`
	Owner    string        `json:"owner"`
	Nonce    string        `json:"nonce"`
	Counter  int64         `json:"counter"`
	TTL      time.Duration `json:"ttl_ns"`
	Released bool          `json:"released,omitempty"`
	Over     bool          `json:"over,omitempty"` // Released by one who had taken it over, and not done so to the end
}

func (r record) next() record {
	r.Counter++
	return r
}

// lockStep is what to do about a lock.
type lockStep struct {
	take  bool          // write the next record
	over  bool          // its last owner did not give it up, and something of it may be under way
	after time.Duration // else: look again then
}

// decide says what to do about the lock that holds r, which was seen unchanged
// for a time. Where there is no object r is the zero record.
func (o LockOptions) decide(r record, seen time.Duration) lockStep {
	if r.Epoch == 0 || r.Released {
		return lockStep{take: true, over: r.Over}
	}
	if left := max(r.TTL, o.TTL) + o.margin() - seen; left > 0 {
		return lockStep{after: left}
	}
	return lockStep{take: true, over: true}
}

// sight is what was seen of a lock's object, since when it is so, and when it was looked at last.
type sight struct {
	etag         string
	since, until time.Time
}

// sights are those of the locks that somebody here waits for, by their keys.
type sights struct {
	mu    sync.Mutex
	all   map[string]sight
	swept time.Time
}

// forgetSight is after how long nobody waits for a lock any more whose sight nobody has asked for.
const forgetSight = 24 * time.Hour

// seen notes an etag and returns for how long it has been the same.
func (s *sights) seen(key, etag string) time.Duration {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	one, there := s.all[key]
	if !there {
		s.sweep(now)
	}
	if !there || one.etag != etag {
		one = sight{etag: etag, since: now}
	}
	one.until = now
	if s.all == nil {
		s.all = map[string]sight{}
	}
	s.all[key] = one
	return now.Sub(one.since)
}

// sweep forgets what nobody has asked for lately; s is locked.
func (s *sights) sweep(now time.Time) {
	if now.Sub(s.swept) < forgetSight {
		return
	}
	s.swept = now
	for key, one := range s.all {
		if now.Sub(one.until) >= forgetSight {
			delete(s.all, key)
		}
	}
}

// forget says that a lock is had, so that what is there now is not what was seen.
func (s *sights) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}

// acquire takes the lock. over: it was taken from somebody who did not give it up.
func (l *Lock) acquire(ctx context.Context) (over bool, err error) {
	begun, key := time.Now(), l.d.key(l.path)
	for {
		was, etag, err := l.read(ctx)
		if err != nil {
			return false, err
		}
		do := l.o.decide(was, l.d.f.sights.seen(key, etag))
		if !do.take {
			left := l.o.Wait - time.Since(begun)
			if left <= 0 {
				return false, &LockedError{Owner: was.Owner, RetryAfter: do.after}
			}
			if err := pause(ctx, min(do.after, l.o.TTL/4, left)); err != nil { // it may be given up at any time
				return false, err
			}
			continue
		}
		asked := time.Now()
		next := record{Epoch: was.Epoch + 1, Owner: l.o.Owner, Nonce: l.nonce, TTL: l.o.TTL}
		now, err := l.write(ctx, next, etag)
		if err != nil { // it may have been written all the same, and where it was sent twice that is a conflict
			found, etag, _ := l.read(ctx)
			switch {
			case found == next:
				now = etag
			case errors.As(err, new(*ConflictError)):
				continue // somebody was faster
			default:
				return false, err
			}
		}
		l.holds(next, now, asked)
		l.d.f.sights.forget(key)
		return do.over, nil
	}
}

// takeOver waits until nothing of the last owner lands any more.
func (l *Lock) takeOver(ctx context.Context, p mount.Prefix) error {
	if l.o.AbortUploads != nil {
		if err := l.o.AbortUploads(ctx, p); err != nil {
			return fmt.Errorf("files: uploads of the lock's last owner: %w", err)
		}
	}
	if err := pause(ctx, l.o.MaxRequest); err != nil {
		return err
	}
	select {
	case <-l.done:
		return l.Err()
	default:
		return nil
	}
}

// holds notes what was written, and when that was asked for. Only one
// goroutine at a time writes: who acquires, then who renews, then who releases.
func (l *Lock) holds(r record, etag string, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rec, l.etag, l.asked = r, etag, asked
	left := time.Until(asked.Add(l.o.TTL - l.o.margin()))
	if l.expiry == nil {
		l.expiry = time.AfterFunc(left, func() { l.end(fmt.Errorf("%w: not renewed in time", ErrLockLost)) })
		return
	}
	l.expiry.Reset(left)
}

// renew writes the lock's next record. ErrLockLost: it is another's.
func (l *Lock) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.TTL/4)
	defer cancel()
	asked, next := time.Now(), l.rec.next()
	etag, err := l.write(ctx, next, l.etag)
	if err != nil || etag == "" {
		found, now, again := l.read(ctx)
		switch {
		case again != nil:
			return errors.Join(err, again)
		case found.Nonce != l.nonce || found.Released:
			return ErrLockLost
		case found != next: // what is there is ours, from before
			l.holds(found, now, l.asked)
			return err
		}
		etag = now
	}
	l.holds(next, etag, asked)
	return nil
}

// read is the lock's record; the zero one where there is none.
func (l *Lock) read(ctx context.Context) (r record, etag string, err error) {
	info, err := l.d.Stat(ctx, l.path) // before its content: if that is newer, a write by this etag fails
	if isNotFound(err) {
		return record{}, "", nil
	}
	if err != nil {
		return record{}, "", err
	}
	c, err := l.d.Open(ctx, l.path, nil)
	if isNotFound(err) {
		return record{}, "", nil
	}
	if err != nil {
		return record{}, "", err
	}
	defer c.Close()
	data, err := io.ReadAll(io.LimitReader(c, 1<<16))
	if err != nil {
		return record{}, "", fault("read", l.path, err)
	}
	if err := json.Unmarshal(data, &r); err != nil || r.Epoch < 1 || r.TTL <= 0 {
		return record{}, "", fmt.Errorf("%w: lock %s is not one of this version: %w", mount.ErrUnavailable, l.path, errors.Join(err, errNoRecord))
	}
	return r, info.ETag, nil
}

var errNoRecord = errors.New("no record of a lock")

// write replaces the record that has that etag; empty: there is none.
func (l *Lock) write(ctx context.Context, r record, etag string) (string, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	info, err := l.d.Write(ctx, l.path, bytes.NewReader(data), &WriteOptions{IfMatch: etag, IfAbsent: etag == "", Size: int64(len(data))})
	return info.ETag, err
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
