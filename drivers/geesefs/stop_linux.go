package geesefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// Stop unmounts the folder and waits until the program has written out what
// was written and has ended, which it does about a second later. One that
// takes longer than StopTimeout is asked to end, and after 2 s ended. Where ctx
// ends before, the program goes on writing: call Stop again.
func (v *serving) Stop(ctx context.Context) error {
	select {
	case <-v.stopping:
		defer func() { v.stopping <- struct{}{} }()
	case <-ctx.Done():
		return fmt.Errorf("mount %s: not stopped: %w", v.id, ctx.Err())
	}
	v.mu.Lock()
	v.stopped = true
	v.mu.Unlock()
	if err := v.end(ctx); err != nil {
		return err
	}
	select {
	case <-v.done:
	case <-ctx.Done():
		return fmt.Errorf("mount %s: not stopped: %w", v.id, ctx.Err())
	}
	return v.clear(ctx)
}

// end brings the program to its end.
func (v *serving) end(ctx context.Context) error {
	mounted, err := isMounted(v.dir)
	if mounted || err != nil {
		// While somebody has a file open there, only lazily: the program goes on until it is closed.
		if err := unmount(ctx, v.dir, false); err != nil {
			_ = unmount(ctx, v.dir, true) // whether it is gone is looked at in the end
		}
	}
	if mounted || err != nil || v.process.tail.hasMounted() {
		if v.deadline.IsZero() {
			v.deadline = time.Now().Add(v.server.c.StopTimeout)
		}
		flushed := time.NewTimer(time.Until(v.deadline))
		defer flushed.Stop()
		select {
		case <-v.process.ended:
			return nil
		case <-flushed.C:
			v.server.c.Log.WarnContext(ctx, "folder not written out in time", "mount", v.id, "after", v.server.c.StopTimeout)
		case <-ctx.Done():
			return fmt.Errorf("mount %s: still being written out: %w", v.id, ctx.Err())
		}
	}
	// It has mounted nothing yet, or does not end.
	for _, s := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, termTimeout}, {syscall.SIGKILL, killTimeout}} {
		v.process.signal(s.signal)
		select {
		case <-v.process.ended:
			return nil
		case <-time.After(s.wait):
		}
	}
	return fmt.Errorf("%w: mount %s: %s can't be ended", mount.ErrUnavailable, v.id, program)
}

// clear unmounts what a program that has ended may have left, and looks.
func (v *serving) clear(ctx context.Context) error {
	mounted, err := isMounted(v.dir)
	if err == nil && !mounted {
		return nil
	}
	refused := unmount(ctx, v.dir, true)
	switch mounted, err = isMounted(v.dir); {
	case err != nil:
		return fmt.Errorf("mount %s: unmounted or not: %w", v.id, err)
	case mounted:
		return fmt.Errorf("mount %s: still mounted: %w", v.id, refused)
	}
	return nil
}

// unmount takes what is mounted at dir away: lazily, once nobody uses it any
// more. It takes a few seconds at most, even where a call to the kernel hangs.
func unmount(ctx context.Context, dir string, lazy bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unmountTimeout)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- unmountNow(ctx, dir, lazy) }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("unmount: %w", ctx.Err())
	}
}

func unmountNow(ctx context.Context, dir string, lazy bool) error {
	args, flags := []string{"-u"}, unmountNoFollow
	if lazy {
		args, flags = append(args, "-z"), flags|syscall.MNT_DETACH
	}
	all := []error{errors.New("no fusermount3")}
	for _, name := range []string{"fusermount3", "fusermount"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, path, append(args, "--", dir)...).CombinedOutput()
		if err == nil {
			return nil
		}
		all = []error{fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))}
		break
	}
	if err := syscall.Unmount(dir, flags); err != nil {
		return errors.Join(append(all, os.NewSyscallError("umount", err))...)
	}
	return nil
}

// unmountNoFollow is UMOUNT_NOFOLLOW, which package syscall leaves out.
const unmountNoFollow = 8

// isMounted reports whether something is mounted at exactly dir, from the
// kernel's own list: a look at dir itself could hang.
func isMounted(dir string) (bool, error) {
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	return mountedIn(string(list), dir), nil
}

// mountedIn reads a list of mounts, in which spaces, tabs, newlines and
// backslashes of paths stand as a backslash and three octal digits.
func mountedIn(list, dir string) bool {
	escaped := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(dir)
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == escaped {
			return true
		}
	}
	return false
}
