package geesefs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// The bounds of the steps in a sandbox.
const (
	detachLimit   = 10 * time.Second
	prepareLimit  = 30 * time.Second
	startLimit    = 60 * time.Second
	probeLimit    = 5 * time.Second
	probePause    = 500 * time.Millisecond
	probes        = 12
	probeErrors   = 2 // in a row: the sandbox does not answer
	tailLimit     = 5 * time.Second
	refreshLimit  = 10 * time.Second
	stopLimit     = 60 * time.Second
	installLimit  = 10 * time.Second
	flushInDetach = 3  // seconds
	flushInStop   = 30 // seconds
)

// insideRun is one run of the program in a sandbox.
type insideRun struct {
	inside  *Inside
	id      mount.ID
	target  string
	dir     string // of its files, as the sandbox's FS has it
	seen    string // the same, absolute, as its processes see it
	renewer *mount.Renewer
	secrets place // only what it says and where it leads; it has no directory here
	process sandbox.Process
	ended   chan struct{} // closed once the process has ended, or nobody can tell any more
	unwait  context.CancelFunc
}

// The files of a run, beside those of a place.
const (
	pidFile = "pid"
	logFile = "log"
)

// start has the program mount the folder at the place's path.
func (i *Inside) start(ctx context.Context, sb sandbox.Sandbox, s mount.Spec, prefix mount.Prefix, p *insidePlace) (_ *insideRun, err error) {
	sum := sha256.Sum256([]byte(p.key.target))
	r := &insideRun{
		inside: i, id: s.Row.ID, target: p.key.target, ended: make(chan struct{}),
		dir: path.Join(i.c.Dir, string(s.Row.ID)+"-"+hex.EncodeToString(sum[:4])),
	}
	defer func() {
		if err != nil {
			r.end(ctx, sb)
		}
	}()
	if err := r.prepare(ctx, sb); err != nil {
		return nil, failed(r.id, "directories in the sandbox", err)
	}
	audience := mount.Public
	if i.c.InNetwork {
		audience = mount.InNetwork
	}
	r.renewer, err = mount.NewRenewer(mount.RenewerConfig{
		Signer: i.c.Signer,
		Grant:  mount.Grant{Prefix: prefix, Audience: audience, Run: s.Run, TTL: i.c.TTL},
		Install: func(ctx context.Context, c mount.Credentials, report time.Time) error {
			if err := mount.CheckReach(c, audience); err != nil {
				return err
			}
			return p.through(func(sb sandbox.Sandbox) error { return r.install(ctx, sb, c, report) })
		},
		Log: i.c.Log.With("mount", r.id),
	})
	if err != nil {
		return nil, failed(r.id, "credentials", err)
	}
	first, err := r.renewer.Start(ctx)
	if err != nil {
		return nil, failed(r.id, "credentials", err)
	}
	// Whether the sandbox finds the storage only the sandbox can tell; that the
	// credentials are refused, anybody.
	if refused, ok := errors.AsType[*refusedError](look(ctx, i.c.HTTP, first, time.Now())); ok {
		return nil, failed(r.id, "storage", refused)
	}
	if err := r.launch(ctx, sb, locationOf(first)); err != nil {
		return nil, failed(r.id, program, err)
	}
	if err := r.settle(ctx, sb); err != nil {
		said := r.said(ctx, sb)
		i.c.Log.WarnContext(ctx, "folder not mounted in a sandbox", "mount", r.id, "target", r.target, "cause", err, "said", said)
		if said != "" {
			err = fmt.Errorf("%w:\n%s", err, said)
		}
		return nil, failed(r.id, program, err)
	}
	return r, nil
}

// prepare takes away what is left from before, and makes directories.
func (r *insideRun) prepare(ctx context.Context, sb sandbox.Sandbox) error {
	// Best effort: whether the path is free the program will say.
	_, _, _ = run(ctx, sb, detachLimit, stopScript, r.target, r.dir, fmt.Sprint(flushInDetach))
	out, exit, err := run(ctx, sb, prepareLimit, prepareScript, r.target, r.dir, r.inside.c.Program)
	switch {
	case err != nil:
		return err
	case exit.Code == exitNoProgram:
		return fmt.Errorf("%w: no program %s in the sandbox", sandbox.ErrUnsupported, r.inside.c.Program)
	case exit.Code == exitNoFuse:
		return fmt.Errorf("%w: no FUSE in the sandbox", sandbox.ErrUnsupported)
	case exit.Code != 0:
		return fmt.Errorf("exit %d: %s", exit.Code, out)
	}
	r.seen = strings.TrimSuffix(out, "\n")
	if !plain(r.seen) || !path.IsAbs(r.seen) {
		return fmt.Errorf("%w: the sandbox has the directory for credentials at %q, which %s", sandbox.ErrUnsupported, r.seen, plainRule)
	}
	for _, name := range []string{leaseFile, configFile} {
		if err := sb.FS().Remove(ctx, path.Join(r.dir, name), &sandbox.RemoveOptions{MissingOK: true}); err != nil {
			return err
		}
	}
	text := configText("cat", path.Join(r.seen, leaseFile))
	return sandbox.WriteFile(ctx, sb.FS(), path.Join(r.dir, configFile), text, &sandbox.CreateOptions{Mode: privateFile, Exclusive: true})
}

// install puts credentials into the sandbox, all at once.
func (r *insideRun) install(ctx context.Context, sb sandbox.Sandbox, c mount.Credentials, report time.Time) error {
	text, err := leaseText(c, report)
	if err != nil {
		return err
	}
	if err := r.secrets.admit(c); err != nil {
		return err
	}
	return sandbox.WriteFile(ctx, sb.FS(), path.Join(r.dir, leaseFile), text, &sandbox.CreateOptions{Mode: privateFile})
}

// launch starts the program. It is detached: it serves everybody who works in
// the machine, and the handle that starts it may be closed before the others.
func (r *insideRun) launch(ctx context.Context, sb sandbox.Sandbox, at location) error {
	c := call{at: at, allowOther: r.inside.c.AllowOther, config: path.Join(r.seen, configFile), dir: r.target}
	bounded, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	argv := append([]string{"sh", "-c", launchScript, "sh", path.Join(r.seen, pidFile), path.Join(r.seen, logFile), r.inside.c.Program}, c.args()...)
	p, err := sb.Start(bounded, sandbox.Cmd{Argv: argv, Env: r.inside.c.Env, Detached: true, OutputLimit: tailBytes})
	if err != nil {
		return err
	}
	r.process = p
	waiting, unwait := context.WithCancel(context.WithoutCancel(ctx))
	r.unwait = unwait
	go func() {
		defer close(r.ended)
		_, _ = p.Wait(waiting)
	}()
	return nil
}

// settle waits until the folder lists, the program ends, or it is clear that it won't.
func (r *insideRun) settle(ctx context.Context, sb sandbox.Sandbox) error {
	errs, why := 0, ""
	for range probes {
		select {
		case <-r.ended:
			return errors.New("it ended at once")
		default:
		}
		lists, said, err := r.probe(ctx, sb)
		switch {
		case lists:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			errs, why = 0, said
		default:
			if errs++; errs == probeErrors {
				return fmt.Errorf("the sandbox does not answer: %w", err)
			}
		}
		pause := time.NewTimer(probePause)
		select {
		case <-pause.C:
		case <-r.ended:
			pause.Stop()
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
	return fmt.Errorf("the folder does not list: %s", why)
}

// probe reports whether the folder is mounted and lists, and else why not; an
// error says that the sandbox could not be asked.
func (r *insideRun) probe(ctx context.Context, sb sandbox.Sandbox) (lists bool, why string, err error) {
	out, exit, err := run(ctx, sb, probeLimit, probeScript, r.target)
	if err != nil {
		return false, "", err
	}
	return exit.Reason == sandbox.Exited && exit.Code == 0, fmt.Sprintf("%v with %d %s", exit.Reason, exit.Code, strings.TrimSpace(out)), nil
}

// alive reports whether the folder of a run that was started before still lists.
func (r *insideRun) alive(ctx context.Context, sb sandbox.Sandbox) bool {
	lists, _, _ := r.probe(ctx, sb)
	return lists
}

// said is the end of what the program has said.
func (r *insideRun) said(ctx context.Context, sb sandbox.Sandbox) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tailLimit)
	defer cancel()
	out, _, err := run(ctx, sb, tailLimit, tailScript, path.Join(r.seen, logFile), fmt.Sprint(tailBytes))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(r.secrets.censored(out))
}

// stop unmounts the folder, has the program write out what was written, and
// waits for its end.
func (r *insideRun) stop(ctx context.Context, sb sandbox.Sandbox) error {
	out, exit, err := run(ctx, sb, stopLimit, stopScript, r.target, r.dir, fmt.Sprint(flushInStop))
	switch {
	case gone(err):
		r.inside.c.Log.WarnContext(ctx, "folder in a sandbox not unmounted", "mount", r.id, "target", r.target, "cause", err)
	case err != nil:
		return failed(r.id, "unmount "+r.target, err)
	case exit.Reason != sandbox.Exited || exit.Code != 0:
		return failed(r.id, "unmount "+r.target, fmt.Errorf("%v, exit %d: %s", exit.Reason, exit.Code, out))
	}
	r.discard(ctx, sb)
	return nil
}

// end is stop for a run that is of no use any more, whether or not ctx has ended.
func (r *insideRun) end(ctx context.Context, sb sandbox.Sandbox) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardLimit)
	defer cancel()
	_, exit, err := run(ctx, sb, detachLimit, stopScript, r.target, r.dir, fmt.Sprint(flushInDetach))
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("exit %d", exit.Code)
	}
	if err != nil {
		r.inside.c.Log.WarnContext(ctx, "folder in a sandbox not unmounted", "mount", r.id, "target", r.target, "cause", err)
	}
	r.discard(ctx, sb)
}

// discardLimit bounds the undoing of what has failed.
const discardLimit = 30 * time.Second

// discard ends the renewing, and removes the files.
func (r *insideRun) discard(ctx context.Context, sb sandbox.Sandbox) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardLimit)
	defer cancel()
	if r.renewer != nil {
		if err := r.renewer.Stop(ctx); err != nil {
			r.inside.c.Log.ErrorContext(ctx, "credentials are still being renewed", "mount", r.id, "cause", err)
		}
	}
	if r.process != nil {
		r.unwait()
		<-r.ended
		_ = r.process.Close() // it is detached: this gives up the handle
	}
	for _, name := range []string{leaseFile, configFile, pidFile, logFile, ""} {
		err := sb.FS().Remove(ctx, path.Join(r.dir, name), &sandbox.RemoveOptions{MissingOK: true})
		if err != nil && !gone(err) && !errors.Is(err, fs.ErrNotExist) {
			r.inside.c.Log.WarnContext(ctx, "file of a folder not removed in a sandbox", "mount", r.id, "file", name, "cause", err)
		}
	}
}

// gone reports whether nothing can be done in a sandbox any more.
func gone(err error) bool {
	return errors.Is(err, sandbox.ErrClosed) || errors.Is(err, sandbox.ErrGone) || errors.Is(err, sandbox.ErrStale)
}
