package mount

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// served is what a call of Serve returned.
type served struct {
	serving Serving
	err     error
}

// start serves the folder at its directory and returns once that lists. After
// an error something may be left: takeDown sees to it.
func (f *hosted) start(ctx context.Context) error {
	if f.current() != nil || f.serves != nil { // left by what failed before
		if err := f.takeDown(ctx); err != nil {
			return asUnavailable(err)
		}
	}
	limit := f.host.limits.start
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: not there after %v: %w", ErrUnavailable, limit, context.DeadlineExceeded))
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := f.prepare(ctx); err != nil {
		return asUnavailable(err)
	}
	serving, err := f.serve(ctx)
	if err != nil {
		return asUnavailable(err)
	}
	f.host.mu.Lock()
	f.serving = serving
	f.host.mu.Unlock()
	return f.appear(ctx, serving)
}

// asUnavailable keeps the errors that a Mounter promises and makes the others ErrUnavailable.
func asUnavailable(err error) error {
	_, field := errors.AsType[*access.FieldError](err)
	if field || errors.Is(err, sandbox.ErrUnsupported) || errors.Is(err, ErrUnavailable) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// prepare makes the directory. What is mounted there is a dead one's, for this
// process has the directory for itself.
func (f *hosted) prepare(ctx context.Context) error {
	name := f.key.digits()
	err := f.host.work.prepare(name)
	if err == nil {
		return nil
	}
	if _, state, _ := prove(f.host.kernel, f.dir); state != Attached {
		return err
	}
	if _, err := detach(ctx, f.host.kernel, f.dir, true); err != nil {
		return err
	}
	return f.host.work.prepare(name)
}

// serve calls the server and keeps to ctx even where the server does not. What
// comes late is waited for by takeDown.
func (f *hosted) serve(ctx context.Context) (Serving, error) {
	f.serves = make(chan served, 1)
	go func(out chan<- served) {
		var a served
		defer func() {
			if p := recover(); p != nil {
				a = served{err: panicked(p)}
			}
			out <- a
		}()
		a.serving, a.err = f.host.server.Serve(ctx, f.spec, f.dir)
		if a.err == nil && a.serving == nil {
			a.err = errors.New("mount: server returned neither a serving nor an error")
		}
	}(f.serves)
	select {
	case a := <-f.serves:
		f.serves = nil
		return a.serving, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func panicked(p any) error { return fmt.Errorf("mount: server panicked: %v\n%s", p, debug.Stack()) }

// appear waits for the folder to list, and no longer than what serves it lives.
func (f *hosted) appear(ctx context.Context, serving Serving) error {
	looking, cancel := until(ctx, serving.Done())
	defer cancel()
	defer func() { f.minor = f.connection() }()
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		live, err := f.probe(looking)
		if live == Alive {
			return nil
		}
		pause(looking, wait)
		select {
		case <-serving.Done():
			if err = serving.Err(); err == nil {
				err = errors.New("mount: what served it ended at once")
			}
			return asUnavailable(err)
		case <-ctx.Done():
			return fmt.Errorf("%w: %s: %w", context.Cause(ctx), live, err)
		default:
		}
	}
}

// connection is the FUSE connection of this folder alone; empty where it has none.
func (f *hosted) connection() string {
	t, err := table(f.host.kernel)
	if err != nil {
		return ""
	}
	for minor := range t.own(f.dir) {
		return minor
	}
	return ""
}

// takeDown stops what serves the folder, detaches the directory and removes
// it. The order is what keeps files safe: what could still mount or write is
// ended, and known to be, before anything else; and nothing is removed but with a
// proof. Each step has a time of its own and goes on when ctx has ended.
func (f *hosted) takeDown(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := f.collect(ctx); err != nil {
		return err
	}
	if serving := f.current(); serving != nil {
		if err := f.end(ctx, serving); err != nil {
			return err
		}
		f.host.mu.Lock()
		f.serving = nil
		f.host.mu.Unlock()
	}
	proof, err := detach(ctx, f.host.kernel, f.dir, true) // nobody serves it any more
	if err != nil {
		return err
	}
	kept, err := f.host.work.clear(proof)
	if kept != "" {
		err := errors.New("mount: it holds what was written while nothing was mounted there")
		f.host.log.ErrorContext(ctx, "leftover kept", "mount", f.key.id, "dir", kept, "cause", err)
		f.host.mu.Lock()
		f.host.strays = append(f.host.strays, Leftover{kept, err})
		f.host.mu.Unlock()
	}
	return err
}

// collect waits for a call of Serve that has not returned: what it brings is to be ended too.
func (f *hosted) collect(ctx context.Context) error {
	if f.serves == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	select {
	case a := <-f.serves:
		f.serves = nil
		if a.err == nil {
			f.host.mu.Lock()
			f.serving = a.serving
			f.host.mu.Unlock()
		}
		return nil
	case <-ctx.Done():
		return errors.New("mount: the call of Serve has not returned")
	}
}

// end stops a serving. One that can't stop because its folder hangs is cut
// off from it, and asked again.
func (f *hosted) end(ctx context.Context, serving Serving) error {
	err := f.stop(ctx, serving, f.host.limits.stop)
	if err == nil {
		return nil
	}
	if live, why := f.probe(ctx); live == Alive || live == Dead && !hopeless(why) {
		return err // it may write out yet
	}
	if _, gone := detach(ctx, f.host.kernel, f.dir, true); gone != nil {
		err = errors.Join(err, gone)
	}
	// Stop may have unmounted it while it is in use, so that it does not show
	// any more. A listing that hangs in it keeps the connection from being another's by now.
	if f.minor != "" && f.look.busy() {
		err = errors.Join(err, f.host.kernel.abort(f.minor))
	}
	if again := f.stop(ctx, serving, f.host.limits.stop); again != nil {
		return errors.Join(err, again)
	}
	return nil
}

// stop calls Stop, at most once at a time, and keeps to its limit even where Stop does not.
func (f *hosted) stop(ctx context.Context, serving Serving, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if f.stops == nil {
		f.stops = make(chan error, 1)
		go func(out chan<- error) {
			var err error
			defer func() {
				if p := recover(); p != nil {
					err = panicked(p)
				}
				out <- err
			}()
			err = serving.Stop(ctx)
		}(f.stops)
	}
	select {
	case err := <-f.stops:
		f.stops = nil
		if err == nil && !ended(serving) {
			err = errors.New("mount: Stop returned nil, and it still serves")
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("mount: what serves it has not stopped: %w", ctx.Err())
	}
}

func ended(s Serving) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// probe looks at the folder.
func (f *hosted) probe(ctx context.Context) (Liveness, error) {
	return f.look.look(ctx, f.host.kernel, f.dir, f.host.limits.probe)
}

// current is what serves the folder, nil where nothing does.
func (f *hosted) current() Serving {
	f.host.mu.Lock()
	defer f.host.mu.Unlock()
	return f.serving
}

func (f *hosted) failure() error {
	f.host.mu.Lock()
	defer f.host.mu.Unlock()
	return f.err
}
