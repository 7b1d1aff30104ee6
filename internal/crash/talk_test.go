//go:build linux

package crash

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bunkroom/bunkroom/internal/crash/talk"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// rehearsal is a story that was told to its end, and what was to be seen after each write.
type rehearsal struct {
	story    talk.Story
	calls    []string  // "commit 2"; the first is calls[1]
	steps    []int     // of each call
	pictures []picture // after each; the first is of before
	end      picture   // once what was deleted is purged
}

// rehearse tells a story, and takes the pictures.
func rehearse(s *shelf, story talk.Story) rehearsal {
	s.Helper()
	r := rehearsal{story: story, calls: []string{""}, steps: []int{0}}
	s.with(func(db talkDB) {
		desk := talk.Desk{Store: db.Transcripts(), Inbox: db.Inbox()}
		if err := story.Arrange(s.Context(), desk); err != nil {
			s.Fatal(err)
		}
		r.pictures = append(r.pictures, look(s.T, db))
		step, count := 0, map[string]int{}
		watched := talk.Watched(desk, func(ctx context.Context, call string, write func(context.Context) error) error {
			count[call]++
			r.calls, r.steps = append(r.calls, fmt.Sprint(call, " ", count[call])), append(r.steps, step)
			err := write(ctx)
			r.pictures = append(r.pictures, look(s.T, db))
			return err
		})
		for step = range story.Steps {
			if err := story.Steps[step].Do(s.Context(), watched); err != nil {
				s.Fatalf("step %d: %v", step, err)
			}
		}
		swept(s.T, db)
		r.end = look(s.T, db)
		clean(s.T, db)
	})
	return r
}

// told is what a process has told of a story before it died.
type toldTalk struct {
	places []string
	done   bool
	killed bool
}

// tell has a process tell a story, which dies at a place; empty = nowhere. watch may be nil.
func (s *shelf) tell(story, die string, watch func(p *process, place string)) (got toldTalk) {
	s.Helper()
	p := start(s.T, s.program, append([]string{"-talk", story, "-die", die}, s.args...)...)
	for {
		m, ok := p.next()
		if !ok {
			break
		}
		if got.done = got.done || m.Done; m.At == "" {
			continue
		}
		got.places = append(got.places, m.At)
		if watch != nil {
			watch(p, m.At)
		}
	}
	got.killed = p.wait()
	return got
}

// spot is a place in a rehearsal: which write it is at, and whether that is there by then.
func (r rehearsal) spot(p place) (write int, done, sure bool) {
	call, n, where := p.cut()
	write = slices.Index(r.calls, fmt.Sprint(call, " ", n))
	return write, where == "after", where != ""
}

// A process that is killed with SIGKILL before, after or inside any write to a
// transcript or an inbox, after each of its statements and before its COMMIT,
// leaves what there was after one of its writes, to the last row, and every write that was
// acknowledged: no half of anything (case 31, cases 5, 17, 26, 32, invariant 11). What is done
// again with the same ids is done once; or the next turn takes over, and closes what was left open, once.
func TestTalkKilledAtEveryStep(t *testing.T) {
	program := built(t)
	for _, b := range []backend{onSQLite, onPostgres} {
		t.Run(b.name, func(t *testing.T) {
			main := newShelf(t, program, b)
			rehearsals, places := map[string]rehearsal{}, []place{}
			for _, name := range slices.Sorted(maps.Keys(talk.Stories())) {
				r := rehearse(main, talk.Stories()[name])
				rehearsals[name] = r
				told := main.tell(name, "", nil)
				if !told.done || len(told.places) < 2*(len(r.calls)-1) {
					t.Fatalf("%s: not told to its end: %q", name, told.places)
				}
				main.with(func(db talkDB) {
					swept(t, db)
					if diff := differ(r.end, look(t, db)); diff != "" {
						t.Fatalf("%s is not the same when it is told again (-want +got)\n%s", name, diff)
					}
					clean(t, db)
				})
				for _, at := range told.places {
					places = append(places, place{name, at})
				}
			}
			draw := chance(t)
			of := len(places)
			switch {
			case *all:
			case testing.Short():
				places = drawn(draw, places, fewOfTalk)
			case b.name == onPostgres.name:
				places = drawn(draw, places, sample)
			default:
				places = drawn(draw, places, talkSample)
			}
			t.Logf("%d of %d places to die at", len(places), of)
			for _, p := range places {
				ways := []bool{draw.IntN(3) == 0}
				if *all {
					ways = []bool{false, true}
				}
				for _, takeOver := range ways {
					t.Run(fmt.Sprintf("%s, %s, taken over %t", p.story, p.at, takeOver), func(t *testing.T) {
						s := *main
						s.T = t
						dieTelling(&s, rehearsals[p.story], p, takeOver)
					})
				}
				if t.Failed() { // what is left of one would be taken for what the next leaves
					return
				}
			}
		})
	}
}

// At how many places a process dies by default on SQLite, and in a short run.
const (
	talkSample = 24
	fewOfTalk  = 8
)

func dieTelling(s *shelf, r rehearsal, p place, takeOver bool) {
	told := s.tell(p.story, p.at, nil)
	if !told.killed || told.done || told.places[len(told.places)-1] != p.at {
		s.Fatalf("the process did not die there; it passed %q", told.places)
	}
	write, done, _ := r.spot(p)
	left := write - 1
	if done {
		left = write
	}
	s.with(func(db talkDB) {
		if diff := differ(r.pictures[left], look(s.T, db)); diff != "" {
			s.Fatalf("what is left (-want +got)\n%s", diff)
		}
		s.goOn(db, r, write, left, takeOver)
	})
}

// goOn does again what was under way, or takes over from it.
func (s *shelf) goOn(db talkDB, r rehearsal, write, left int, takeOver bool) {
	s.Helper()
	r.tellsSince(s.T, db, left)
	if takeOver {
		for c, was := range r.pictures[left].Of {
			if was.Row.Status == transcript.Active {
				takesOver(s.T, db, c, was)
			}
		}
		clean(s.T, db)
		return
	}
	desk := talk.Desk{Store: db.Transcripts(), Inbox: db.Inbox()}
	for i, step := range r.story.Steps[r.steps[write]:] {
		err := step.Do(s.Context(), desk)
		if again := i == 0 && left == write; err != nil && (!again || step.Again == nil || !step.Again(err)) {
			s.Fatalf("step %d, done again %t: %v", r.steps[write]+i, again, err)
		}
	}
	swept(s.T, db)
	if diff := differ(r.end, look(s.T, db)); diff != "" {
		s.Fatalf("in the end (-want +got)\n%s", diff)
	}
	clean(s.T, db)
}

// tellsSince expects that who knows of any earlier moment is told of exactly what has happened since.
func (r rehearsal) tellsSince(t *testing.T, db talkDB, left int) {
	t.Helper()
	for c, is := range r.pictures[left].Of {
		for _, earlier := range r.pictures[:left+1] {
			was, there := earlier.Of[c]
			if !there || was.Row.CreatedAt != is.Row.CreatedAt { // another of that name
				continue
			}
			page, err := db.Transcripts().Since(t.Context(), c, was.Row.LastSeq, transcript.MaxListed)
			if err != nil {
				t.Fatal(err)
			}
			news := slices.DeleteFunc(slices.Clone(is.Facts), func(f transcript.Fact) bool { return f.Seq <= was.Row.LastSeq })
			if diff := cmp.Diff(news, page.Facts, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s since %d (-want +got)\n%s", c, was.Row.LastSeq, diff)
			}
			if kept := is.Facts[:len(is.Facts)-len(news)]; len(kept) != len(was.Facts) {
				t.Errorf("%s: of %d facts there were, %d are told", c, len(was.Facts), len(kept))
			}
		}
	}
}

// A process that is killed at any moment, in the midst of a COMMIT too, leaves
// either what there was before the write under way, or all of it.
func TestTalkKilledAtRandomMoments(t *testing.T) {
	program := built(t)
	for _, b := range []backend{onSQLite, onPostgres} {
		t.Run(b.name, func(t *testing.T) {
			main := newShelf(t, program, b)
			draw := chance(t)
			for _, name := range slices.Sorted(maps.Keys(talk.Stories())) {
				r := rehearse(main, talk.Stories()[name])
				n := 1
				if *all {
					n = 8
				}
				for range n {
					write := 1 + draw.IntN(len(r.calls)-1)
					after := time.Duration(draw.Int64N(int64(2 * time.Millisecond)))
					t.Run(fmt.Sprintf("%s, %s + %s", name, r.calls[write], after), func(t *testing.T) {
						s := *main
						s.T = t
						dieSomewhere(&s, name, r, r.calls[write]+" before", after, draw)
					})
					if t.Failed() {
						return
					}
				}
			}
		})
	}
}

func dieSomewhere(s *shelf, name string, r rehearsal, from string, after time.Duration, draw *rand.Rand) {
	told := s.tell(name, "", func(p *process, at string) {
		if at != from {
			return
		}
		ctx, cancel := context.WithTimeout(s.Context(), after)
		defer cancel()
		<-ctx.Done()
		if err := p.cmd.Process.Kill(); err != nil {
			s.Errorf("not killed: %v", err)
		}
	})
	if !told.killed && !told.done {
		s.Fatal("the process ended by itself before its time")
	}
	write, done, _ := r.spot(place{name, told.places[len(told.places)-1]})
	s.with(func(db talkDB) {
		is := look(s.T, db)
		left := write
		if diff := differ(r.pictures[write], is); diff != "" {
			left = write - 1
			if before := differ(r.pictures[write-1], is); done || before != "" {
				s.Fatalf("after %q there is neither what was before (-want +got)\n%s\nnor what was to be\n%s", told.places, before, diff)
			}
		}
		s.goOn(db, r, write, left, draw.IntN(2) == 0)
	})
}
