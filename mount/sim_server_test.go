//go:build linux

package mount_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gocloud.dev/blob"

	"github.com/bunkroom/bunkroom/mount"
)

// simServer serves folders of the bucket for one process.
type simServer struct{ p *simProcess }

// simServing is a file system that writes each file to the bucket before it
// acknowledges it, with the credentials that are installed.
type simServing struct {
	*sim
	p       *simProcess
	n       int
	mount   mount.ID
	prefix  mount.Prefix
	dir     string
	minor   string
	renewer *mount.Renewer
	done    chan struct{}

	// Guarded by sim.mu.
	over, aborted bool
	stopping      bool
	err           error
	hangs         chan struct{} // it hangs until this is closed; nil = it does not
	creds         mount.Credentials
	troubled      time.Time // when something was last wrong with it
}

func (v *simServing) String() string {
	return fmt.Sprintf("serving %d of %v for %s", v.n, v.p, simTip(v.mount))
}

func simTip(id mount.ID) string { return string(id[6:8]) + "/" + string(id[len(id)-3:]) }

func (x simServer) Serve(ctx context.Context, q mount.Spec, dir string) (mount.Serving, error) {
	s := x.p.sim
	what := simTip(q.Row.ID)
	d, err := x.p.park(ctx, "serve", what)
	if err != nil {
		return nil, err
	}
	if d.fail != nil {
		return nil, d.fail
	}
	if d.deaf {
		if _, err := x.p.park(context.Background(), "serving late", what); err != nil {
			return nil, err
		}
	}
	prefix, err := mount.PrefixOf("", q.Row)
	if err != nil {
		return nil, err
	}
	v := &simServing{sim: s, p: x.p, mount: q.Row.ID, prefix: prefix, dir: dir, done: make(chan struct{})}
	v.renewer, err = mount.NewRenewer(mount.RenewerConfig{
		Signer: simSigner(x), Grant: mount.Grant{Prefix: prefix, Run: q.Run}, Install: v.install,
	})
	if err != nil {
		return nil, err
	}
	if _, err := v.renewer.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	for _, other := range s.servings {
		if other.p == v.p && other.mount == v.mount && !other.over {
			s.violate("one owner", "%v is served while %v goes on", what, other)
		}
	}
	v.n = len(s.servings) + 1
	v.minor = fmt.Sprint(40 + v.n)
	s.servings = append(s.servings, v)
	s.mu.Unlock()
	if d.late > 0 {
		s.mu.Lock()
		s.later(d.late, func() { s.attach(v) })
		s.mu.Unlock()
	} else {
		s.attach(v)
	}
	s.tell("served")
	return v, nil
}

func (v *simServing) install(_ context.Context, c mount.Credentials, _ time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c.Prefix != v.prefix || c.Expires.IsZero() {
		v.violate("credentials", "%v is given those of %q until %v", v, c.Prefix, c.Expires)
	}
	if v.over {
		v.violate("credentials", "%v is given some after its end", v)
	}
	v.creds = c
	v.tally["installed"]++
	return nil
}

func (v *simServing) Done() <-chan struct{} { return v.done }

func (v *simServing) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

func (v *simServing) Expires() time.Time { return v.renewer.Expires() }

func (v *simServing) Stop(ctx context.Context) error {
	v.checkEnd("stopped")
	d, err := v.p.park(ctx, "stop", fmt.Sprint(v.n))
	if err == nil {
		err = d.fail
	}
	v.mu.Lock()
	ended := v.ended
	v.mu.Unlock()
	if err != nil && !ended {
		return err
	}
	v.mu.Lock()
	v.stopping = true
	hangs := v.hangs
	if hangs != nil && v.killable {
		hangs = nil
	}
	v.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-ctx.Done():
			return errors.New("it does not end")
		case <-v.sim.over:
		}
	}
	if err := v.renewer.Stop(ctx); err != nil {
		return err
	}
	v.mu.Lock()
	dead := v.over || v.hangs != nil || v.aborted
	at := v.top(v.dir)
	v.mu.Unlock()
	if at != nil && at.serving == v && !dead { // what is killed unmounts nothing
		v.detach(at)
	}
	v.die(nil)
	if d.lose {
		return errSimLost
	}
	return nil
}

// checkEnd: nobody's teardown takes a folder from another who works in it,
// unless it is of no use to him any more.
func (v *simServing) checkEnd(how string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over || v.p.dead || v.p.drains {
		return
	}
	for name, w := range v.works {
		if w.serving == v && v.troubled.Before(w.carried) && v.fit() == nil {
			v.violate("adoption", "%v is %s while %s works in it", v, how, name)
		}
	}
}

// fit says what is wrong with it; mu is held.
func (v *simServing) fit() error {
	at := v.top(v.dir)
	now := time.Now()
	switch {
	case v.over, v.aborted, at == nil, at.serving != v:
		return syscall.ENOTCONN
	case v.hangs != nil:
		return errors.New("it hangs")
	case now.Before(v.outage):
		return syscall.EIO
	case !now.Before(v.creds.Expires):
		return syscall.EACCES
	}
	return nil
}

// answers waits where it hangs, and says what a call to it says.
func (v *simServing) answers(ctx context.Context) error {
	for {
		v.mu.Lock()
		hangs := v.hangs
		if v.over || v.aborted || hangs == nil {
			break
		}
		v.mu.Unlock()
		select {
		case <-hangs:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-v.sim.over:
			return errSimDead
		}
	}
	defer v.mu.Unlock()
	err := v.fit()
	if errors.Is(err, syscall.EACCES) {
		v.troubled = time.Now()
		v.tally["expired"]++
		if lease := v.renewer.State().Lease; !v.stopping && v.minterBad.Before(lease.Renew) {
			v.violate("renewal", "the credentials of %v have expired, and the minter has not failed since %v before", v, lease.Expires.Sub(v.minterBad))
		}
	}
	return err
}

// die ends it; what it has mounted stays, and is dead.
func (v *simServing) die(why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over {
		return
	}
	v.over, v.err, v.troubled = true, why, time.Now()
	v.note("%v ends", v)
	close(v.done)
	if v.hangs != nil {
		close(v.hangs)
		v.hangs = nil
	}
}

// hang has it answer nothing.
func (v *simServing) hang() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.over || v.aborted || v.hangs != nil {
		return
	}
	v.hangs, v.troubled = make(chan struct{}), time.Now()
	v.add("%v HANGS", v)
	v.tally["hung"]++
}

// let has it answer again or, where its connection is aborted, fail whoever waits.
func (v *simServing) let(abort bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.aborted = v.aborted || abort
	v.troubled = time.Now()
	if v.hangs != nil {
		close(v.hangs)
		v.hangs = nil
	}
}

// unmounted: with its mount it ends, unless it hangs.
func (v *simServing) unmounted() {
	v.mu.Lock()
	hangs := v.hangs != nil
	v.troubled = time.Now()
	v.mu.Unlock()
	if !hangs {
		go func() { _ = v.renewer.Stop(context.Background()) }()
		v.die(nil)
	}
}

// simSigner mints for one process, unless the minter can't be reached.
type simSigner struct{ p *simProcess }

// The ways in which a minter fails.
const (
	minterRefuses = iota
	minterHangs
	minterErrs // the credentials are another's
	minterForgets
	minterWays
)

func (x simSigner) Sign(ctx context.Context, g mount.Grant) (mount.Credentials, error) {
	s := x.p.sim
	s.mu.Lock()
	now := time.Now()
	bad := now.Before(s.noMinter) || x.p.dead
	if bad {
		s.minterBad = now
	}
	way := s.minterWay
	s.mu.Unlock()
	c := mount.Credentials{Bucket: "b", Prefix: g.Prefix, AccessKey: "a", SecretKey: "s", Expires: now.Add(s.life)}
	switch {
	case !bad:
		return c, nil
	case way == minterHangs:
		select {
		case <-ctx.Done():
			return mount.Credentials{}, ctx.Err()
		case <-s.over:
			return mount.Credentials{}, errSimDead
		}
	case way == minterErrs:
		c.Prefix = mount.Prefix(strings.Replace(string(g.Prefix), "mounts/", "mounts/other-", 1))
		return c, nil
	case way == minterForgets:
		c.Expires = time.Time{}
		return c, nil
	}
	return mount.Credentials{}, fmt.Errorf("%w: %w", mount.ErrUnavailable, errSimOutage)
}

// write writes a file below a directory of the host, as somebody who works
// there does. It is acknowledged once the bucket has it.
func (s *sim) write(ctx context.Context, w *simWork, dir, name string) error {
	s.mu.Lock()
	m := s.top(dir)
	s.mu.Unlock()
	if m == nil {
		return s.writeBelow(w, dir, name)
	}
	v := m.serving
	if err := v.answers(ctx); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	if !strings.HasPrefix(string(v.creds.Prefix), string(v.prefix)) {
		return syscall.EACCES
	}
	if err := s.bucket.WriteAll(ctx, string(v.prefix)+name, []byte(name), &blob.WriterOptions{ContentType: "text/plain"}); err != nil {
		return err
	}
	if v.mount != w.mount {
		s.violated("owner", "what was written to %s has come into %s", simTip(w.mount), simTip(v.mount))
	}
	s.acknowledge(v.mount, name)
	return nil
}

// acknowledge notes that a file was written, and is to be kept from now on.
func (s *sim) acknowledge(id mount.ID, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[id] == nil {
		s.kept[id] = map[string]bool{}
	}
	s.kept[id][name] = true
	s.tally["written"]++
}

// writeBelow writes where nothing is mounted: it falls on the directory below,
// unless that can't be written to.
func (s *sim) writeBelow(w *simWork, dir, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	trouble := false
	for _, v := range s.servings {
		trouble = trouble || v.p == w.p && v.mount == w.mount && !v.troubled.Before(w.seen) // what dies between the last look and the bind is nobody's fault
	}
	if !trouble {
		s.violate("adoption", "%v has lost the folder %s that it works in, and nothing was wrong with it", w.p, simTip(w.mount))
	}
	if s.private {
		return syscall.EROFS
	}
	if err := writeNew(filepath.Join(dir, name)); err != nil {
		return err
	}
	s.strays[name] = true
	s.tally["stray"]++
	return nil
}
