//go:build linux

package geesefs

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/internal/need"
)

// The whole path: write, stop, serve in a new process, read.
func TestFolderOutlivesItsProcess(t *testing.T) {
	fuse(t)
	m := &minter{endpoint: newStore(t).url, life: time.Hour}
	s := server(t, m, nil)
	first, dir := serve(t, s)
	if err := os.Mkdir(filepath.Join(dir, "notes"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "notes", "monday"), "kept")
	write(t, filepath.Join(dir, "Übergröße"), "wide")
	open, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open.WriteString("not closed yet"); err != nil {
		t.Fatal(err)
	}
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	stop(t, first)
	stop(t, first) // twice succeeds
	if err := first.Err(); err != nil {
		t.Errorf("stopped, and yet: %v", err)
	}
	if mounted, err := isMounted(dir); mounted || err != nil {
		t.Errorf("after Stop: mounted %v, %v", mounted, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("something was written below the mount: %v, %v", entries, err)
	}
	_, again := serve(t, s)
	read(t, filepath.Join(again, "notes", "monday"), "kept")
	read(t, filepath.Join(again, "Übergröße"), "wide")
	read(t, filepath.Join(again, "log"), "not closed yet")
	if g := m.grants[0]; string(g.Prefix) != prefix || g.Run != "run-7" || g.ReadOnly {
		t.Errorf("asked for %+v", g)
	}
}

// Case 37: three expiries of credentials of five seconds under constant
// writes, and no call fails, nothing is mounted anew, and nothing is refused.
func TestCredentialsExpireUnderWrites(t *testing.T) {
	need.Long(t, "credentials have to expire")
	fuse(t)
	t.Parallel()
	st := newStore(t)
	s := server(t, &minter{endpoint: st.url, life: 5 * time.Second}, nil)
	v, dir := serve(t, s)
	pid := v.(*serving).process.cmd.Process.Pid
	expiries, longest := 0, time.Duration(0)
	expires := v.Expires()
	n := 0
	for last := time.Now(); expiries < 3; n++ {
		name := filepath.Join(dir, strconv.Itoa(n%20))
		write(t, name, strconv.Itoa(n))
		read(t, name, strconv.Itoa(n))
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
		if !v.Expires().After(now) {
			t.Fatalf("after %d writes the installed credentials have expired at %v", n, v.Expires())
		}
		if now.After(expires) {
			expiries, expires = expiries+1, v.Expires()
		}
	}
	accepted, refused := st.keys(t)
	if accepted < 4 || refused != 0 || v.(*serving).process.cmd.Process.Pid != pid {
		t.Errorf("%d keys used, %d requests refused, process %d", accepted, refused, pid)
	}
	select {
	case <-v.Done():
		t.Errorf("it ended: %v", v.Err())
	default:
	}
	t.Logf("%d writes over %d expiries with %d keys; the longest took %v", n, expiries, accepted, longest)
}

// Without renewal the store does refuse: the case before shows something.
func TestExpiredCredentialsAreRefused(t *testing.T) {
	need.Long(t, "credentials have to expire")
	fuse(t)
	t.Parallel()
	st := newStore(t)
	s := server(t, &minter{endpoint: st.url, life: 5 * time.Second}, nil)
	v, dir := serve(t, s)
	write(t, filepath.Join(dir, "before"), "x")
	if err := v.(*serving).prepared.renewer.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a write is refused", func() bool {
		return errors.Is(put(filepath.Join(dir, "after"), "x"), syscall.EACCES)
	})
	if v.Expires().After(time.Now()) {
		t.Errorf("refused, and the books say until %v", v.Expires())
	}
}

// Trap 58: what others wrote is seen after a minute, or at once after Refresh.
func TestRefresh(t *testing.T) {
	fuse(t)
	st := newStore(t)
	v, dir := serve(t, server(t, &minter{endpoint: st.url, life: time.Hour}, nil))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Fatalf("a new folder holds %v, %v", entries, err)
	}
	st.put(t, "upload")
	if _, err := os.ReadFile(filepath.Join(dir, "upload")); !os.IsNotExist(err) {
		t.Fatalf("seen without Refresh: %v; the stand-in caches nothing", err)
	}
	if err := v.(*serving).Refresh(bounded(t)); err != nil {
		t.Fatal(err)
	}
	read(t, filepath.Join(dir, "upload"), "")
	stop(t, v)
	if err := v.(*serving).Refresh(bounded(t)); err == nil {
		t.Error("a folder that is served no more was refreshed")
	}
}
