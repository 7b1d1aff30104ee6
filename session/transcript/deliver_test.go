package transcript_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/session/transcript"
)

var midday = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// waits is an input that came as the n-th, with what its word says beside its lane.
func waits(n int64, lane transcript.Lane, more ...func(*transcript.Input)) transcript.Input {
	in := transcript.Input{
		NewInput: transcript.NewInput{Entry: transcript.NewEntry{ID: transcript.EntryID(fmt.Sprint(n)), Kind: transcript.KindUser}, Lane: lane},
		State:    transcript.InputPending, Version: 1, Order: n << 20, Admitted: n, NotBefore: midday.Add(-time.Hour),
	}
	for _, f := range more {
		f(&in)
	}
	return in
}

func later(in *transcript.Input)     { in.NotBefore = midday.Add(1) }
func expired(in *transcript.Input)   { in.Expires = midday }
func first(in *transcript.Input)     { in.Order = 0 }
func takenBack(in *transcript.Input) { in.CancelAsked = true }
func done(in *transcript.Input)      { in.State = transcript.InputPromoted }
func claimedBy(fence int64) func(*transcript.Input) {
	return func(in *transcript.Input) { in.State, in.Fence = transcript.InputClaimed, fence }
}

const (
	steer   = transcript.LaneSteer
	follow  = transcript.LaneFollowUp
	synth   = transcript.LaneSynthetic
	barrier = transcript.LaneBarrier
)

func TestDeliver(t *testing.T) {
	step := transcript.Boundary{Cutoff: 100, Fence: 5, Now: midday}
	stop, single, held, cut := step, step, step, step
	stop.Stop, single.Single, held.Held, cut.Cutoff = true, true, true, 2
	held.Stop, cut.Stop = true, true
	type inputs = []transcript.Input
	for _, c := range []struct {
		rule   string
		inputs inputs
		at     transcript.Boundary
		want   string
	}{
		{"Where nothing waits, nothing is delivered.", nil, stop, "[]"},
		{"Between two steps all steers and synthetic inputs are delivered, in their order.", inputs{waits(3, steer), waits(1, synth), waits(2, steer)}, step, "[1 2 3]"},
		{"One at a time, it is the first of them.", inputs{waits(3, steer), waits(1, synth), waits(2, steer)}, single, "[1]"},
		{"What was moved goes where it was moved to.", inputs{waits(1, steer), waits(2, steer, first)}, step, "[2 1]"},
		{"A follow-up waits for the stop. (case 30)", inputs{waits(1, follow)}, step, "[]"},
		{"At a stop there is one follow-up.", inputs{waits(2, follow), waits(1, follow)}, stop, "[1]"},
		{"At a stop a steer goes before follow-ups, whenever it came.", inputs{waits(1, follow), waits(2, steer)}, stop, "[2]"},
		{"A steer that waits while nothing goes on is delivered at once. (rule 11)", inputs{waits(1, steer)}, stop, "[1]"},
		{"Of what comes after the cutoff nothing is delivered.", inputs{waits(1, steer), waits(2, steer), waits(3, steer)}, cut, "[1 2]"},
		{"A steer after the cutoff does not keep back a follow-up from before it.", inputs{waits(1, follow), waits(3, steer)}, cut, "[1]"},
		{"Held, nothing is delivered.", inputs{waits(1, steer), waits(2, follow), waits(3, barrier)}, held, "[]"},
		{"A barrier is done alone, once no steer from before it waits.", inputs{waits(1, steer), waits(2, barrier), waits(3, steer)}, step, "[1]"},
		{"A barrier is done between two steps, before follow-ups.", inputs{waits(1, follow), waits(2, barrier), waits(3, steer)}, step, "[2]"},
		{"What came after a barrier waits for it, even where that is not ready.", inputs{waits(1, barrier, later), waits(2, steer), waits(3, follow)}, stop, "[]"},
		{"What came before a barrier that is not ready is delivered.", inputs{waits(1, follow), waits(2, barrier, later), waits(3, steer)}, stop, "[1]"},
		{"Of two barriers the first bars the second.", inputs{waits(2, barrier), waits(1, barrier, later)}, stop, "[]"},
		{"A barrier that was moved bars what came after it.", inputs{waits(1, barrier), waits(2, steer, first)}, step, "[1]"},
		{"A barrier whose time is over bars nothing.", inputs{waits(1, barrier, expired), waits(2, steer)}, step, "[2]"},
		{"A barrier that was done bars nothing.", inputs{waits(1, barrier, done), waits(2, steer)}, step, "[2]"},
		{"A barrier that this turn prepares is this turn's, and bars.", inputs{waits(1, barrier, claimedBy(5)), waits(2, steer)}, step, "[1]"},
		{"A barrier that was taken back while it is prepared bars until that is given up.", inputs{waits(1, barrier, claimedBy(5), takenBack), waits(2, steer)}, step, "[]"},
		{"A barrier that was taken back from a turn that is no more bars nothing.", inputs{waits(1, barrier, claimedBy(4), takenBack), waits(2, steer)}, step, "[2]"},
		{"What waits for its time is not delivered before.", inputs{waits(1, steer, later), waits(2, steer)}, step, "[2]"},
		{"What has expired is not delivered.", inputs{waits(1, steer, expired), waits(2, follow)}, stop, "[2]"},
		{"What was taken back is not delivered.", inputs{waits(1, steer, claimedBy(5), takenBack)}, step, "[]"},
		{"What this turn or an older one has claimed is delivered.", inputs{waits(1, steer, claimedBy(5)), waits(2, steer, claimedBy(3))}, step, "[1 2]"},
		{"What a newer turn has claimed is not.", inputs{waits(1, steer, claimedBy(6))}, step, "[]"},
	} {
		given := slices.Clone(c.inputs)
		var got []string
		for _, in := range transcript.Deliver(c.inputs, c.at) {
			got = append(got, string(in.Entry.ID))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: got %v, want %s", c.rule, got, c.want)
		}
		for i := range given {
			if given[i].Entry.ID != c.inputs[i].Entry.ID {
				t.Errorf("%s: what was given is in another order", c.rule)
			}
		}
	}
}

// drawn are inputs of all sorts.
func drawn(t *rapid.T) []transcript.Input {
	var out []transcript.Input
	for n := range rapid.Int64Range(0, 9).Draw(t, "inputs") {
		in := waits(n+1, rapid.SampledFrom([]transcript.Lane{steer, steer, follow, follow, synth, barrier}).Draw(t, "lane"))
		for _, more := range []func(*transcript.Input){later, expired, first, takenBack, done, claimedBy(4), claimedBy(5)} {
			if rapid.IntRange(0, 7).Draw(t, "more") == 0 {
				more(&in)
			}
		}
		out = append(out, in)
	}
	return out
}

func TestDeliverProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inputs := drawn(t)
		b := transcript.Boundary{
			Cutoff: rapid.Int64Range(0, 10).Draw(t, "cutoff"), Stop: rapid.Bool().Draw(t, "stop"), Single: rapid.Bool().Draw(t, "single"),
			Held: rapid.IntRange(0, 5).Draw(t, "held") == 0, Fence: 5, Now: midday,
		}
		got := transcript.Deliver(inputs, b)
		if !slices.EqualFunc(got, transcript.Deliver(rapid.Permutation(inputs).Draw(t, "shuffled"), b), same) {
			t.Fatalf("it depends on the order in which inputs are given")
		}
		lanes := map[transcript.Lane]int{}
		for i, in := range got {
			lanes[in.Lane]++
			switch {
			case b.Held, in.Admitted > b.Cutoff, in.State != transcript.InputPending && in.State != transcript.InputClaimed, in.CancelAsked,
				in.NotBefore.After(midday), !in.Expires.IsZero() && !in.Expires.After(midday):
				t.Fatalf("%+v was delivered", in)
			case i > 0 && got[i-1].Order > in.Order:
				t.Fatalf("they are out of order")
			}
		}
		if n := len(got); lanes[follow] > 0 && (n > 1 || !b.Stop) || lanes[barrier] > 0 && n > 1 || b.Single && n > 1 {
			t.Fatalf("delivered together: %v", lanes)
		}
		for _, in := range inputs { // a steer that could be delivered goes before all else
			ready := in.State == transcript.InputPending && !in.CancelAsked && in.Admitted <= b.Cutoff && in.NotBefore.Before(midday) && in.Expires.IsZero()
			barred := slices.ContainsFunc(inputs, func(other transcript.Input) bool { return other.Lane == barrier && other.Admitted < in.Admitted })
			if ready && !barred && !b.Held && (in.Lane == steer || in.Lane == synth) && lanes[steer]+lanes[synth] == 0 {
				t.Fatalf("%+v was not delivered, but %v", in, lanes)
			}
		}
		all := b
		all.Cutoff, all.Stop, all.Held = 100, true, false
		promoted := []transcript.EntryID{"1", "2"}
		rest := slices.DeleteFunc(slices.Clone(inputs), func(in transcript.Input) bool { return slices.Contains(promoted, in.Entry.ID) })
		if transcript.Deliverable(inputs, promoted, 5, midday) != (len(transcript.Deliver(rest, all)) > 0) {
			t.Fatalf("what is deliverable is not what is delivered")
		}
	})
}

func same(a, b transcript.Input) bool { return a.Entry.ID == b.Entry.ID }

// Whatever is moved wherever, those that wait are in the order that was asked
// for, and what comes later is behind them.
func TestPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seq := int64(0)
		var waiting []transcript.Input
		var want []transcript.EntryID
		admit := func() {
			seq++
			in := waits(seq, steer)
			waiting = append(waiting, in)
			want = append(want, in.Entry.ID)
		}
		for range rapid.IntRange(2, 5).Draw(t, "inputs") {
			admit()
		}
		for range rapid.IntRange(1, 120).Draw(t, "moves") {
			if rapid.IntRange(0, 30).Draw(t, "admit") == 0 {
				admit()
			}
			n := rapid.IntRange(0, len(waiting)-1).Draw(t, "moved")
			to := rapid.IntRange(0, len(waiting)-1).Draw(t, "to")
			after := rapid.IntRange(0, 3).Draw(t, "after") > 0
			m := transcript.Move{Before: waiting[to].Entry.ID}
			if after {
				m = transcript.Move{After: waiting[to].Entry.ID}
			}
			at, renumbered, ok := m.Place(waiting[n], waiting)
			if ok != (n != to) {
				t.Fatalf("to %+v from %d: %t", m, n, ok)
			}
			seq++ // each move takes one
			if !ok {
				continue
			}
			moved := waiting[n].Entry.ID
			for _, in := range renumbered {
				i := slices.IndexFunc(waiting, func(w transcript.Input) bool { return w.Entry.ID == in.Entry.ID })
				waiting[i].Order = in.Order
			}
			waiting[n].Order = at
			want = slices.DeleteFunc(want, func(id transcript.EntryID) bool { return id == moved })
			i := slices.Index(want, waiting[to].Entry.ID)
			if after {
				i++
			}
			want = slices.Insert(want, i, moved)
			sorted := slices.Clone(waiting)
			transcript.Sort(sorted)
			for i, in := range sorted {
				if in.Entry.ID != want[i] {
					t.Fatalf("after %s went to %+v they are not %v", moved, m, want)
				}
			}
		}
	})
	in := waits(1, steer)
	for rule, m := range map[string]transcript.Move{
		"Next to another lane's is no place.": {Before: "2"}, "Next to itself is no place.": {After: "1"}, "Next to what does not wait is no place.": {After: "3"},
	} {
		if _, _, ok := m.Place(in, []transcript.Input{in, waits(2, follow)}); ok {
			t.Errorf("%s", rule)
		}
	}
}
