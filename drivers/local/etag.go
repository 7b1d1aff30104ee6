//go:build linux

package local

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// version is what the kernel keeps of a file and changes with its content.
//
// Two writes in one tick of the kernel's clock get one time, and the number of a
// file that was replaced may be given to the next. So a version tells contents
// apart only once that clock has moved on from it, or where its time is one
// that a Writer has set: those are exact, and whoever writes to the file after that sets another.
type version struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds
}

func versionOf(i fs.FileInfo) (v version, ok bool) {
	st, ok := i.Sys().(*syscall.Stat_t)
	if !ok || !i.Mode().IsRegular() {
		return version{}, false
	}
	return version{st.Dev, st.Ino, st.Size, syscall.TimespecToNsec(st.Mtim), syscall.TimespecToNsec(st.Ctim)}, true
}

func (v version) etag() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", v.dev, v.ino, v.size, v.mtime, v.ctime)
}

// coarsest is how inexact the times of a file system may be that keeps whole seconds.
const coarsest = 2 * time.Second

// telling says whether a version tells one content from the next.
type telling uint8

const (
	tellsNow  telling = iota
	tellsSoon         // once the kernel's clock has moved on
	tellsLate         // only after longer than anybody should wait
)

// tells says how it is with v where the kernel's clock says now and moves on by tick.
func (v version) tells(now, tick int64) telling {
	switch set := v.mtime != v.ctime && v.mtime > v.ctime-2*tick && v.mtime < v.ctime+2*tick; {
	case v.mtime%int64(time.Second) == 0 && v.ctime%int64(time.Second) == 0:
		if now < v.ctime+int64(coarsest) {
			return tellsLate
		}
		return tellsNow
	case now > v.ctime || set:
		return tellsNow
	case now < v.ctime-2*tick: // the clock was set back
		return tellsLate
	}
	return tellsSoon
}

// settled is v's ETag, once it tells this content from the next: that takes a
// tick of the kernel's clock at most. Empty where it would take longer.
func (v version) settled(ctx context.Context) string {
	now, tick := stamps()
	how := v.tells(now, tick)
	if how == tellsSoon {
		next := time.NewTicker(time.Duration(tick / 8))
		defer next.Stop()
		for looks := 0; how == tellsSoon && looks < 4*8; looks++ {
			select {
			case <-next.C:
				now, tick = stamps()
				how = v.tells(now, tick)
			case <-ctx.Done():
				return ""
			}
		}
	}
	if how != tellsNow {
		return ""
	}
	return v.etag()
}

// stamps is the clock that the kernel stamps files with, and how far it moves at a time, in nanoseconds.
func stamps() (now, tick int64) {
	var at, res unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &at) != nil || unix.ClockGetres(unix.CLOCK_REALTIME_COARSE, &res) != nil {
		return 0, int64(10 * time.Millisecond)
	}
	return unix.TimespecToNsec(at), max(unix.TimespecToNsec(res), int64(time.Millisecond))
}

// stampExactly says of a file that it was changed just now, more exactly than the kernel does,
// and so tells its content from every other. Where that can't be, the kernel's clock has to do.
func stampExactly(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	now := unix.NsecToTimespec(time.Now().UnixNano())
	_ = raw.Control(func(fd uintptr) {
		_ = unix.UtimesNanoAt(int(fd), "", []unix.Timespec{now, now}, unix.AT_EMPTY_PATH)
	})
}

// is reports whether a file has the ETag that a caller names, or none is named.
func is(i fs.FileInfo, ifMatch string) bool {
	v, ok := versionOf(i)
	return ifMatch == "" || ok && v.etag() == ifMatch
}

// describeFull is describe with the ETag.
func describeFull(ctx context.Context, name string, i fs.FileInfo) sandbox.FileInfo {
	info := describe(name, i.Mode(), i.Size(), i.ModTime())
	if v, ok := versionOf(i); ok {
		info.ETag = v.settled(ctx)
	}
	return info
}
