package session_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// start starts a process that runs for a day if it is let.
func start(t testing.TB, w *session.Work) sandbox.Process {
	t.Helper()
	p, err := w.Sandbox().Start(context.Background(), sandbox.Cmd{Argv: []string{"sleep", "24h"}})
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	return p
}

// wantStopped waits until the work has been told to stop, and fails the test
// unless that was for cause, after so long, and what ran in it has been stopped.
func wantStopped(t testing.TB, w *session.Work, p sandbox.Process, cause error, least, most time.Duration) {
	t.Helper()
	begun := time.Now()
	<-w.Context().Done()
	took := time.Since(begun)
	if got := context.Cause(w.Context()); !errors.Is(got, cause) {
		t.Errorf("stopped for %v, want %v", got, cause)
	}
	if took < least || took > most {
		t.Errorf("stopped after %v, want %v to %v", took, least, most)
	}
	if _, err := p.Wait(context.Background()); err != nil && !errors.Is(err, sandbox.ErrLost) {
		t.Errorf("the process: %v", err)
	}
	if total := time.Since(begun); total > took+2*sandbox.DefaultKillGrace {
		t.Errorf("the process was stopped %v after the work", total-took)
	}
	if _, err := w.Sandbox().Start(context.Background(), sandbox.Cmd{Argv: []string{"true"}}); !errors.Is(err, sandbox.ErrClosed) || !errors.Is(err, cause) {
		t.Errorf("a process started afterwards: %v, want ErrClosed for %v", err, cause)
	}
	rep, err := w.Close(context.Background())
	if err != nil && !errors.Is(err, errOutage) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if !errors.Is(rep.Cause, cause) {
		t.Errorf("Report.Cause %v, want %v", rep.Cause, cause)
	}
}

// hang keeps every call of a name from being answered until its context ends.
func hang(name string) func(call string, n, nth int) trouble {
	return func(call string, _, _ int) trouble {
		if call == name {
			return trouble{hold: func(ctx context.Context) { <-ctx.Done() }, before: context.DeadlineExceeded}
		}
		return trouble{}
	}
}

func TestWorkIsStopped(t *testing.T) {
	const beat = 20 * time.Second // a third of the lease
	for _, c := range []struct {
		rule        string
		act         func(t *testing.T, w *world, r *replica, wk *session.Work)
		cause       error
		least, most time.Duration
	}{
		{"ErrEnded: by an end in the same process, at once", func(t *testing.T, w *world, r *replica, wk *session.Work) {
			r.end(ann, wk.Session())
		}, session.ErrEnded, 0, 0},
		{"ErrEnded: by an end in another process, with the next beat", func(t *testing.T, w *world, _ *replica, wk *session.Work) {
			w.replica().end(ann, wk.Session())
		}, session.ErrEnded, 0, beat},
		{"ErrEnded: by the deletion of the session, with the next beat", func(t *testing.T, w *world, _ *replica, wk *session.Work) {
			if _, err := w.db.Sessions().Commit(t.Context(), session.Change{Delete: []session.Address{{Session: wk.Session()}}}); err != nil {
				t.Fatal(err)
			}
		}, session.ErrEnded, 0, beat},
		{"ErrGone: its machine is not the session's any more", func(t *testing.T, w *world, _ *replica, wk *session.Work) {
			other := w.replica()
			other.end(ann, wk.Session())
			other.mustWork(ann, session.WorkRequest{Session: wk.Session(), Ensure: true, Reopen: true})
		}, sandbox.ErrGone, 0, beat},
		// Two graces of an eighth of the lease before it is anybody else's.
		{"ErrFenced: the lease can't be renewed, told before it runs out", func(_ *testing.T, _ *world, r *replica, _ *session.Work) {
			r.fail("renew", 0, errOutage)
		}, session.ErrFenced, 40 * time.Second, 46 * time.Second},
		{"ErrFenced: so it is where the database does not answer at all", func(_ *testing.T, _ *world, r *replica, _ *session.Work) {
			r.meddle(hang("renew"))
		}, session.ErrFenced, 40 * time.Second, 46 * time.Second},
		{"ErrFenced: the lease is somebody else's", func(_ *testing.T, _ *world, r *replica, _ *session.Work) {
			r.fail("renew", 0, session.ErrFenced)
		}, session.ErrFenced, 0, beat},
		{"ErrOutOfCredit: the gate says that nothing is left", func(_ *testing.T, w *world, _ *replica, _ *session.Work) {
			w.gate.mu.Lock()
			defer w.gate.mu.Unlock()
			w.gate.broke = true
		}, session.ErrOutOfCredit, 0, beat},
		{"ErrOutOfCredit: the hold can't be renewed, told before it runs out", func(_ *testing.T, _ *world, r *replica, _ *session.Work) {
			r.fail("settle", 0, errOutage)
		}, session.ErrOutOfCredit, time.Minute, 2 * time.Minute},
		{"ErrDraining: the process shuts down and waits no longer", func(t *testing.T, _ *world, r *replica, _ *session.Work) {
			ctx, cancel := context.WithTimeoutCause(context.Background(), 5*time.Second, errOutage)
			t.Cleanup(cancel)
			go func() {
				wantErr(t, "Drain", r.Drain(ctx), errOutage)
			}()
		}, session.ErrDraining, 5 * time.Second, 5 * time.Second},
	} {
		inWorld(t, c.rule, immediate, func(t *testing.T, w *world) {
			r := w.replica()
			_, v := r.spawn(ann)
			wk := r.mustWork(ann, inConversation(v.ID))
			p := start(t, wk)
			c.act(t, w, r, wk)
			wantStopped(t, wk, p, c.cause, c.least, c.most)
			if h := w.gate.all()[wk.ID()]; h.given > 0 {
				t.Error("from the moment work begins its time is settled, never given back")
			}
		})
	}

	inWorld(t, "the caller's context ends the work with its own cause", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		_, v := r.spawn(ann)
		ctx, cancel := context.WithCancelCause(t.Context())
		wk, err := r.work(ctx, ann, inConversation(v.ID))
		if err != nil {
			t.Fatal(err)
		}
		p := start(t, wk)
		cancel(errOutage)
		wantStopped(t, wk, p, errOutage, 0, 0)
		w.gate.wantEndedOnce(t)
	})

	inWorld(t, "a lease is renewed for as long as the work lasts, and a passing fault stops nothing", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		_, v := r.spawn(ann)
		wk := r.mustWork(ann, inConversation(v.ID))
		r.meddle(func(c string, _, nth int) trouble {
			if (c == "renew" || c == "load" || c == "touch" || c == "settle") && nth%3 == 0 {
				return trouble{before: errOutage}
			}
			return trouble{}
		})
		for range 60 {
			time.Sleep(time.Minute)
			if expired, err := w.db.Leases().Expired(t.Context(), 10); err != nil || len(expired) > 0 {
				t.Fatalf("expired: %+v, %v", expired, err)
			}
		}
		if cause := context.Cause(wk.Context()); cause != nil {
			t.Errorf("stopped for %v", cause)
		}
		r.meddle(nil)
		if rep := closeWork(t, wk); rep.Cause != nil || rep.Used != time.Hour {
			t.Errorf("Report %+v", rep)
		}
	})
}

func TestAfterClose(t *testing.T) {
	inWorld(t, "after Close everything had through the work is closed, and the machine lives", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(ann)
		wk := r.mustWork(ann, inConversation(v.ID))
		sb := wk.Sandbox()
		fsys := sb.FS()
		write(t, wk, "f", "x")
		links, ok := sandbox.As[sandbox.Symlinker](sb)
		if !ok {
			t.Fatal("no Symlinker")
		}
		attrs, ok := sandbox.As[sandbox.AttrSetter](sb)
		if !ok {
			t.Fatal("no AttrSetter")
		}
		watcher, ok := sandbox.As[sandbox.Watcher](sb)
		if !ok {
			t.Fatal("no Watcher")
		}
		changes, err := watcher.Watch(t.Context(), ".", nil)
		if err != nil {
			t.Fatal(err)
		}
		open, err := fsys.Open(t.Context(), "f", nil)
		if err != nil {
			t.Fatal(err)
		}
		p := start(t, wk)
		closeWork(t, wk)
		exit, err := p.Wait(t.Context())
		if err != nil || exit.Reason != sandbox.Cancelled {
			t.Errorf("the process: %+v, %v", exit, err)
		}
		for what, err := range map[string]error{
			"FS":         second(fsys.Stat(t.Context(), "f")),
			"FS anew":    second(wk.Sandbox().FS().Stat(t.Context(), "f")),
			"Start":      second(sb.Start(t.Context(), sandbox.Cmd{Argv: []string{"true"}})),
			"Start anew": second(wk.Sandbox().Start(t.Context(), sandbox.Cmd{Argv: []string{"true"}})),
			"a power":    links.Symlink(t.Context(), "f", "g"),
			"another":    attrs.Chmod(t.Context(), "f", 0o600),
			"a file":     second(open.Read(make([]byte, 1))),
			"changes":    last(changes),
		} {
			wantErr(t, what, err, sandbox.ErrClosed)
		}
		wantErr(t, "Context", context.Cause(wk.Context()), session.ErrClosed)
		w.wantOneMachine(s.ID)
		if got := read(t, r.mustWork(ann, inConversation(v.ID)), "f"); got != "x" {
			t.Errorf("the file reads %q", got)
		}
	})

	inWorld(t, "Close twice, or by several at once, returns the same report and settles once", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		_, v := r.spawn(ann)
		wk := r.mustWork(ann, inConversation(v.ID))
		time.Sleep(90 * time.Second)
		reports := make([]session.Report, 5)
		errs := together(5, func(i int) (err error) { reports[i], err = wk.Close(t.Context()); return err })
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
		for _, rep := range append(reports, closeWork(t, wk)) {
			if rep.Used != 90*time.Second || rep.Ended != reports[0].Ended || rep.Work != wk.ID() || rep.Cause != nil {
				t.Errorf("%+v", rep)
			}
		}
		if n := r.count("close"); n != 1 {
			t.Errorf("the handle was closed %d times", n)
		}
		w.gate.wantEndedOnce(t)
	})

	inWorld(t, "Close closes whether or not its context has ended, and tells what failed", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		_, v := r.spawn(ann)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wk := r.mustWork(ann, inConversation(v.ID))
		if _, err := wk.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		wk = r.mustWork(ann, inConversation(v.ID))
		time.Sleep(time.Second)
		r.fail("settle", 0, errOutage)
		rep, err := wk.Close(t.Context())
		wantErr(t, "Close that can't settle", err, errOutage)
		if rep.Used != 0 {
			t.Errorf("Used %v: it was not accounted for", rep.Used)
		}
		if n := r.count("free"); n != 0 || r.count("close") != 1 { // the lease says that something is left to account for
			t.Errorf("called %v", r.calls())
		}
		time.Sleep(2 * time.Minute)
		r.meddle(nil)
		r.slots(t)
		w.wantSlotsFree()
		w.gate.wantEndedOnce(t)
		if h := w.gate.all()[rep.Work]; h.used() != time.Second {
			t.Errorf("charged %v", h.used())
		}
	})
}

func second[T any](_ T, err error) error { return err }

// last is what a sequence ends with.
func last(changes iter.Seq2[sandbox.Change, error]) (end error) {
	for _, end = range changes {
	}
	return end
}
