package sandbox_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// tombstoneCase is one pass over one entry of the outbox.
type tombstoneCase struct {
	t     sandbox.Tombstone
	facts sandbox.Facts
	live  sandbox.Incarnation
	found []sandbox.Found
}

// tombstoneTable is what must follow, asked from the host "here".
var tombstoneTable = []struct {
	says string
	when func(tombstoneCase) bool
	want sandbox.TombstoneStep
	kill bool // want.Kill are the others that were found
	err  error
}{
	{says: "another host can't tell", when: func(c tombstoneCase) bool { return c.t.Host == "there" }, err: sandbox.ErrWrongHost},
	{says: "what a row names as live is never killed", when: func(c tombstoneCase) bool {
		return c.t.Incarnation != "" && c.t.Incarnation == c.live
	}, err: sandbox.ErrNotAllowed},
	{says: "others are seen: kill them", when: func(c tombstoneCase) bool { return others(c) != nil }, kill: true},
	{says: "the first not-found since it entered the outbox", when: func(c tombstoneCase) bool {
		return c.t.AbsentSince.IsZero()
	}, want: sandbox.TombstoneStep{Absent: true}},
	{says: "less than the lag apart", when: func(c tombstoneCase) bool {
		return c.facts.Now.Sub(c.t.AbsentSince) < c.facts.Caps.Lag()
	}},
	{says: "a late create may still make one", when: func(c tombstoneCase) bool { return c.t.NotBefore.After(c.facts.Now) }},
	{says: "proof", when: func(tombstoneCase) bool { return true }, want: sandbox.TombstoneStep{Proven: true}},
}

// others are the machines the tombstone is about: the one it names, or all but the live one.
func others(c tombstoneCase) []sandbox.Incarnation {
	return sorted(c.found, func(m sandbox.Found) bool {
		if c.t.Incarnation != "" {
			return m.Incarnation == c.t.Incarnation
		}
		return c.live == "" || m.Incarnation != c.live
	})
}

func tombstoneCases(yield func(tombstoneCase)) {
	f := func(i sandbox.Incarnation) sandbox.Found {
		return sandbox.Found{Incarnation: i, Status: sandbox.StatusRunning}
	}
	for _, incarnation := range []sandbox.Incarnation{"", "i1"} {
		for _, host := range []string{"", "here", "there"} {
			for _, lag := range []time.Duration{sandbox.Immediate, time.Minute, 0} {
				caps := sandbox.Caps{VisibilityLag: lag}
				for _, absent := range []time.Time{{}, now.Add(tick - caps.Lag()), now.Add(-caps.Lag())} {
					for _, notBefore := range []time.Time{{}, now, now.Add(tick)} {
						for _, live := range []sandbox.Incarnation{"", "i1", "i2"} {
							for _, found := range [][]sandbox.Found{nil, {f("i1")}, {f("i2")}, {f("i3"), f("i2"), f("i1")}, {f("")}} {
								yield(tombstoneCase{
									t: sandbox.Tombstone{
										TombstoneKey: sandbox.TombstoneKey{Sandbox: "s", Generation: 7, Incarnation: incarnation},
										Host:         host, AbsentSince: absent, NotBefore: notBefore, Attempts: 4,
									},
									facts: sandbox.Facts{Now: now, Caps: caps}, live: live, found: found,
								})
							}
						}
					}
				}
			}
		}
	}
}

func TestDecideTombstoneTwin(t *testing.T) {
	cases := 0
	tombstoneCases(func(c tombstoneCase) {
		cases++
		seen := slices.Clone(c.found)
		got, err := sandbox.DecideTombstone(c.t, c.facts, c.live, "here", c.found)
		for _, e := range tombstoneTable {
			if !e.when(c) {
				continue
			}
			want := e.want
			if e.kill {
				want.Kill = others(c)
			}
			if !errors.Is(err, e.err) || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v; want %+v, %v\nin %+v", e.says, got, err, want, e.err, c)
			}
			break
		}
		if !slices.Equal(c.found, seen) {
			t.Errorf("the caller's slice was changed in %+v", c)
		}
		if c.live != "" && slices.Contains(got.Kill, c.live) { // above all
			t.Errorf("kills the live machine in %+v", c)
		}
	})
	if cases != 2*3*3*3*3*3*5 {
		t.Errorf("%d cases", cases)
	}
}

func TestDecideTombstoneNamesItsSubject(t *testing.T) {
	entry := sandbox.Tombstone{TombstoneKey: sandbox.TombstoneKey{Sandbox: "sandbox-1", Generation: 7, Incarnation: "i1"}, Host: "there"}
	for _, host := range []string{"here", "there"} {
		_, err := sandbox.DecideTombstone(entry, sandbox.Facts{Now: now}, "i1", host, nil)
		if err == nil || !strings.Contains(err.Error(), "sandbox-1") || !strings.Contains(err.Error(), "i1") {
			t.Errorf("from %s: %v", host, err)
		}
	}
}

// Two not-found answers count only with no sighting between: a pass that
// kills starts the proof anew.
func TestDecideTombstoneSightingStartsAnew(t *testing.T) { // T-30, T-33; rule 6
	entry := sandbox.Tombstone{TombstoneKey: sandbox.TombstoneKey{Sandbox: "s", Generation: 7, Incarnation: "i1"}}
	facts := sandbox.Facts{Now: now, Caps: sandbox.Caps{VisibilityLag: lag}}
	there := []sandbox.Found{{Incarnation: "i1", Status: sandbox.StatusRunning}}
	for n, pass := range []struct {
		wait  time.Duration
		found []sandbox.Found
		want  sandbox.TombstoneStep
	}{
		{0, nil, sandbox.TombstoneStep{Absent: true}},
		{lag, there, sandbox.TombstoneStep{Kill: []sandbox.Incarnation{"i1"}}},
		{lag, nil, sandbox.TombstoneStep{Absent: true}},
		{lag - 1, nil, sandbox.TombstoneStep{}},
		{1, nil, sandbox.TombstoneStep{Proven: true}},
	} {
		facts.Now = facts.Now.Add(pass.wait)
		got, err := sandbox.DecideTombstone(entry, facts, "", "", pass.found)
		if err != nil || !reflect.DeepEqual(got, pass.want) {
			t.Fatalf("pass %d: %+v, %v; want %+v", n, got, err, pass.want)
		}
		entry = entry.Marked(got, "").Stamped(facts.Now)
	}
	if entry.Attempts != 5 {
		t.Errorf("%d attempts after 5 passes", entry.Attempts)
	}
}

func TestDecideTombstoneMarked(t *testing.T) {
	old := sandbox.Tombstone{AbsentSince: now, Attempts: 2, LastError: "before"}
	for _, c := range []struct {
		name string
		step sandbox.TombstoneStep
		want time.Time
	}{
		{"a kill clears what spoke for absence", sandbox.TombstoneStep{Kill: []sandbox.Incarnation{"i1"}}, time.Time{}},
		{"a first not-found is dated by the store", sandbox.TombstoneStep{Absent: true}, later},
		{"too early leaves it", sandbox.TombstoneStep{}, now},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := old.Marked(c.step, "outage").Stamped(later)
			want := old
			want.Attempts, want.LastError, want.AbsentSince = 3, "outage", c.want
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

func TestDecideTombstoneStamped(t *testing.T) { // the clock rule
	dead := sandbox.Tombstone{NotBefore: now, Delay: time.Second, AbsentSince: now, Absent: true}
	want := sandbox.Tombstone{NotBefore: later.Add(time.Second), AbsentSince: later}
	if got := dead.Stamped(later); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := want.Stamped(later.Add(1)); got != want {
		t.Errorf("stamped again: %+v, want %+v", got, want)
	}
}
