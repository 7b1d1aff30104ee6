//go:build linux

package local

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
)

func testProvider(t *testing.T, unconfined bool) *Provider {
	p, err := New(Config{Root: t.TempDir(), Unconfined: unconfined})
	if cannot := (*ConfinementError)(nil); errors.As(err, &cannot) {
		need.Missing(t, need.Bwrap, cannot.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func testHandle(t *testing.T, p *Provider) *handle {
	m, err := p.Create(context.Background(), sandbox.CreateRequest{Name: "m-g1"})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := p.Attach(context.Background(), m.Ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb.(*handle)
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(30 * time.Second); !cond(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("still not: %s", what)
		}
	}
}

// children are the processes this one is the parent of.
func children(t *testing.T, p *Provider) (list []stat) {
	t.Helper()
	pids, err := p.host.pids()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if s, err := p.host.stat(pid); err == nil && s.ppid == os.Getpid() {
			list = append(list, s)
		}
	}
	return list
}

// Where bubblewrap's monitor dies without a word on how the program ended,
// that is ErrLost and never an exit code, and the program is ended (cases 1 and 42).
func TestLost(t *testing.T) {
	p := testProvider(t, false)
	h := testHandle(t, p)
	if _, err := sandbox.Run(context.Background(), h, sandbox.Cmd{Argv: []string{"true"}}, nil, nil); err != nil { // so that there is an init
		t.Fatal(err)
	}
	before := children(t, p)
	proc, err := h.Start(context.Background(), sandbox.Cmd{Argv: []string{"sh", "-c", "echo said; exec sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	for c := range proc.Output(context.Background(), 0) {
		if strings.Contains(string(c.Data), "said") {
			break
		}
	}
	monitor := children(t, p)
	monitor = slices.DeleteFunc(monitor, func(s stat) bool {
		return slices.ContainsFunc(before, func(b stat) bool { return b.pid == s.pid })
	})
	if len(monitor) != 1 {
		t.Fatalf("new children: %+v", monitor)
	}
	p.host.signal(monitor[0], syscall.SIGKILL)
	if exit, err := proc.Wait(context.Background()); !errors.Is(err, sandbox.ErrLost) || exit != (sandbox.Exit{}) {
		t.Errorf("wait: %+v, %v", exit, err)
	}
	var last error
	var end int64
	for c, err := range proc.Output(context.Background(), 0) {
		last, end = err, c.Off
	}
	if !errors.Is(last, sandbox.ErrLost) || end != int64(len("said\n")) {
		t.Errorf("the output ends at %d with %v", end, last)
	}
	eventually(t, "the program is gone", func() bool { return len(proc.(*process).kin.living()) == 0 })
}

// After everything is closed no goroutine, no file and no child is left.
func TestNothingLeft(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			testProvider(t, unconfined).Close() // what is made once only
			goroutines, files := runtime.NumGoroutine(), openFiles(t)
			p := testProvider(t, unconfined)
			kids := len(children(t, p))
			h := testHandle(t, p)
			r, w := io.Pipe()
			for i := range 8 {
				c := sandbox.Cmd{Argv: []string{"sh", "-c", "sleep 1000 & setsid sleep 1000 & echo x; wait"}, Timeout: time.Minute}
				if i%2 == 0 {
					c.Stdin = r
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				proc, err := h.Start(ctx, c)
				if err != nil {
					t.Fatal(err)
				}
				for range proc.Output(ctx, 0) {
					break
				}
				switch i {
				case 0, 1, 2:
					proc.Close()
				case 3:
					cancel()
				}
			}
			if _, err := h.Start(context.Background(), sandbox.Cmd{Argv: []string{"no-such-program"}}); !errors.Is(err, sandbox.ErrNotStarted) {
				t.Errorf("start: %v", err)
			}
			h.Close()
			w.Close() // a Read that hangs is the caller's
			eventually(t, "no child is left but the machine's init", func() bool {
				n := kids
				if !unconfined {
					n++
				}
				return len(children(t, p)) == n
			})
			p.Close()
			eventually(t, "no child is left", func() bool { return len(children(t, p)) == kids })
			eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines })
			p.host.close()
			if now := openFiles(t); now > files {
				t.Errorf("%d files were open, %d are", files, now)
			}
		})
	}
}

// Where this process has no more files, a start fails so that another is worth a try, and nothing is left of it.
func TestStartsWithoutFiles(t *testing.T) {
	p := testProvider(t, true)
	h := testHandle(t, p)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	started := false
	for free := 0; !started; free++ {
		files := openFiles(t)
		few := limit
		few.Cur = uint64(files + free) // what is open has the lowest numbers, or else there is less
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		_, err := sandbox.Run(context.Background(), h, sandbox.Cmd{Argv: []string{"true"}}, nil, nil)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		if f := sandbox.Classify(err); err != nil && (f.Retry != sandbox.RetryYes || f.OutcomeUnknown) {
			t.Errorf("with room for %d files: %v, which is %+v", free, err, f)
		}
		if started = err == nil; !started && free > 100 {
			t.Fatalf("with room for %d files: %v", free, err)
		}
		eventually(t, "nothing is left of it", func() bool { return openFiles(t) <= files })
	}
}

// A confined machine that is attached costs two files, and no process and no
// goroutine, before something runs in it and again a while after.
func TestAttachedIsIdle(t *testing.T) {
	p := testProvider(t, false)
	goroutines, files, kids := runtime.NumGoroutine(), openFiles(t), len(children(t, p))
	h := testHandle(t, p)
	idle := func() bool {
		return runtime.NumGoroutine() <= goroutines && openFiles(t) <= files+2 && len(children(t, p)) == kids
	}
	if !idle() {
		t.Errorf("attached: %d goroutines, %d files and %d children, were %d, %d and %d", runtime.NumGoroutine(), openFiles(t), len(children(t, p)), goroutines, files, kids)
	}
	if _, err := sandbox.Run(context.Background(), h, sandbox.Cmd{Argv: []string{"true"}}, nil, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing runs", func() bool { h.m.put(); return idle() })
}

func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// After terminals have ended, or have not come to be, nothing is left of them.
func TestNothingLeftOfTerminals(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			p := testProvider(t, unconfined)
			h := testHandle(t, p)
			size := sandbox.TerminalSize{Columns: 80, Rows: 24}
			once := func() {
				for _, argv := range [][]string{{"true"}, {"sleep", "1000"}, {"sh", "-c", "trap '' HUP; sleep 1000 & exit 3"}, {"no-such-program"}} {
					term, err := h.StartTerminal(context.Background(), sandbox.Cmd{Argv: argv}, size)
					if errors.Is(err, sandbox.ErrNotStarted) && argv[0] == "no-such-program" {
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					if err := term.Close(); err != nil {
						t.Error(err)
					}
				}
			}
			once() // what is made once only
			goroutines, files, kids := runtime.NumGoroutine(), openFiles(t), len(children(t, p))
			for range 3 {
				once()
			}
			eventually(t, "nothing is left", func() bool {
				return runtime.NumGoroutine() <= goroutines && openFiles(t) <= files && len(children(t, p)) <= kids
			})
		})
	}
}

// Orphans are reaped: after a thousand of them there is no zombie in the
// machine, and none on the host (case 15).
func TestNoZombies(t *testing.T) {
	p := testProvider(t, false)
	h := testHandle(t, p)
	proc, err := h.start(context.Background(), sandbox.Cmd{Argv: []string{"sh", "-c", "i=0; while [ $i -lt 1000 ]; do (: &); i=$((i+1)); done"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := proc.Wait(context.Background()); err != nil || exit.Code != 0 {
		t.Fatalf("wait: %+v, %v", exit, err)
	}
	eventually(t, "only the init is in the machine", func() bool {
		pids, err := proc.kin.fs.pids()
		return err == nil && len(pids) == ofInit
	})
	eventually(t, "no child of this process is a zombie", func() bool {
		return !slices.ContainsFunc(children(t, p), stat.dead)
	})
}

// A machine in which nothing has run for a while has no init any more, and one
// that nobody uses is given up, but not while something runs in it or another process
// of the host uses it. The next process wakes it.
func TestPutDown(t *testing.T) {
	p := testProvider(t, false)
	h := testHandle(t, p)
	m := h.m
	running := func() bool {
		found, err := p.Inspect(context.Background(), h.Ref())
		if err != nil || len(found) != 1 {
			t.Fatalf("inspect: %v, %v", found, err)
		}
		return found[0].Status == sandbox.StatusRunning
	}
	if running() {
		t.Fatal("it runs before anything was started")
	}
	runTrue := func(sb sandbox.Sandbox) {
		t.Helper()
		if exit, err := sandbox.Run(context.Background(), sb, sandbox.Cmd{Argv: []string{"true"}}, nil, nil); err != nil || exit.Code != 0 {
			t.Fatalf("%+v, %v", exit, err)
		}
	}
	unused := func(users int) {
		t.Helper()
		eventually(t, "no process uses it", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.users == users })
	}
	for range 2 { // a handle has no need of an init, and gets another
		runTrue(h)
		if !running() {
			t.Fatal("something has just run, and there is no init")
		}
		unused(1)
		if m.put(); running() {
			t.Fatal("not put down under a handle")
		}
	}
	proc, err := h.Start(context.Background(), sandbox.Cmd{Argv: []string{"sleep", "1000"}, Detached: true})
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	if m.put(); !running() {
		t.Fatal("put down under a detached process")
	}
	if err := proc.Signal(context.Background(), sandbox.SignalKill); err != nil {
		t.Fatal(err)
	}
	if _, err := proc.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	other, err := New(Config{Root: p.root})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	theirs, err := other.Attach(context.Background(), h.Ref())
	if err != nil {
		t.Fatal(err)
	}
	runTrue(theirs)
	unused(0)
	if m.put(); !running() {
		t.Fatal("put down under another process of the host")
	}
	theirs.Close()
	other.Close()
	if m.put(); running() {
		t.Fatal("not put down")
	}
	again, err := p.Attach(context.Background(), h.Ref())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if runTrue(again); !running() {
		t.Error("not woken")
	}
}

// The codes by which a monitor tells a signal, and those that programs end with themselves.
func TestSignalOfCode(t *testing.T) {
	for code, want := range map[int]syscall.Signal{0: 0, 1: 0, 127: 0, 128: 0, 129: 0, 130: syscall.SIGINT, 137: syscall.SIGKILL, 143: syscall.SIGTERM, 159: syscall.SIGSYS, 160: 0, 255: 0} {
		if got := signalOf(code); got != want {
			t.Errorf("code %d: signal %v, want %v", code, got, want)
		}
	}
}

// The id of an init that has ended may be another process's by the time that
// its namespaces are opened, even another machine's init's: those are not taken for its own.
func TestInitOfSameID(t *testing.T) {
	p := testProvider(t, false)
	h := testHandle(t, p)
	if err := p.joined(context.Background(), h.m, func(i *initProc) error {
		ended := &initProc{pid: i.pid, start: i.start - 1, uid: i.uid}
		defer ended.close()
		if err := ended.open(p.host, h.m.dir, p.bwrap); !errors.Is(err, errInitDying) {
			t.Errorf("what has its id is opened: %v", err)
		}
		same := &initProc{pid: i.pid, start: i.start, uid: i.uid}
		defer same.close()
		return same.open(p.host, h.m.dir, p.bwrap)
	}); err != nil {
		t.Error(err)
	}
}

// What runs in a machine may stop the holder, and so keep it from hearing that
// its time is over. The machine ends all the same when it is put down and,
// where the host's process has died, before anybody uses it again.
func TestHolderStopped(t *testing.T) {
	p := testProvider(t, false)
	h := testHandle(t, p)
	stop := func(h *handle) *initProc {
		exit, err := sandbox.Run(context.Background(), h, sandbox.Cmd{Argv: []string{"sh", "-c", "kill -STOP 1; kill -STOP 2 && until grep -q '^State:.T' /proc/2/status; do :; done"}}, nil, nil)
		if err != nil || exit.Code != 0 {
			t.Fatalf("%+v, %v", exit, err)
		}
		i, err := readInit(p.host, h.m.dir)
		if err != nil || i == nil {
			t.Fatal("the machine has ended by itself", err)
		}
		return i
	}
	i := stop(h)
	h.Close()
	eventually(t, "what ran has left", func() bool { h.m.mu.Lock(); defer h.m.mu.Unlock(); return h.m.users == 0 })
	put := make(chan struct{})
	go func() {
		defer close(put)
		h.m.put() // by which no other machine can be used for so long
	}()
	select {
	case <-put:
	case <-time.After(20 * time.Second):
		i.kill(p.host)
		t.Error("it is not put down")
	}
	if !i.gone(p.host) {
		t.Error("it survives being put down")
	}

	sb, err := p.Attach(context.Background(), h.Ref())
	if err != nil {
		t.Fatal(err)
	}
	i = stop(sb.(*handle))
	r, err := readInitRecord(p.host, h.m.dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Since-- // as if another process had its starter's id by now
	if err := writeJSON(filepath.Join(h.m.dir, initFile), r); err != nil {
		t.Fatal(err)
	}
	if now, err := readInit(p.host, h.m.dir); now != nil || err != nil || !i.gone(p.host) {
		t.Errorf("of a process of the host that has died there is %v, %v", now, err)
	}
}
