package mount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// detachTimeout bounds one detaching.
const detachTimeout = 10 * time.Second

// detach takes off everything that is mounted at dir and below, and then
// looks: what the programs and calls that unmount say decides nothing. Mounts
// in use are taken off too, and what holds them open keeps them until it ends.
//
// With force whatever waits for a FUSE file system that shows nowhere else is
// failed first. It loses what was not written out yet, and so is for one that nobody
// serves any more, or that does not answer.
func detach(ctx context.Context, k kernel, dir string, force bool) (Proof, error) {
	ctx, cancel := context.WithTimeout(ctx, detachTimeout)
	defer cancel()
	type answer struct {
		proof Proof
		err   error
	}
	out := make(chan answer, 1)
	go func() { // any of the calls may hang
		p, err := takeOff(ctx, k, dir, force)
		out <- answer{p, err}
	}()
	select {
	case a := <-out:
		return a.proof, a.err
	case <-ctx.Done():
		// What was to be taken off may be gone, though the call still waits.
		p, _, err := prove(k, dir)
		if err != nil {
			err = fmt.Errorf("%w; unmounting has not returned: %w", err, context.Cause(ctx))
		}
		return p, err
	}
}

func takeOff(ctx context.Context, k kernel, dir string, force bool) (Proof, error) {
	var tried []error
	for before := -1; ; {
		t, err := table(k)
		if err != nil {
			return Proof{}, fmt.Errorf("mount: what is mounted at %s can't be known: %w", dir, err)
		}
		inside := t.within(dir)
		if len(inside) == 0 || len(inside) == before || ctx.Err() != nil {
			break
		}
		before, tried = len(inside), nil
		own := t.own(dir)
		// Once the time is up nobody waits for this any more: what comes to be
		// mounted here then is another's.
		for minor := range own {
			if force && ctx.Err() == nil {
				tried = append(tried, k.abort(minor))
			}
		}
		for _, m := range slices.Backward(inside) {
			if ctx.Err() != nil {
				break
			}
			cut := force && m.isFUSE() && own[m.minor()]
			if err := k.unmount(m.path, cut); err != nil {
				tried = append(tried, err, k.unmountFUSE(ctx, m.path))
			}
		}
	}
	p, _, err := prove(k, dir)
	if err != nil {
		err = errors.Join(append([]error{err}, tried...)...)
	}
	return p, err
}
