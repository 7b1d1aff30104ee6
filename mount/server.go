package mount

import (
	"context"
	"time"
)

// Server makes the folder of a mount appear in a directory of this host, by a
// process or a goroutine of its own. Drivers implement it; [Host] decides where
// and for how long, and makes a [Mounter] of it. Serve may be called concurrently.
type Server interface {
	// Serve begins to serve the folder of s at dir: an absolute path of an
	// empty directory, which nobody else uses. It returns as soon as the
	// serving has begun, without waiting for the folder to list: the Host
	// looks for that, and at the same time whether the serving has ended. ctx
	// bounds this call alone: the serving goes on when it has ended.
	//
	// Errors are those of [Mounter]. After an error nothing runs, and nothing is mounted at dir.
	Serve(ctx context.Context, s Spec, dir string) (Serving, error)
}

// Serving is one folder that is being served. Methods may be called concurrently.
type Serving interface {
	// Done is closed when nothing serves the folder any more: it was stopped,
	// or has died. What it has mounted may still be there, and be dead.
	Done() <-chan struct{}
	// Err says why it died. It is nil until Done is closed, and where it was stopped.
	Err() error
	// Expires is when the storage will refuse the credentials that are in use
	// now: the installed ones, and not those that were signed last. Zero: they don't expire.
	Expires() time.Time
	// Stop writes out what was written, ends the serving, and unmounts what it
	// has mounted. nil: Done is closed, and nothing of it is left that could
	// write or mount. An error: something may be left; call it again. Stopping twice succeeds.
	// Where its folder does not answer, it is the Host that cuts it off, and
	// then asks once more.
	Stop(ctx context.Context) error
}

// Refresher is a [Serving], or a [Mount], that caches what is in the storage.
type Refresher interface {
	// Refresh makes it forget what it has cached, so that what others have
	// written is seen at once. What was written here stays.
	Refresh(ctx context.Context) error
}

// Liveness is what a look at a directory says of the folder behind it.
type Liveness uint8

// The answers. The zero value knows nothing.
const (
	Unresponsive Liveness = iota // it did not answer in time: it may come back, or never
	Dead                         // nothing is mounted there, or what is answers with an error
	Alive                        // it is mounted, and lists
)

func (l Liveness) String() string {
	switch l {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	}
	return "unresponsive"
}

// Detachment is what is known of whether a directory is free of mounts. Only
// Detached lets anything be removed there, and it takes the [Proof] that goes with it.
type Detachment uint8

// The answers. The zero value knows nothing.
const (
	Inconclusive Detachment = iota // it can't be found out: as if it were attached
	Attached                       // something is mounted at the directory or below
	Detached                       // nothing is
)

func (d Detachment) String() string {
	switch d {
	case Attached:
		return "attached"
	case Detached:
		return "detached"
	}
	return "inconclusive"
}
