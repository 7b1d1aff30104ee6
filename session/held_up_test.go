package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/session"
)

func TestHeldUpAuditHangs(t *testing.T) {
	inWorld(t, "an audit that hangs holds up nobody", immediate, func(t *testing.T, w *world) {
		free := make(chan struct{})
		hangs := false
		r := w.replica(func(c *session.Config) {
			c.Audit = func(context.Context, access.Event) {
				if hangs {
					<-free
				}
			}
		})
		s, _ := r.spawn(bob)
		wk := r.mustWork(bob, inSession(s.ID))
		hangs = true
		w.dir.RemoveMember("p", "bob")
		<-wk.Context().Done()
		time.AfterFunc(2*time.Hour, func() { close(free) })
		began := time.Now()
		wk.Close(t.Context())
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("Close took %v", took)
		}
		time.Sleep(3 * time.Hour)
	})
}

func TestHeldUpLongLeaseClose(t *testing.T) {
	inWorld(t, "a long lease and a gate that hangs", immediate, func(t *testing.T, w *world) {
		l := &dark{Ledger: w.db.Ledger()}
		r := w.replica(w.tilled(l, closed, perMicrosecond("", 1)), func(c *session.Config) { c.Lease, c.Hold = time.Hour, time.Hour })
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		time.Sleep(19 * time.Minute)
		l.hangs.Store(true)
		time.Sleep(2 * time.Minute)
		began := time.Now()
		_, err := wk.Close(t.Context())
		if took := time.Since(began); took > 31*time.Second {
			t.Errorf("Close took %v: %v", took, err)
		}
		l.hangs.Store(false)
	})
}

func TestHeldUpSlowOpening(t *testing.T) {
	inWorld(t, "an opening that took long", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		r.meddle(func(c string, _, nth int) trouble {
			if c == "admit" {
				return trouble{hold: func(context.Context) { time.Sleep(16 * time.Minute) }}
			}
			return trouble{}
		})
		wk := r.mustWork(ann, inSession(s.ID))
		r.meddle(nil)
		time.Sleep(time.Minute)
		if c := context.Cause(wk.Context()); c != nil {
			t.Errorf("stopped for %v", c)
		}
	})
}

func TestHeldUpStarved(t *testing.T) {
	inWorld(t, "one late work whose account hangs starves no other", immediate, func(t *testing.T, w *world) {
		bad := ""
		l := &dark{Ledger: w.db.Ledger()}
		r := w.replica(w.tilled(oneHangs{l, &bad}, closed, perMicrosecond("", 1)))
		a, _ := r.spawn(ann)
		b, _ := r.spawn(ann)
		w1 := r.mustWork(ann, inSession(a.ID))
		w2 := r.mustWork(ann, inSession(b.ID))
		time.Sleep(time.Second)
		bad = min(w1.ID(), w2.ID())
		l.down.Store(true)
		w1.Close(t.Context())
		w2.Close(t.Context())
		l.down.Store(false)
		for range 10 {
			time.Sleep(20 * time.Second)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			r.Serve(ctx)
			cancel()
		}
		if got := w.ran("ann"); got == 0 {
			t.Errorf("charged %v", got)
		}
	})
}

type oneHangs struct {
	billing.Ledger
	work *string
}

func (l oneHangs) Post(ctx context.Context, posts ...billing.Post) ([]billing.Posted, error) {
	if posts[0].Resource == *l.work && posts[0].Last {
		if d, ok := l.Ledger.(*dark); ok && !d.down.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	return l.Ledger.Post(ctx, posts...)
}
