package mount

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

const renewed Prefix = "mounts/project%3aweb/0192f0c1-2ab4-7cde-8f01-23456789abcd/"

// mint is a signer of a storage whose credentials live for a while.
type mint struct {
	life time.Duration

	mu    sync.Mutex
	sign  func(ctx context.Context, n int) error // what becomes of the n-th call; nil = it succeeds
	calls int
}

func (m *mint) Sign(ctx context.Context, g Grant) (Credentials, error) {
	m.mu.Lock()
	m.calls++
	n, sign := m.calls, m.sign
	m.mu.Unlock()
	if sign != nil {
		if err := sign(ctx, n); err != nil {
			return Credentials{}, err
		}
	}
	return Credentials{
		Bucket: "b", Prefix: g.Prefix, AccessKey: "key", SecretKey: "hush", Expires: time.Now().Add(m.life),
	}, nil
}

func (m *mint) set(sign func(ctx context.Context, n int) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sign = sign
}

// installed is where credentials are put, and what was observed.
type installed struct {
	t *testing.T

	mu      sync.Mutex
	fail    error
	at      []time.Time
	expires time.Time // of those there now
	gap     bool      // at some install those before had expired
	seen    []Renewal
}

func (p *installed) install(_ context.Context, c Credentials, report time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return p.fail
	}
	if !report.After(time.Now()) || !report.Before(c.Expires) {
		p.t.Errorf("at %v credentials that expire at %v are reported to at %v", time.Now(), c.Expires, report)
	}
	p.gap = p.gap || !p.expires.IsZero() && !time.Now().Before(p.expires)
	p.at, p.expires = append(p.at, time.Now()), c.Expires
	return nil
}

func (p *installed) observe(r Renewal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r)
}

func (p *installed) failing(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = err
}

// nap lets time pass, and what is due in it happen.
func nap(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// renewing runs fn in a bubble with a renewer that has started, and checks
// that nothing of it is left at the end.
func renewing(t *testing.T, life time.Duration, fn func(t *testing.T, m *mint, p *installed, r *Renewer)) {
	synctest.Test(t, func(t *testing.T) {
		m, p := &mint{life: life}, &installed{t: t}
		r, err := NewRenewer(RenewerConfig{Signer: m, Grant: Grant{Prefix: renewed}, Install: p.install, Observe: p.observe})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := r.Start(t.Context()); err != nil || c.Bucket != "b" {
			t.Fatalf("Start = %v, %v", c, err)
		}
		fn(t, m, p, r)
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Errorf("stopped twice: %v", err)
		}
		n := m.calls
		nap(24 * time.Hour)
		if m.calls != n {
			t.Error("it goes on after Stop")
		}
	})
}

func TestRenewerRefusesByField(t *testing.T) {
	whole := RenewerConfig{
		Signer: &mint{}, Grant: Grant{Prefix: renewed},
		Install: func(context.Context, Credentials, time.Time) error { return nil },
	}
	for field, spoil := range map[string]func(*RenewerConfig){
		"Signer":       func(c *RenewerConfig) { c.Signer = nil },
		"Grant.Prefix": func(c *RenewerConfig) { c.Grant.Prefix = "" },
		"Install":      func(c *RenewerConfig) { c.Install = nil },
	} {
		c := whole
		spoil(&c)
		r, err := NewRenewer(c)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != field || r != nil {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Case 37, the renewer's part: over many lives there is no moment without
// credentials that are good, and one minting for each life.
func TestRenewerOutlivesTheCredentials(t *testing.T) {
	for _, life := range []time.Duration{5 * time.Second, 15 * time.Minute, 12 * time.Hour} {
		renewing(t, life, func(t *testing.T, m *mint, p *installed, r *Renewer) {
			for range 300 {
				nap(life / 100)
				if s := r.State(); s.Degraded || s.Expired || !r.Expires().After(time.Now()) {
					t.Fatalf("life %v: %+v at %v", life, s, time.Now())
				}
			}
			if p.gap || len(p.at) < 4 || len(p.at) != m.calls || len(p.at) > 13 {
				t.Errorf("life %v: installed at %v, minted %d times", life, p.at, m.calls)
			}
			if s := r.State(); s.Generation != int64(m.calls) || !s.Lease.Expires.Equal(p.expires) {
				t.Errorf("life %v: the books say %+v", life, s)
			}
		})
	}
}

// Trap 52: what was minted and not installed is not in the books.
func TestRenewerGoesByWhatIsInstalled(t *testing.T) {
	renewing(t, 15*time.Minute, func(t *testing.T, m *mint, p *installed, r *Renewer) {
		first := r.Expires()
		full := errors.New("no space left")
		p.failing(full)
		nap(8*time.Minute + time.Second)
		s := r.State()
		if m.calls < 2 || !r.Expires().Equal(first) || s.Generation != 1 || s.Failed == 0 || !errors.Is(s.Err, full) {
			t.Errorf("after %d mintings: %+v, first %v", m.calls, s, first)
		}
		p.failing(nil)
		nap(15 * time.Second)
		if s := r.State(); !s.Lease.Expires.After(first) || s.Failed != 0 || s.Err != nil || s.Generation != int64(m.calls) {
			t.Errorf("after the place works again: %+v", s)
		}
	})
}

// A minter that is down for a while is asked again, at first after 1 s and
// never less often than each 15 s; who watches hears of it before anything expires.
func TestRenewerTellsBeforeTheyExpire(t *testing.T) {
	renewing(t, 15*time.Minute, func(t *testing.T, m *mint, p *installed, r *Renewer) {
		down := errors.New("no answer")
		var asked []time.Time
		m.set(func(context.Context, int) error { asked = append(asked, time.Now()); return down })
		first := r.State().Lease
		nap(time.Until(first.Expires) + time.Minute)
		if !asked[0].Equal(first.Renew) || asked[1].Sub(asked[0]) != time.Second {
			t.Errorf("asked at %v, %v; renewal was due at %v", asked[0], asked[1], first.Renew)
		}
		for i := range asked[1:] {
			if asked[i+1].Sub(asked[i]) > 15*time.Second {
				t.Errorf("not asked from %v to %v", asked[i], asked[i+1])
			}
		}
		var degraded, expired bool
		for _, s := range p.seen {
			degraded = degraded || s.Degraded && !s.Expired && errors.Is(s.Err, down)
			expired = expired || s.Expired
			if s.Expired && !degraded {
				t.Error("they expired before anybody was told")
			}
		}
		if s := r.State(); !degraded || !expired || !s.Degraded || !s.Expired {
			t.Errorf("told of degraded %v, of expired %v; now %+v", degraded, expired, s)
		}
		m.set(nil)
		nap(15 * time.Second)
		last := p.seen[len(p.seen)-1]
		if s := r.State(); s.Degraded || s.Expired || last.Degraded || last.Expired || last.Failed != 0 {
			t.Errorf("after the minter is back: %+v, told %+v", s, last)
		}
	})
}

// Trap 50: a minter that hangs takes its 10 s and no more, and whatever it
// says later is of no account.
func TestRenewerDoesNotWaitForASlowMinter(t *testing.T) {
	renewing(t, 15*time.Minute, func(t *testing.T, m *mint, p *installed, r *Renewer) {
		var asked []time.Time
		m.set(func(ctx context.Context, n int) error {
			asked = append(asked, time.Now())
			if n == 2 {
				time.Sleep(3 * time.Minute) // it ignores ctx
				return nil
			}
			return nil
		})
		nap(time.Until(r.State().Lease.Renew) + 10*time.Second)
		if s := r.State(); s.Failed != 1 || !errors.Is(s.Err, ErrUnavailable) {
			t.Errorf("after 10 s: %+v", s)
		}
		nap(time.Second)
		if s := r.State(); s.Generation != 3 || len(asked) != 2 || asked[1].Sub(asked[0]) != 11*time.Second {
			t.Errorf("asked at %v: %+v", asked, s)
		}
		want := r.Expires()
		nap(3 * time.Minute)
		if s := r.State(); s.Generation != 3 || !r.Expires().Equal(want) || len(p.at) != 2 {
			t.Errorf("the late answer has been installed: %+v", s)
		}
	})
}

// What is no usable answer installs nothing, and leaves nothing running.
func TestRenewerFailsClosed(t *testing.T) {
	for _, c := range []struct {
		rule  string
		spoil func(*Credentials)
		want  string
	}{
		{"credentials that never expire", func(c *Credentials) { c.Expires = time.Time{} }, "don't say when they expire"},
		{"that have expired", func(c *Credentials) { c.Expires = time.Now().Add(-time.Second) }, "expired at"},
		{"for another folder", func(c *Credentials) { c.Prefix += "x/" }, "are for"},
		{"without a key", func(c *Credentials) { c.SecretKey = "" }, "no keys"},
		{"without a bucket", func(c *Credentials) { c.Bucket = "" }, "no bucket"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &installed{t: t}
			r, err := NewRenewer(RenewerConfig{Signer: spoiled{&mint{life: time.Hour}, c.spoil}, Grant: Grant{Prefix: renewed}, Install: p.install})
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Start(t.Context())
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") || len(p.at) != 0 {
				t.Errorf("%s: %v, installed at %v", c.rule, err, p.at)
			}
			if !r.Expires().IsZero() {
				t.Errorf("%s: expires %v", c.rule, r.Expires())
			}
			if _, err := r.Start(t.Context()); err == nil {
				t.Errorf("%s: started twice", c.rule)
			}
		})
	}
}

// spoiled is a signer whose answers are not what they should be.
type spoiled struct {
	Signer
	spoil func(*Credentials)
}

func (s spoiled) Sign(ctx context.Context, g Grant) (Credentials, error) {
	c, err := s.Signer.Sign(ctx, g)
	s.spoil(&c)
	return c, err
}

// Who gives up waiting for the first credentials has its own error, and a
// panic of the signer is an error and not the end of the host.
func TestRenewerStartEndsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			rule string
			sign func(ctx context.Context, n int) error
			want string
		}{
			{"the caller's context ends", func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }, context.Canceled.Error()},
			{"the signer panics", func(context.Context, int) error { panic("boom") }, "signer panicked: boom"},
		} {
			m, p := &mint{life: time.Hour, sign: c.sign}, &installed{t: t}
			r, err := NewRenewer(RenewerConfig{Signer: m, Grant: Grant{Prefix: renewed}, Install: p.install})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, err := r.Start(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.rule, err)
			}
			if err := r.Stop(t.Context()); err != nil {
				t.Errorf("%s: %v", c.rule, err)
			}
		}
	})
}

// Stop waits for an install that is under way, so that afterwards the place may be removed.
func TestRenewerStopWaitsForTheInstall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		var busy atomic.Bool
		install := func(context.Context, Credentials, time.Time) error {
			if n.Add(1) == 2 {
				busy.Store(true)
				time.Sleep(5 * time.Second) // it ignores its context
				busy.Store(false)
			}
			return nil
		}
		r, err := NewRenewer(RenewerConfig{Signer: &mint{life: 15 * time.Minute}, Grant: Grant{Prefix: renewed}, Install: install})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		nap(8*time.Minute + time.Second)
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Stop(hurried); !errors.Is(err, context.DeadlineExceeded) || !busy.Load() {
			t.Errorf("Stop while installing = %v", err)
		}
		if err := r.Stop(t.Context()); err != nil || busy.Load() || n.Load() != 2 {
			t.Errorf("Stop = %v, still installing: %v, installs: %d", err, busy.Load(), n.Load())
		}
	})
}

// A machine that slept, or whose clock was set, has not waited as long as its
// timers think: what is due by the clock is done within a minute, and a clock
// that is set back makes nothing expire.
func TestRenewerGoesByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var jump atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }
		p := &installed{t: t}
		signer := mintFunc(func(g Grant) Credentials {
			return Credentials{Bucket: "b", Prefix: g.Prefix, AccessKey: "key", SecretKey: "hush", Expires: now().Add(12 * time.Hour)}
		})
		var installs atomic.Int64
		r, err := NewRenewer(RenewerConfig{
			Signer: signer, Grant: Grant{Prefix: renewed}, Now: now, Observe: p.observe,
			Install: func(_ context.Context, c Credentials, report time.Time) error {
				if !report.After(now()) || !report.Before(c.Expires) {
					t.Errorf("reported %v, expires %v, now %v", report, c.Expires, now())
				}
				installs.Add(1)
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		nap(time.Hour)
		jump.Store(int64(100 * time.Hour)) // it slept: what is installed has expired
		if s := r.State(); !s.Expired || installs.Load() != 1 {
			t.Errorf("just awake: %+v after %d installs", s, installs.Load())
		}
		nap(time.Minute)
		if s := r.State(); s.Expired || s.Degraded || installs.Load() != 2 {
			t.Errorf("a minute later: %+v after %d installs", s, installs.Load())
		}
		jump.Store(0)
		nap(time.Hour)
		if s := r.State(); s.Expired || s.Degraded || s.Failed != 0 || installs.Load() != 2 {
			t.Errorf("after the clock was set back: %+v after %d installs", s, installs.Load())
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// mintFunc is a signer that never fails.
type mintFunc func(Grant) Credentials

func (f mintFunc) Sign(_ context.Context, g Grant) (Credentials, error) { return f(g), nil }
