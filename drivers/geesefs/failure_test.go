//go:build linux

package geesefs

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// left are the files of credentials that a server has below its directory.
func left(t testing.TB, s *Server) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(s.house.dir, "run-*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Trap 77: what can't work is said at once and in words, nothing is left, and no word is a secret.
func TestFailuresAreSaidAtOnce(t *testing.T) {
	fuse(t)
	st := newStore(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + closed.Addr().String()
	closed.Close()
	good := func() *minter { return &minter{endpoint: st.url, life: time.Hour} }
	for _, c := range []struct {
		rule   string
		m      *minter
		change func(*Config)
		want   error
		says   []string
	}{
		{"no program", good(), func(c *Config) { c.Program = "no-such-geesefs" }, sandbox.ErrUnsupported, []string{"no program no-such-geesefs", mountID}},
		{"a program that can't be run", good(), func(c *Config) { c.Program = "/dev/null" }, sandbox.ErrUnsupported, []string{"permission denied"}},
		{"a signer that fails", &minter{err: errors.New("no answer from the mint")}, nil, mount.ErrUnavailable, []string{"credentials", "no answer from the mint"}},
		{"a storage that does not listen", &minter{endpoint: dead, life: time.Hour}, nil, mount.ErrUnavailable, []string{"connection refused"}},
		{"a storage whose address can't be read", &minter{endpoint: "nowhere", life: time.Hour}, nil, sandbox.ErrUnsupported, []string{`"nowhere" is unknown`}},
		{"bad keys", &minter{endpoint: st.url, life: time.Hour, spoil: func(c *mount.Credentials) { c.AccessKey = "nobody" }}, nil, mount.ErrUnavailable, []string{"refuses these credentials: InvalidAccessKeyId"}},
		{"keys of another folder", &minter{endpoint: st.url, life: time.Hour, spoil: func(c *mount.Credentials) { c.SessionToken = "b3RoZXIv" }}, nil, mount.ErrUnavailable, []string{"AccessDenied"}},
		{"a wrong secret", &minter{endpoint: st.url, life: time.Hour, spoil: func(c *mount.Credentials) { c.SecretKey = "guessed" }}, nil, mount.ErrUnavailable, []string{"SignatureDoesNotMatch"}},
		{"no such bucket", &minter{endpoint: st.url, life: time.Hour, spoil: func(c *mount.Credentials) { c.Bucket = "attic" }}, nil, mount.ErrUnavailable, []string{"NoSuchBucket"}},
		{"keys that have expired", &minter{endpoint: st.url, life: time.Hour, spoil: func(c *mount.Credentials) { c.AccessKey = "until-1" }}, nil, mount.ErrUnavailable, []string{"ExpiredToken"}},
	} {
		s := server(t, c.m, c.change)
		began := time.Now()
		v, err := s.Serve(bounded(t), spec(), t.TempDir())
		if err == nil {
			err = ended(v)
			stop(t, v)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: said after %v", c.rule, took)
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.rule, err, c.want)
			continue
		}
		for _, word := range c.says {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v does not say %q", c.rule, err, word)
			}
		}
		if strings.Contains(err.Error(), secretKey) {
			t.Errorf("%s: the error tells the key: %v", c.rule, err)
		}
		if files := left(t, s); len(files) != 0 {
			t.Errorf("%s: left %v", c.rule, files)
		}
	}
}

// A storage that takes connections and never answers is said within 5 s.
func TestSilentStorageIsSaid(t *testing.T) {
	fuse(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	m := &minter{endpoint: "http://" + silent.Addr().String(), life: time.Hour}
	s := server(t, m, nil)
	began := time.Now()
	_, err = s.Serve(bounded(t), spec(), t.TempDir())
	if took := time.Since(began); !errors.Is(err, mount.ErrUnavailable) || !strings.Contains(err.Error(), "no answer from the storage") || took > 10*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	hurried, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Serve(hurried, spec(), t.TempDir()); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("who does not wait: %v", err)
	}
	if files := left(t, s); len(files) != 0 {
		t.Errorf("left %v", files)
	}
}

// Trap 38: a program that has not mounted yet can be stopped, and mounts nothing later.
func TestStoppedBeforeItMounts(t *testing.T) {
	fuse(t)
	s := server(t, &minter{endpoint: newStore(t).url, life: time.Hour}, func(c *Config) { c.Env = []string{"STANDIN=late"} })
	dir := t.TempDir()
	v, err := s.Serve(bounded(t), spec(), dir)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	stop(t, v)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopped after %v", took)
	}
	if err := ended(v); err != nil {
		t.Errorf("it was stopped, and yet: %v", err)
	}
	if mounted, err := isMounted(dir); mounted || err != nil || len(left(t, s)) != 0 {
		t.Errorf("mounted %v, %v; left %v", mounted, err, left(t, s))
	}
}

// Trap 77: a program that ends at once is done at once, with what it said.
func TestProgramThatEndsAtOnce(t *testing.T) {
	fuse(t)
	s := server(t, &minter{endpoint: newStore(t).url, life: time.Hour}, func(c *Config) { c.Env = []string{"STANDIN=broken"} })
	v, err := s.Serve(bounded(t), spec(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	err = ended(v)
	if !errors.Is(err, mount.ErrUnavailable) || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "it was told to") {
		t.Errorf("%v", err)
	}
	stop(t, v)
	if again := v.Err(); again == nil {
		t.Error("after Stop it says nothing")
	}
}

// Trap 34: a child that dies is noticed at once, with what is left of it to be taken away by Stop.
func TestKilledChildIsDone(t *testing.T) {
	fuse(t)
	s := server(t, &minter{endpoint: newStore(t).url, life: time.Hour}, nil)
	v, dir := serve(t, s)
	if err := v.Err(); err != nil {
		t.Errorf("alive, and yet: %v", err)
	}
	if err := syscall.Kill(v.(*serving).process.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := ended(v)
	if !errors.Is(err, mount.ErrUnavailable) || !strings.Contains(err.Error(), "signal: killed") || !strings.Contains(err.Error(), mountID) {
		t.Errorf("killed: %v", err)
	}
	if files := left(t, s); len(files) != 0 {
		t.Errorf("credentials left: %v", files)
	}
	if _, err := os.ReadDir(dir); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("the dead mount says %v", err)
	}
	stop(t, v)
	if mounted, err := isMounted(dir); mounted || err != nil {
		t.Errorf("after Stop: mounted %v, %v", mounted, err)
	}
	if again := v.Err(); again == nil || again.Error() != err.Error() {
		t.Errorf("after Stop it says %v", again)
	}
}

// Trap 38: what neither flushes nor ends is killed, within bounds.
func TestStubbornChildIsKilled(t *testing.T) {
	fuse(t)
	s := server(t, &minter{endpoint: newStore(t).url, life: time.Hour}, func(c *Config) {
		c.Env, c.StopTimeout = []string{"STANDIN=stubborn"}, time.Second
	})
	v, dir := serve(t, s)
	hurried, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := v.Stop(hurried); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop with no time = %v", err)
	}
	select {
	case <-v.Done():
		t.Error("it was ended before its time")
	default:
	}
	began := time.Now()
	stop(t, v)
	if took := time.Since(began); took < 2*time.Second || took > 10*time.Second {
		t.Errorf("killed after %v; it has 1 s to write out and 2 s to end", took)
	}
	if mounted, err := isMounted(dir); mounted || err != nil || v.Err() != nil {
		t.Errorf("mounted %v, %v; %v", mounted, err, v.Err())
	}
}

// What the program has started and left behind, with its output still open, holds nothing up.
func TestLeftChildHoldsNothingUp(t *testing.T) {
	script := "echo before; sleep 60 & echo $!; exit 3"
	p, err := startProcess("/bin/sh", []string{"-c", script}, []string{"PATH=" + os.Getenv("PATH")})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("its end is not noticed")
	}
	before, pid, _ := strings.Cut(strings.TrimSpace(p.tail.String()), "\n")
	if before != "before" || p.how != "exit status 3" {
		t.Errorf("%s, said %q", p.how, p.tail.String())
	}
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Errorf("what it has left is gone already: %v", err)
	}
}

// A folder in which somebody has a file open is taken away all the same, and
// what was written into the open file is there in the end.
func TestStopWithAnOpenFile(t *testing.T) {
	fuse(t)
	s := server(t, &minter{endpoint: newStore(t).url, life: time.Hour}, nil)
	v, dir := serve(t, s)
	f, err := os.Create(filepath.Join(dir, "open"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("half a sentence"); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- v.Stop(bounded(t)) }()
	eventually(t, "the folder is unmounted", func() bool { mounted, err := isMounted(dir); return !mounted && err == nil })
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	_, again := serve(t, s)
	read(t, filepath.Join(again, "open"), "half a sentence")
}

// What is new in the storage's answer does not move a folder that is mounted.
func TestMovedStorageIsRefused(t *testing.T) {
	p := &place{dir: t.TempDir()}
	c := credentials("http://one", prefix, time.Hour)
	if err := p.install(t.Context(), c, c.Expires); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(p.path(leaseFile))
	if err != nil {
		t.Fatal(err)
	}
	c.Endpoint, c.AccessKey = "http://two", "other"
	if err := p.install(t.Context(), c, c.Expires); err == nil {
		t.Error("credentials for another endpoint were installed")
	}
	if after, err := os.ReadFile(p.path(leaseFile)); err != nil || !slices.Equal(before, after) {
		t.Errorf("the file has changed: %s, %v", after, err)
	}
}

// A host that is killed takes the program with it, which first writes out what
// was closed, and the next host removes the credentials that were left.
func TestKilledHostLeavesNoProgram(t *testing.T) {
	fuse(t)
	if root := os.Getenv("GEESEFS_TEST_ROOT"); root != "" {
		helper(t, root)
		return
	}
	st, root := newStore(t), t.TempDir()
	dir := filepath.Join(root, "folder")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledHostLeavesNoProgram$")
	cmd.Env = append(os.Environ(), "GEESEFS_TEST_ROOT="+root, "GEESEFS_TEST_STORE="+st.url)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // of a test that failed
		if mounted, err := isMounted(dir); mounted || err != nil {
			_ = unmount(bounded(t), dir, true)
		}
	})
	eventually(t, "the helper has closed its file", func() bool {
		_, err := os.Stat(filepath.Join(root, "ready"))
		return err == nil
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the program has unmounted and is gone", func() bool {
		mounted, err := isMounted(dir)
		return !mounted && err == nil && !runs(t, dir)
	})
	leases := func() []string {
		all, err := filepath.Glob(filepath.Join(root, "private", "host-*", "run-*", leaseFile))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if len(leases()) != 1 {
		t.Errorf("the killed host left %v", leases())
	}
	s := server(t, &minter{endpoint: st.url, life: time.Hour}, func(c *Config) { c.Dir = filepath.Join(root, "private") })
	if len(leases()) != 0 {
		t.Errorf("the next one leaves %v", leases())
	}
	_, again := serve(t, s)
	read(t, filepath.Join(again, "closed"), "safe")
}

// runs reports whether a process has a mount point in its arguments.
func runs(t testing.TB, dir string) bool {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if text, err := os.ReadFile(name); err == nil && strings.HasSuffix(string(text), "\x00"+dir+"\x00") {
			return true
		}
	}
	return false
}

// helper is the host that is killed.
func helper(t *testing.T, root string) {
	s := server(t, &minter{endpoint: os.Getenv("GEESEFS_TEST_STORE"), life: time.Hour}, func(c *Config) { c.Dir = filepath.Join(root, "private") })
	dir := filepath.Join(root, "folder")
	if _, err := s.Serve(t.Context(), spec(), dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "mounted", func() bool { mounted, err := isMounted(dir); return mounted && err == nil })
	for _, name := range []string{filepath.Join(dir, "closed"), filepath.Join(root, "ready")} {
		if err := os.WriteFile(name, []byte("safe"), 0o600); err != nil { // and not synced
			t.Fatal(err)
		}
	}
	<-t.Context().Done()
}
