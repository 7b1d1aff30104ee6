package geesefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// InsideConfig is the configuration of an [Inside].
type InsideConfig struct {
	Signer    mount.Signer // required; asked for [mount.Public], unless InNetwork
	Namespace string       // as in [mount.PrefixOf]
	// InNetwork: sandboxes are where the storage is, and find it at the address
	// that is for the host.
	InNetwork bool
	// Dir is the directory in the sandbox for the files with credentials. A
	// relative one is below the working directory, where alone some sandboxes
	// let files be written from outside. It lies outside every mount, and is a path of
	// letters, digits and ". _ - /". Required.
	Dir string
	// Program is the path or name of geesefs in the sandbox; empty = geesefs.
	Program string
	// AllowOther lets other users of the sandbox than the program's own into
	// the folders, for which it needs user_allow_other in /etc/fuse.conf.
	AllowOther bool
	TTL        time.Duration // how long credentials are asked for; 0 = as the signer is configured
	Env        []string      // beside what the sandbox gives every process; no secrets
	// HTTP asks the storage, from this host, whether it refuses the credentials,
	// before the program is started; nil = a client without a proxy. Where it gets no
	// answer, the sandbox may.
	HTTP *http.Client
	Log  *slog.Logger // mounts that failed; nil = none
}

// Inside runs the program in sandboxes. It is a [mount.InsideMounter].
type Inside struct {
	c InsideConfig

	mu     sync.Mutex
	places map[insideKey]*insidePlace
}

var _ mount.InsideMounter = (*Inside)(nil)

// NewInside returns a mounter for sandboxes. The error is a [*access.FieldError].
func NewInside(c InsideConfig) (*Inside, error) {
	dir := c.Dir
	if dir != "" && !path.IsAbs(dir) {
		dir = "/" + dir // for the check alone
	}
	checked, err := Config{Signer: c.Signer, Namespace: c.Namespace, Dir: dir, Program: c.Program, TTL: c.TTL, Env: c.Env, Log: c.Log}.checked()
	if err != nil {
		return nil, err
	}
	if rel := path.Clean(c.Dir); rel == ".." || strings.HasPrefix(rel, "../") {
		return nil, &access.FieldError{Field: "Dir", Rule: "must not lead out of the working directory"}
	}
	if c.HTTP == nil {
		c.HTTP = looker(nil)
	}
	c.Dir, c.Program, c.Log = path.Clean(c.Dir), checked.Program, checked.Log
	return &Inside{c: c, places: map[insideKey]*insidePlace{}}, nil
}

// insideKey is a path in a machine.
type insideKey struct {
	machine sandbox.Ref
	target  string
}

// insidePlace is what is mounted at a path in a machine, and who refers to it.
type insidePlace struct {
	key  insideKey
	gate chan struct{} // holds a token while nobody starts or stops anything here
	uses int           // references, and calls under way; of Inside.mu

	run *insideRun // of who has the token; nil while nothing is mounted

	mu   sync.Mutex
	refs []*insideRef
}

// insideRef is one reference, through the sandbox that it was had for.
type insideRef struct {
	inside *Inside
	place  *insidePlace
	sb     sandbox.Sandbox
	id     mount.ID

	mu       sync.Mutex
	released bool
}

// enter waits for a place to be free of others; leave gives it free.
func (i *Inside) enter(ctx context.Context, key insideKey) (*insidePlace, error) {
	i.mu.Lock()
	p := i.places[key]
	if p == nil {
		p = &insidePlace{key: key, gate: make(chan struct{}, 1)}
		p.gate <- struct{}{}
		i.places[key] = p
	}
	p.uses++
	i.mu.Unlock()
	select {
	case <-p.gate:
		return p, nil
	case <-ctx.Done():
		i.drop(p)
		return nil, ctx.Err()
	}
}

func (i *Inside) leave(p *insidePlace) {
	p.gate <- struct{}{}
	i.drop(p)
}

func (i *Inside) drop(p *insidePlace) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p.uses--; p.uses == 0 {
		delete(i.places, p.key)
	}
}

// MountInside runs the program in sb for the folder of s; see
// [mount.InsideMounter]. References of this process to one path in one machine
// share the program, and the last one ends it. The steps have bounds of their
// own: 10 s for what is left from before, 30 s for directories, 60 s for the
// start, and about a minute until the folder lists, if nothing ends before.
func (i *Inside) MountInside(ctx context.Context, sb sandbox.Sandbox, s mount.Spec, target string) (mount.Inside, error) {
	prefix, err := mount.PrefixOf(i.c.Namespace, s.Row)
	if err != nil {
		return nil, err
	}
	if !path.IsAbs(target) || path.Clean(target) != target || target == "/" || strings.IndexByte(target, 0) >= 0 {
		return nil, &access.FieldError{Field: "target", Rule: "must be a clean absolute path, and not the root"}
	}
	id := s.Row.ID
	p, err := i.enter(ctx, insideKey{sb.Ref(), target})
	if err != nil {
		return nil, failed(id, "waiting for "+target, err)
	}
	defer i.leave(p)
	if p.run != nil && p.run.id != id {
		return nil, fmt.Errorf("%w: mount %s: %s is taken by mount %s: %w", mount.ErrUnavailable, id, target, p.run.id, fs.ErrExist)
	}
	ref := &insideRef{inside: i, place: p, sb: sb, id: id}
	p.refer(ref) // from now on credentials may come through it
	if p.run != nil && !p.run.alive(ctx, sb) {
		p.run.end(ctx, sb)
		p.run = nil
	}
	if p.run == nil {
		if p.run, err = i.start(ctx, sb, s, prefix, p); err != nil {
			p.forget(ref)
			return nil, err
		}
	}
	i.mu.Lock()
	p.uses++ // the reference's own
	i.mu.Unlock()
	return ref, nil
}

func (p *insidePlace) refer(r *insideRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refs = append(p.refs, r)
}

// forget drops a reference and says whether it was the last.
func (p *insidePlace) forget(r *insideRef) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, other := range p.refs {
		if other == r {
			p.refs = append(p.refs[:n:n], p.refs[n+1:]...)
			break
		}
	}
	return len(p.refs) == 0
}

// through calls fn with a sandbox that is still open, the newest first.
func (p *insidePlace) through(fn func(sandbox.Sandbox) error) error {
	p.mu.Lock()
	refs := append([]*insideRef(nil), p.refs...)
	p.mu.Unlock()
	err := fmt.Errorf("%w: nobody refers to %s", sandbox.ErrClosed, p.key.target)
	for n := len(refs) - 1; n >= 0; n-- {
		if err = fn(refs[n].sb); !errors.Is(err, sandbox.ErrClosed) {
			return err
		}
	}
	return err
}

// Release gives the reference up; see [mount.Inside]. Where the sandbox has
// been closed or its machine is gone, nothing can be unmounted any more, and
// the credentials run out by themselves.
func (r *insideRef) Release(ctx context.Context) error {
	p, err := r.inside.enter(ctx, r.place.key)
	if err != nil {
		return failed(r.id, "waiting for "+r.place.key.target, err)
	}
	defer r.inside.leave(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.released {
		return nil
	}
	if !p.forget(r) {
		r.released = true
		r.inside.drop(p)
		return nil
	}
	if p.run == nil { // it died, and could not be started again
		r.released = true
		r.inside.drop(p)
		return nil
	}
	if err := p.run.stop(ctx, r.sb); err != nil {
		p.refer(r)
		return err
	}
	p.run, r.released = nil, true
	r.inside.drop(p)
	return nil
}

// Refresh makes the program forget what it has cached. It takes at most 10 s.
func (r *insideRef) Refresh(ctx context.Context) error {
	out, exit, err := run(ctx, r.sb, refreshLimit, refreshScript, r.place.key.target)
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("exit %d: %s", exit.Code, out)
	}
	if err != nil {
		return failed(r.id, "refresh", err)
	}
	return nil
}
