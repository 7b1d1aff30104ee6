//go:build linux

package crash

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/session"
)

const kept = "kept\n" // what work leaves in its file

// stories are those the host's program knows, with what the next process must
// find in each session if the one before had made the calls that passed tells of.
var stories = map[string]func(passed func(call string) bool) []visit{
	"provision": func(passed func(string) bool) []visit {
		v := visit{Lived: passed("create 1")}
		if passed("write 1") {
			v.Kept = kept
		}
		return []visit{v}
	},
	"work": func(func(string) bool) []visit { return []visit{{Lived: true, Kept: kept}} },
	"end": func(passed func(string) bool) []visit {
		if passed("commit 1") {
			return []visit{{}}
		}
		return []visit{{Lived: true, Kept: kept}}
	},
	"reclaim": func(func(string) bool) []visit { return []visit{{}, {Gone: true}, {Lived: true}, {}} },
	"delete environment": func(passed func(string) bool) []visit {
		if passed("commit 1") {
			return []visit{{Gone: true}}
		}
		return []visit{{Lived: true, Kept: kept}}
	},
	"purge of a session":                  func(func(string) bool) []visit { return []visit{{Gone: true}} },
	"purge of a project with its history": func(func(string) bool) []visit { return []visit{{Gone: true}, {Gone: true}} },
	"sweep":                               func(func(string) bool) []visit { return nil },

	theTurn: func(func(string) bool) []visit { return []visit{{Lived: true, Kept: kept}} },

	"storage": func(passed func(string) bool) []visit {
		if passed("commit 1") {
			return []visit{{}}
		}
		return []visit{{Lived: true, Kept: kept}}
	},

	"beats":                   func(func(string) bool) []visit { return []visit{{Lived: true, Kept: kept}} },
	"out of credit":           func(func(string) bool) []visit { return []visit{{Lived: true, Kept: kept}} },
	"no machine":              func(func(string) bool) []visit { return []visit{{}} },
	"abandoned":               func(func(string) bool) []visit { return []visit{{Lived: true, Kept: kept}} },
	"expired, then abandoned": func(func(string) bool) []visit { return []visit{{Lived: true, Kept: kept}} },
}

// A process that is killed with SIGKILL before or after any of its calls, or
// inside a transaction of its ledger, leaves nothing that the next one does not
// bring to its end: no process, no machine without a row, no row on its way, no
// lease, no hold. What was done stays done, what was used is charged once (T-61,
// T-62, T-63, T-66, T-71, case 61), what was stored too, and life goes on.
func TestKilledAtEveryStep(t *testing.T) {
	need.Long(t, "it starts two processes for each of some four hundred places to die at")
	program := host(t)
	for _, b := range []backend{onSQLite, onPostgres} {
		t.Run(b.name, func(t *testing.T) {
			var places, money []place
			for _, story := range slices.Sorted(maps.Keys(stories)) {
				whole := newWorld(t, program, b)
				p := whole.play(story, "", nil)
				if !p.done || len(p.places) < 6 {
					t.Fatalf("%s: not played to its end: %v", story, p.places)
				}
				for _, at := range p.places {
					switch at := (place{story, at}); {
					case !at.sure():
					case at.ofMoney():
						money = append(money, at)
					default:
						places = append(places, at)
					}
				}
			}
			draw := chance(t)
			workers := 4
			few := moneySample
			if b.name == onPostgres.name {
				workers = 8 // they wait for leases to run out
				few = fewOfMoney
				if !*all {
					places = drawn(draw, places, sample)
				}
			}
			of := len(money)
			if !*all {
				money = drawn(draw, money, few)
			}
			t.Logf("%d places to die at, and %d of %d of money", len(places), len(money), of)
			places = slices.Concat(places, money)
			each(workers, places, func(p place) {
				t.Run(p.story+", "+p.at, func(t *testing.T) { dieAt(t, newWorld(t, program, b), p) })
			})
		})
	}
}

// At how many places a process dies by default: on Postgres, and more of
// money; and on SQLite of money.
const (
	sample      = 24
	fewOfMoney  = 16
	moneySample = 64
)

func dieAt(t *testing.T, w *world, at place) {
	before := w.play(at.story, at.at, nil)
	if !before.killed || before.done || before.places[len(before.places)-1] != at.at {
		t.Fatalf("the process did not die there; it passed %v", before.places)
	}
	w.meet()
	if at.story == theTurn {
		w.leftRunning(before)
	}
	got := w.recover(at.story, before)
	w.conversationsStay(at.story, before.scene)
	if diff := cmp.Diff(want(at.story, before), got); diff != "" {
		t.Errorf("the sessions (-want +got)\n%s", diff)
	}
}

// want are the visits that a play must lead to.
func want(story string, before play) []visit {
	visits := stories[story](before.passed)
	for i, id := range before.scene.Sessions {
		visits[i].Session = id
	}
	return visits
}

// conversationsStay fails the test if one is lost; or if one is left where
// their end is what the story is about.
func (w *world) conversationsStay(story string, sc scene) {
	w.t.Helper()
	for _, id := range sc.Conversations {
		_, err := w.sessions.Load(w.t.Context(), session.Address{Conversation: id})
		if purged := strings.HasSuffix(story, "with its history"); purged != errors.Is(err, session.ErrNotFound) || !purged && err != nil {
			w.t.Errorf("conversation %s: %v", id, err)
		}
	}
}

// each calls f for all values, on so many goroutines.
func each[T any](workers int, values []T, f func(T)) {
	todo := make(chan T)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for v := range todo {
				f(v)
			}
		})
	}
	for _, v := range values {
		todo <- v
	}
	close(todo)
	running.Wait()
}

// A process that is killed at any moment inside a call of its provider, or
// while work is under way, leaves nothing either: not half a machine, not half
// a file, and no time that is charged twice or never.
func TestKilledAtRandomMoments(t *testing.T) {
	need.Long(t, "it starts two processes for each of many moments to die at")
	program := host(t)
	draw := chance(t)
	var moments []moment
	for _, story := range slices.Sorted(maps.Keys(stories)) {
		w := newWorld(t, program, onSQLite)
		var inside []string
		for _, at := range w.play(story, "", nil).places {
			if at := (place{story, at}); at.sure() && at.begins() {
				inside = append(inside, at.at)
			}
		}
		if len(inside) == 0 {
			t.Fatalf("%s calls no provider", story)
		}
		for range perStory(story, *all) {
			at := place{story, inside[draw.IntN(len(inside))]}
			moments = append(moments, moment{at, time.Duration(draw.Int64N(int64(at.lasts())))})
		}
	}
	each(4, moments, func(m moment) {
		t.Run(m.story+", "+m.at+" + "+m.after.String(), func(t *testing.T) { dieIn(t, newWorld(t, program, onSQLite), m) })
	})
}

// perStory is how many moments there are in a story.
func perStory(story string, all bool) int {
	_, told := certain[story]
	switch {
	case all:
		return 20
	case told: // it takes long
		return 3
	}
	return 6
}

// moment is a while after a call was begun.
type moment struct {
	place
	after time.Duration
}

func dieIn(t *testing.T, w *world, m moment) {
	before := w.play(m.story, "", func(p *process, at string) {
		if at != m.at {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), m.after)
		defer cancel()
		<-ctx.Done()
		if err := p.cmd.Process.Kill(); err != nil {
			t.Errorf("not killed: %v", err)
		}
	})
	if !before.killed && !before.done {
		t.Fatal("the process ended by itself before its time")
	}
	w.meet()
	// Half a machine is kept for an hour, for somebody may be making it.
	half, err := filepath.Glob(filepath.Join(w.root, "new", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range half {
		if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-2*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	got := w.recover(m.story, before)
	w.conversationsStay(m.story, before.scene)
	wanted := want(m.story, before)
	for i := range wanted {
		last := before.places[len(before.places)-1]
		if strings.HasPrefix(last, "create") && i < len(got) { // it may have been made or not
			wanted[i].Lived = got[i].Lived
		}
		if strings.HasPrefix(last, "write") && i < len(got) && got[i].Kept == kept {
			wanted[i].Kept = kept // whole, or not there
		}
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("it passed %v; the sessions (-want +got)\n%s", before.places, diff)
	}
}
