package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/dir"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// bindsWorkdir is a provider that hides nothing and can have durable working directories.
var bindsWorkdir = func() sandbox.Caps {
	caps := immediate
	caps.BindsWorkdir = true
	return caps
}()

// wiredFolders are folders and locks on disk, on a replica's wire.
type wiredFolders struct {
	*dir.Mounter
	line *wire
	lose chan error // what is sent here is why the lock is lost that is taken next; nil = none is
}

func (f wiredFolders) Mount(ctx context.Context, s mount.Spec) (m mount.Mount, err error) {
	err = f.line.call(ctx, "mount", func() (err error) { m, err = f.Mounter.Mount(ctx, s); return })
	if err != nil {
		return nil, err
	}
	return wiredFolder{m, f.line}, nil
}

type wiredFolder struct {
	mount.Mount
	line *wire
}

func (m wiredFolder) Release(ctx context.Context) error {
	return m.line.call(ctx, "unmount", func() error { return m.Mount.Release(ctx) })
}

func (f wiredFolders) Lock(ctx context.Context, row mount.Row, owner string) (mount.Hold, error) {
	var h mount.Hold
	err := f.line.call(ctx, "lock", func() (err error) { h, err = f.Mounter.Lock(ctx, row, owner); return })
	if err != nil {
		return nil, err
	}
	w := &wiredHold{Hold: h, line: f.line, done: make(chan struct{})}
	go func() {
		select {
		case w.err = <-f.lose:
		case <-h.Done():
		}
		close(w.done)
	}()
	return w, nil
}

type wiredHold struct {
	mount.Hold
	line *wire
	done chan struct{}
	err  error // good once done is closed
}

func (h *wiredHold) Done() <-chan struct{} { return h.done }

func (h *wiredHold) Err() error {
	select {
	case <-h.done:
		return h.err
	default:
		return nil
	}
}

func (h *wiredHold) Release(ctx context.Context) error {
	return h.line.call(ctx, "unlock", func() error { return h.Hold.Release(ctx) })
}

// withFolders gives a replica, called name, a Manager over the folders below root.
func (w *world) withFolders(root, name string, lose chan error) func(*session.Config) {
	return func(c *session.Config) {
		folders, err := dir.New(root)
		if err != nil {
			w.Fatal(err)
		}
		wired := wiredFolders{folders, c.Gate.(wiredGate).line, lose}
		if c.Mounts, err = mount.New(mount.Config{Store: w.db.Mounts(), Mounter: wired, Locker: wired}); err != nil {
			w.Fatal(err)
		}
		c.Replica = name
	}
}

// durable opens a session of project "p" whose working directory is durable, with "builder".
func (r *replica) durable(a access.Actor) (session.Session, session.Conversation) {
	r.w.Helper()
	s, v, err := r.Spawn(r.w.Context(), a, session.Spawn{Project: "p", Agent: "builder", DurableWorkdir: true})
	if err != nil {
		r.w.Fatalf("Spawn: %v", err)
	}
	if !s.DurableWorkdir || !r.w.snap(s.ID).Session.DurableWorkdir {
		r.w.Fatal("the session does not remember")
	}
	return s, v
}

func put(t testing.TB, w *session.Work, name, text string) {
	t.Helper()
	if err := sandbox.WriteFile(t.Context(), w.Sandbox().FS(), name, []byte(text), nil); err != nil {
		t.Errorf("write %s: %v", name, err)
	}
}

func wantText(t testing.TB, w *session.Work, name, text string) {
	t.Helper()
	if got, err := sandbox.ReadFile(t.Context(), w.Sandbox().FS(), name); err != nil || string(got) != text {
		t.Errorf("%s reads %q, %v; want %q", name, got, err, text)
	}
}

func TestDurableWorkdir(t *testing.T) {
	inWorld(t, "spec §5.7, §5.13: the lock, the working directory, then the agent's folder; back again once what runs is stopped, the lock before the slot", bindsWorkdir, func(t *testing.T, w *world) {
		r := w.replica(w.withFolders(t.TempDir(), "one", nil))
		_, v := r.durable(ann)
		steps := append([]string{"lock", "unlock"}, steps...)
		r.meddle(nil)
		wk := r.mustWork(ann, inConversation(v.ID))
		want := []string{"ask", "admit", "acquire", "commit", "create", "commit", "attach", "lock", "mount", "mount", "settle"}
		if diff := cmp.Diff(want, r.only(steps...)); diff != "" {
			t.Errorf("Open (-want +got)\n%s", diff)
		}
		r.meddle(nil)
		_, err := wk.Sandbox().Start(t.Context(), sandbox.Cmd{Argv: []string{"cat"}, Detached: true})
		wantErr(t, "what would outlast the lock", err, sandbox.ErrUnsupported)
		rep := closeWork(t, wk)
		if diff := cmp.Diff([]string{"unmount", "close", "settle", "unmount", "unlock", "free"}, r.only(steps...)); diff != "" {
			t.Errorf("Close (-want +got)\n%s", diff)
		}
		if len(rep.Mounts) != 2 || rep.Mounts[0].Mode != mount.Shared || rep.Mounts[1].Mode != mount.Exclusive || rep.Mounts[1].Path != "/workspace" || rep.Mounts[1].Fenced {
			t.Errorf("Report.Mounts %+v", rep.Mounts)
		}
		if g := wk.Guidance(); !strings.Contains(g, "durable folder of your own") || !strings.Contains(g, "/workspace lasts as long as this session") {
			t.Errorf("guidance %q", g)
		}
	})

	inWorld(t, "rule 15: a lost machine is replaced without being asked, its files are there, and the report says so", bindsWorkdir, func(t *testing.T, w *world) {
		r := w.replica(w.withFolders(t.TempDir(), "one", nil))
		s, _ := r.durable(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		put(t, wk, "kept", "of the session")
		closeWork(t, wk)
		if !w.boxes.Kill(w.snap(s.ID).Sandbox.Incarnation) {
			t.Fatal("no machine")
		}
		wk = r.mustWork(ann, inSession(s.ID))
		wantText(t, wk, "kept", "of the session")
		if rep := closeWork(t, wk); rep.Replaced != 1 {
			t.Errorf("Report.Replaced %d", rep.Replaced)
		}
		wk = r.mustWork(ann, inSession(s.ID))
		if rep := closeWork(t, wk); rep.Replaced != 0 {
			t.Errorf("the next one's Report.Replaced %d", rep.Replaced)
		}
		r.end(ann, s.ID)
		if _, err := r.Reopen(t.Context(), ann, s.ID); err != nil {
			t.Fatal(err)
		}
		wk = r.mustWork(ann, inSession(s.ID))
		wantText(t, wk, "kept", "of the session")
		if rep := closeWork(t, wk); rep.Replaced != 0 {
			t.Errorf("what was ended is no loss: Report.Replaced %d", rep.Replaced)
		}
	})

	inWorld(t, "mounts trap 13: of two works the first to end leaves the other's working directory", bindsWorkdir, func(t *testing.T, w *world) {
		r := w.replica(w.withFolders(t.TempDir(), "one", nil))
		s, v := r.durable(ann)
		a, b := r.mustWork(ann, inConversation(v.ID)), r.mustWork(ann, inSession(s.ID))
		put(t, a, "shared", "x")
		wantText(t, b, "shared", "x")
		closeWork(t, a)
		wantText(t, b, "shared", "x")
		put(t, b, "shared", "y")
		if n := r.count("lock") - r.count("unlock"); n != 1 {
			t.Errorf("%d locks are held", n)
		}
		closeWork(t, b)
		if n := r.count("lock") - r.count("unlock"); n != 0 {
			t.Errorf("%d locks are held in the end", n)
		}
	})

	inWorld(t, "one process at a time works there; the next is told which one that is", bindsWorkdir, func(t *testing.T, w *world) {
		root := t.TempDir()
		one, two := w.replica(w.withFolders(root, "one:8080", nil)), w.replica(w.withFolders(root, "two:8080", nil))
		s, _ := one.durable(ann)
		wk := one.mustWork(ann, inSession(s.ID))
		put(t, wk, "by", "one")
		_, err := two.work(t.Context(), ann, inSession(s.ID))
		if used := wantType[*mount.InUseError](t, "Open by another process", err); used.Holder != "one:8080" {
			t.Errorf("held by %q", used.Holder)
		}
		if status, code, sentence := problem(t, err); status != 409 || code != "folder_in_use" || strings.Contains(sentence, "8080") {
			t.Errorf("Problem = %d %s %q", status, code, sentence)
		}
		closeWork(t, wk)
		wk = two.mustWork(ann, inSession(s.ID))
		wantText(t, wk, "by", "one")
		if n := wk.Mounts()[0].Epoch; n != 2 {
			t.Errorf("epoch %d", n)
		}
		closeWork(t, wk)
	})
}

// A handle that can't be closed is no proof that nothing writes any more, and neither is one
// that is closed the second time.
func TestDurableWorkdirIsKeptWhileSomethingMayRun(t *testing.T) {
	for who, proves := range map[string]func(one, two *replica) *replica{
		"its own process": func(one, _ *replica) *replica { return one },
		"another process": func(_, two *replica) *replica { return two },
	} {
		inWorld(t, "a work whose processes could not be stopped keeps the lock until "+who+" knows that nothing runs", bindsWorkdir, func(t *testing.T, w *world) {
			root := t.TempDir()
			var handles *stuckHandles
			one := w.replica(func(c *session.Config) {
				handles = &stuckHandles{reapingProvider: reapingProvider{c.Sandboxes[0], newGraveyard()}}
				handles.stuck.Store(true)
				c.Sandboxes = []sandbox.Provider{handles}
				w.withFolders(root, "one", nil)(c)
			})
			two := w.replica(func(c *session.Config) {
				c.Sandboxes = []sandbox.Provider{reapingProvider{c.Sandboxes[0], handles.yard}}
				w.withFolders(root, "two", nil)(c)
			})
			s, _ := one.durable(ann)
			wk := one.mustWork(ann, inSession(s.ID))
			ghost := start(t, wk)
			if _, err := wk.Close(t.Context()); !errors.Is(err, errOutage) || !running(ghost) {
				t.Fatalf("Close: %v; its process runs: %v", err, running(ghost))
			}
			taken := func(when string) {
				t.Helper()
				_, err := two.work(t.Context(), ann, inSession(s.ID))
				if _, is := errors.AsType[*mount.InUseError](err); !is {
					t.Errorf("%s: %v", when, err)
				}
			}
			taken("closed, and its process runs")
			time.Sleep(90 * time.Second)
			taken("its lease has run out")
			proves(one, two).slots(t)
			if running(ghost) {
				t.Error("its process runs still")
			}
			time.Sleep(25 * time.Hour)
			one.slots(t)
			synctest.Wait()
			handles.stuck.Store(false)
			closeWork(t, two.mustWork(ann, inSession(s.ID)))
		})
	}
}

func TestDurableWorkdirIsRefused(t *testing.T) {
	inWorld(t, "a provider that can't is refused by name, before anybody pays or anything wakes", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.withFolders(t.TempDir(), "one", nil))
		s, v := r.durable(ann)
		r.meddle(nil)
		for _, q := range []session.WorkRequest{inSession(s.ID), inConversation(v.ID)} {
			_, err := r.work(t.Context(), ann, q)
			e := wantType[*session.WorkdirError](t, "Open", err)
			if e.Provider != w.boxes.Info().Provider || e.Session != s.ID || !errors.Is(err, sandbox.ErrUnsupported) {
				t.Errorf("Open: %v", err)
			}
			if status, code, _ := problem(t, err); status != 501 || code != "workdir_unsupported" {
				t.Errorf("Problem = %d %s", status, code)
			}
		}
		if n := r.count("admit", "acquire", "create", "attach", "commit", "lock", "mount"); n != 0 || w.created() != 0 {
			t.Errorf("called %v", r.calls())
		}
		if _, err := r.work(t.Context(), ann, session.WorkRequest{Session: s.ID}); !errors.Is(err, session.ErrNoMachine) {
			t.Errorf("without Ensure there is nothing to refuse: %v", err)
		}
		_, plain := r.spawn(ann)
		closeWork(t, r.mustWork(ann, inConversation(plain.ID))) // other sessions work there as before
	})

	inWorld(t, "so is a process that has no folders for it, also where the machine is there already", bindsWorkdir, func(t *testing.T, w *world) {
		r := w.replica(w.withFolders(t.TempDir(), "one", nil))
		s, _ := r.durable(ann)
		closeWork(t, r.mustWork(ann, inSession(s.ID)))
		for what, other := range map[string]*replica{"no Mounts": w.replica(), "Mounts without a Locker": w.replica(w.withMounts(mount.BestEffort))} {
			other.meddle(nil)
			_, err := other.work(t.Context(), ann, inSession(s.ID))
			if e := wantType[*session.WorkdirError](t, what, err); e.Provider != "" || other.count("admit", "attach") != 0 {
				t.Errorf("%s: %v, called %v", what, err, other.calls())
			}
			_, _, err = other.Spawn(t.Context(), ann, session.Spawn{DurableWorkdir: true})
			wantField(t, what, err, "DurableWorkdir")
		}
	})

	inWorld(t, "who borrows an environment works in that one's directory; a retry that wants another directory is another request", bindsWorkdir, func(t *testing.T, w *world) {
		r := w.replica(w.withFolders(t.TempDir(), "one", nil))
		e := r.newEnvironment(ann)
		_, _, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder", Environment: e, DurableWorkdir: true})
		wantField(t, "Spawn", err, "DurableWorkdir")

		q := session.Spawn{Project: "p", Agent: "builder", DurableWorkdir: true, Conversation: "0192f0c1-2ab4-7cde-8f01-2345678900aa"}
		first, _, err := r.Spawn(t.Context(), ann, q)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := r.Spawn(t.Context(), ann, q)
		if err != nil || again.ID != first.ID || !again.DurableWorkdir {
			t.Errorf("T-07: repeated: %+v, %v", again, err)
		}
		q.DurableWorkdir = false
		_, _, err = r.Spawn(t.Context(), ann, q)
		wantErr(t, "Spawn", err, session.ErrConversationTaken)
	})
}

func TestDurableWorkdirLost(t *testing.T) {
	inWorld(t, "work whose lock is lost is stopped, what it runs with it, and says why", bindsWorkdir, func(t *testing.T, w *world) {
		lose := make(chan error)
		r := w.replica(w.withFolders(t.TempDir(), "one", lose))
		w.boxes.Handle("block", func(ctx context.Context, _ *memory.Command) int { <-ctx.Done(); return 1 })
		s, _ := r.durable(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		p, err := wk.Sandbox().Start(t.Context(), sandbox.Cmd{Argv: []string{"block"}})
		if err != nil {
			t.Fatal(err)
		}
		lose <- errors.New("not renewed")
		synctest.Wait()
		wantErr(t, "cause", context.Cause(wk.Context()), mount.ErrTakenOver)
		exit, err := p.Wait(t.Context())
		if err != nil || exit.Reason != sandbox.Cancelled {
			t.Errorf("what ran: %+v, %v", exit, err)
		}
		_, err = wk.Sandbox().Start(t.Context(), sandbox.Cmd{Argv: []string{"block"}})
		wantErr(t, "Start", err, sandbox.ErrClosed)
		if n := r.count("unmount"); n != 1 {
			t.Errorf("unmounted %d times before it is closed", n)
		}
		next := r.mustWork(ann, inSession(s.ID)) // nor does anybody have to wait for that
		if rep := closeWork(t, wk); !errors.Is(rep.Cause, mount.ErrTakenOver) {
			t.Errorf("Report.Cause %v", rep.Cause)
		}
		if n := next.Mounts()[0].Epoch; n != 2 {
			t.Errorf("epoch %d", n)
		}
		closeWork(t, next)
		w.gate.wantEndedOnce(t)
	})

	inWorld(t, "a handle that can't be closed may let things run on: the lock is kept", bindsWorkdir, func(t *testing.T, w *world) {
		lose := make(chan error)
		defer close(lose)
		r := w.replica(w.withFolders(t.TempDir(), "one", lose))
		s, _ := r.durable(ann)
		for _, nth := range []int{1, 0} { // 0 = every time: what is closed again proves nothing
			wk := r.mustWork(ann, inSession(s.ID))
			r.fail("close", nth, errOutage)
			_, err := wk.Close(t.Context())
			wantErr(t, "Close", err, errOutage)
			if n := r.count("unlock"); n != 0 {
				t.Errorf("closing fails, nth %d: the lock was given up", nth)
			}
			r.meddle(nil)
		}
	})

	for step, undone := range map[string][]string{
		"lock":  {"close", "free", "release"},
		"mount": {"unlock", "close", "free", "release"}, // nothing runs yet
	} {
		inWorld(t, "T-61: where the "+step+" fails all is undone, in reverse, and nobody works in an empty directory", bindsWorkdir, func(t *testing.T, w *world) {
			r := w.replica(w.withFolders(t.TempDir(), "one", nil))
			s, _ := r.durable(ann)
			r.fail(step, 1, errOutage)
			_, err := r.work(t.Context(), ann, inSession(s.ID))
			wantType[*mount.MountError](t, "Open", err)
			synctest.Wait()
			if diff := cmp.Diff(undone, r.only("unlock", "close", "settle", "free", "release")); diff != "" {
				t.Errorf("undone (-want +got)\n%s", diff)
			}
			w.wantSlotsFree()
			r.meddle(nil)
			closeWork(t, r.mustWork(ann, inSession(s.ID)))
		})
	}

	inWorld(t, "mounts trap 42: at a new turn of work that goes on the link is there again, and what stood in its place is home", bindsWorkdir, func(t *testing.T, w *world) {
		r := w.replica(w.withFolders(t.TempDir(), "one", nil))
		_, v := r.durable(ann)
		wk := r.mustWork(ann, inConversation(v.ID))
		if err := wk.Sandbox().FS().Remove(t.Context(), "agent-files", nil); err != nil {
			t.Fatal(err)
		}
		put(t, wk, "agent-files/note", "mine")
		time.Sleep(time.Minute)
		wk.Freshen(t.Context())
		wantText(t, wk, wk.Mounts()[0].Path+"/note", "mine")
		if links, _ := sandbox.As[sandbox.Symlinker](wk.Sandbox()); links != nil {
			if text, err := links.Readlink(t.Context(), "agent-files"); err != nil || text != "/workspace-agent" {
				t.Errorf("the link reads %q, %v", text, err)
			}
		}
		closeWork(t, wk)
		wk.Freshen(t.Context()) // of work that has ended nothing is looked after
	})
}
