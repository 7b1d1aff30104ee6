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
}

// A process that is killed with SIGKILL before or after any of its calls
// leaves nothing that the next one does not bring to its end: no process, no
// machine without a row, no row on its way, no lease. What was done stays done, and life goes on.
func TestKilledAtEveryStep(t *testing.T) {
	need.Long(t, "it starts two processes for each of some two hundred places to die at")
	program := host(t)
	for _, b := range []backend{onSQLite, onPostgres} {
		t.Run(b.name, func(t *testing.T) {
			var places []place
			for _, story := range slices.Sorted(maps.Keys(stories)) {
				whole := newWorld(t, program, b)
				p := whole.play(story, "", nil)
				if !p.done || len(p.places) < 6 {
					t.Fatalf("%s: not played to its end: %v", story, p.places)
				}
				for _, at := range p.places {
					places = append(places, place{story, at})
				}
			}
			draw := chance(t)
			workers := 3
			if b.name == onPostgres.name {
				workers = 8 // they wait for leases to run out
				if !*all {
					draw.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
					places = places[:min(len(places), sample)]
				}
			}
			t.Logf("%d places to die at", len(places))
			each(workers, places, func(p place) {
				t.Run(p.story+", "+p.at, func(t *testing.T) { dieAt(t, newWorld(t, program, b), p) })
			})
		})
	}
}

// sample is at how many places a process dies on Postgres by default.
const sample = 24

// place is where in a story to die.
type place struct{ story, at string }

func dieAt(t *testing.T, w *world, at place) {
	before := w.play(at.story, at.at, nil)
	if !before.killed || before.done || before.places[len(before.places)-1] != at.at {
		t.Fatalf("the process did not die there; it passed %v", before.places)
	}
	w.meet()
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

// A process that is killed at any moment inside a call of its provider leaves
// nothing either: not half a machine, not half a file.
func TestKilledAtRandomMoments(t *testing.T) {
	need.Long(t, "it starts two processes for each of many moments to die at")
	program := host(t)
	draw := chance(t)
	var moments []moment
	for _, story := range slices.Sorted(maps.Keys(stories)) {
		w := newWorld(t, program, onSQLite)
		var inside []string
		for _, at := range w.play(story, "", nil).places {
			call, _, _ := strings.Cut(at, " ")
			if strings.HasSuffix(at, " before") && slices.Contains([]string{"create", "attach", "inspect", "destroy", "start", "write", "close", "reap", "machines"}, call) {
				inside = append(inside, at)
			}
		}
		if len(inside) == 0 {
			t.Fatalf("%s calls no provider", story)
		}
		for range perStory(*all) {
			at := inside[draw.IntN(len(inside))]
			moments = append(moments, moment{place{story, at}, time.Duration(draw.Int64N(int64(longest(at))))})
		}
	}
	each(3, moments, func(m moment) {
		t.Run(m.story+", "+m.at+" + "+m.after.String(), func(t *testing.T) { dieIn(t, newWorld(t, program, onSQLite), m) })
	})
}

// perStory is how many moments there are in each story.
func perStory(all bool) int {
	if all {
		return 20
	}
	return 6
}

// moment is a while after a call was begun.
type moment struct {
	place
	after time.Duration
}

// longest is about how long a call takes: what starts processes takes longer.
func longest(at string) time.Duration {
	if strings.HasPrefix(at, "create") || strings.HasPrefix(at, "inspect") || strings.HasPrefix(at, "write") {
		return time.Millisecond
	}
	return 20 * time.Millisecond
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
