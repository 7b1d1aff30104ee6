package geesefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// The bounds of single steps.
const (
	discardTimeout = 15 * time.Second
	refreshTimeout = 10 * time.Second
	unmountTimeout = 5 * time.Second
	termTimeout    = 2 * time.Second
	killTimeout    = 2 * time.Second
)

// serving is one run of the program.
type serving struct {
	server   *Server
	id       mount.ID
	dir      string
	prepared prepared
	process  *process
	stopping chan struct{} // holds a token while nobody is stopping it
	asking   chan struct{} // holds a token while no refresh is under way
	done     chan struct{}
	deadline time.Time // until when it may write out; of who has the token of stopping

	mu      sync.Mutex
	stopped bool
	err     error
}

var _ interface {
	mount.Serving
	mount.Refresher
} = (*serving)(nil)

// Serve starts the program for the folder of spec at dir; see [mount.Server].
// Where the storage does not answer, or refuses the credentials, it says so at
// once: the program itself would mount the folder all the same, and every file
// in it would be an error.
func (s *Server) Serve(ctx context.Context, spec mount.Spec, dir string) (mount.Serving, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id := spec.Row.ID
	prefix, err := mount.PrefixOf(s.c.Namespace, spec.Row)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(dir) {
		return nil, &access.FieldError{Field: "dir", Rule: "must be an absolute path"}
	}
	dir, err = filepath.EvalSymlinks(dir) // as the kernel calls it
	if err != nil {
		return nil, failed(id, "directory", reason(err))
	}
	path, err := s.equipped()
	if err != nil {
		return nil, failed(id, "this host", err)
	}
	ready, err := s.prepare(ctx, spec, prefix)
	if err != nil {
		return nil, err
	}
	if err := s.look(ctx, ready.first); err != nil {
		s.discard(ctx, id, ready)
		return nil, failed(id, "storage", err)
	}
	c := call{at: locationOf(ready.first), allowOther: s.c.AllowOther, config: ready.place.path(configFile), dir: dir}
	p, err := startProcess(path, c.args(), s.environment(ready.place.dir))
	if err != nil {
		s.discard(ctx, id, ready)
		return nil, failed(id, program, reason(err))
	}
	v := &serving{
		server: s, id: id, dir: dir, prepared: ready, process: p,
		stopping: make(chan struct{}, 1), asking: make(chan struct{}, 1), done: make(chan struct{}),
	}
	v.stopping <- struct{}{}
	v.asking <- struct{}{}
	go v.watch(context.WithoutCancel(ctx))
	return v, nil
}

// equipped looks for what every mount needs, and returns the program's path.
func (s *Server) equipped() (string, error) {
	path, err := exec.LookPath(s.c.Program)
	if err != nil {
		return "", fmt.Errorf("%w: no program %s: %v", sandbox.ErrUnsupported, s.c.Program, reason(err))
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return "", fmt.Errorf("%w: no FUSE: %v", sandbox.ErrUnsupported, err)
	}
	return path, nil
}

// look asks the storage for the folder before the program is started, but
// where the way there leads through a proxy.
func (s *Server) look(ctx context.Context, c mount.Credentials) error {
	if proxied(s.c.Env) {
		return nil
	}
	roots, err := rootsOf(s.c.Env)
	if err == nil {
		err = look(ctx, looker(roots), c, time.Now())
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: no answer from the storage after %v", mount.ErrUnavailable, lookTimeout)
	}
	return err
}

// environment is all that the program gets to know of this host.
func (s *Server) environment(home string) []string {
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return slices.Concat([]string{"PATH=" + path, "HOME=" + home}, s.c.Env)
}

// watch waits for the end of the program, whoever ended it.
func (v *serving) watch(ctx context.Context) {
	<-v.process.ended
	v.server.discard(ctx, v.id, v.prepared)
	v.mu.Lock()
	if !v.stopped {
		v.err = fmt.Errorf("%w: mount %s: %s ended by itself: %s%s", mount.ErrUnavailable, v.id, program, v.process.how, v.said())
	}
	v.mu.Unlock()
	close(v.done)
}

// said is the last of what the program has said, on a line of its own.
func (v *serving) said() string {
	said := strings.TrimSpace(v.prepared.place.censored(v.process.tail.String()))
	if said == "" {
		return ""
	}
	return ":\n" + said
}

func (v *serving) Done() <-chan struct{} { return v.done }

func (v *serving) Err() error {
	select {
	case <-v.done:
	default:
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

func (v *serving) Expires() time.Time { return v.prepared.renewer.Expires() }

// Refresh makes the program forget what it has cached, which it does where the
// extended attribute .invalidate of the root is set. It takes at most 10 s.
func (v *serving) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	select {
	case <-v.done:
		return fmt.Errorf("%w: mount %s: %s has ended", mount.ErrUnavailable, v.id, program)
	case <-v.asking: // a call that hangs holds it: there is never more than one
	case <-ctx.Done():
		return failed(v.id, "refresh", ctx.Err())
	}
	answer := make(chan error, 1)
	go func() {
		err := syscall.Setxattr(v.dir, ".invalidate", nil, 0)
		v.asking <- struct{}{}
		answer <- os.NewSyscallError("setxattr", err)
	}()
	select {
	case err := <-answer:
		if err != nil {
			return failed(v.id, "refresh", err)
		}
		return nil
	case <-ctx.Done():
		return failed(v.id, "refresh", ctx.Err())
	}
}
