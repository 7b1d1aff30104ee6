package mount

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The figures of the plan (trap 52 needs one), for the lives that storages give.
func TestLeaseOf(t *testing.T) {
	t0 := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		rule                     string
		life, late               time.Duration // late: from issued to now
		renew, degraded, reports time.Duration // after issued
	}{
		{"twelve hours: two minutes early, ten minutes ahead", 12 * time.Hour, 0, 12*time.Hour - 12*time.Minute, 12*time.Hour - 4*time.Minute - 30*time.Second, 12*time.Hour - 2*time.Minute},
		{"a quarter of an hour: a sixth is more than two minutes, a third five", 15 * time.Minute, 0, 8 * time.Minute, 11*time.Minute + 45*time.Second, 13 * time.Minute},
		{"six minutes: a sixth and a third", 6 * time.Minute, 0, 3 * time.Minute, 4*time.Minute + 30*time.Second, 5 * time.Minute},
		{"two and a half minutes: 30 s early, a minute ahead", 150 * time.Second, 0, time.Minute, 105 * time.Second, 2 * time.Minute},
		{"two minutes: the bounds just fit", 2 * time.Minute, 0, 30 * time.Second, 75 * time.Second, 90 * time.Second},
		{"five seconds: the bounds shrink", 5 * time.Second, 0, 1250 * time.Millisecond, 3125 * time.Millisecond, 3750 * time.Millisecond},
		{"what came late is used for a while all the same", 15 * time.Minute, 14 * time.Minute, 14*time.Minute + 15*time.Second, 14*time.Minute + 37500*time.Millisecond, 14*time.Minute + 45*time.Second},
	} {
		l, ok := LeaseOf(t0, t0.Add(c.life), t0.Add(c.late))
		got := []time.Duration{l.Renew.Sub(t0), l.Degraded.Sub(t0), l.Reported.Sub(t0), l.Expires.Sub(t0)}
		for i, want := range []time.Duration{c.renew, c.degraded, c.reports, c.life} {
			if !ok || got[i] != want {
				t.Errorf("%s: %v, %v; want renewal at %v, degraded at %v, reported %v", c.rule, got, ok, c.renew, c.degraded, c.reports)
				break
			}
		}
	}
	for _, c := range []struct {
		rule string
		left time.Duration
	}{{"what has expired can't be used", -time.Hour}, {"nor what expires now", 0}} {
		now := t0.Add(time.Hour)
		if l, ok := LeaseOf(t0, now.Add(c.left), now); ok || !l.Renew.Equal(now) {
			t.Errorf("%s: %+v, %v", c.rule, l, ok)
		}
	}
}

// Any three moments have a plan: renewed before reported before refused,
// nothing in the past, and two whole attempts before the reported expiry even
// where each takes all the time it may.
func TestLeaseOfAnyMoments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		moment := func(name string) time.Time {
			return time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, name), rapid.Int64Range(0, 999_999_999).Draw(t, name+" ns"))
		}
		issued, now := moment("issued"), moment("now")
		expires := moment("expires")
		if rapid.Bool().Draw(t, "near") {
			now = issued.Add(time.Duration(rapid.Int64Range(-1e9, 1e12).Draw(t, "late")))
			expires = now.Add(time.Duration(rapid.Int64Range(-1e9, 1e14).Draw(t, "left")))
		}
		l, ok := LeaseOf(issued, expires, now)
		if ok != (expires.Sub(now) >= leastLife) || l.Renew.Before(now) || l.Reported.Before(now) || !l.Expires.Equal(expires) {
			t.Fatalf("issued %v, expires %v, now %v: %+v, %v", issued, expires, now, l, ok)
		}
		if !ok {
			return
		}
		if !l.Renew.Before(l.Degraded) || !l.Degraded.Before(l.Reported) || !l.Reported.Before(l.Expires) || !l.Renew.After(now) {
			t.Fatalf("out of order: %+v at %v", l, now)
		}
		second := l.Renew.Add(l.Try + l.Backoff(1)) // minting took all its time
		if l.Try <= 0 || second.Add(l.Try).After(l.Reported) {
			t.Fatalf("the second attempt ends after %v: %+v", l.Reported, l)
		}
		if longest := l.Backoff(1000); l.Backoff(1) > longest || longest > 15*time.Second || longest <= 0 {
			t.Fatalf("waits from %v to %v", l.Backoff(1), longest)
		}
	})
}
