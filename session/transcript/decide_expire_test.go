package transcript_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// news are facts about inputs, as one text.
func news(facts []transcript.Fact) string {
	var out []string
	for _, f := range facts {
		out = append(out, fmt.Sprintf("%d %s %s", f.Seq, f.Entry, f.Input))
	}
	return strings.Join(out, ", ")
}

// What is too late expires: not what is claimed, or done, or in time.
func TestDecideExpire(t *testing.T) {
	row := transcript.Transcript{Conversation: "c", Status: transcript.Active, Fence: 5, InTurn: true, LastSeq: 9}
	inputs := []transcript.Input{
		waits(2, steer, expired), waits(1, follow, expired), waits(3, steer), waits(4, steer, expired, claimedBy(5)),
		waits(5, steer, expired, done), waits(6, barrier, func(in *transcript.Input) { in.Expires = midday.Add(1) }),
	}
	before := slices.Clone(inputs)
	e, err := transcript.DecideExpire(row, inputs, midday)
	if err != nil || news(e.Facts) != "10 2 expired, 11 1 expired" || len(e.Inputs) != 2 || e.Transcript.LastSeq != 11 || !e.Transcript.UpdatedAt.Equal(midday) {
		t.Errorf("got %+v, %v", e, err)
	}
	for i, in := range e.Inputs {
		want := before[i]
		want.State, want.Version = transcript.InputExpired, 2
		if d := cmp.Diff(want, in); d != "" {
			t.Error(d)
		}
	}
	if d := cmp.Diff(before, inputs); d != "" {
		t.Errorf("what was given has changed: %s", d)
	}
	if e, err := transcript.DecideExpire(row, inputs[2:], midday); err != nil || len(e.Facts)+len(e.Inputs) > 0 || e.Transcript != row {
		t.Errorf("of nothing: %+v, %v", e, err)
	}
	for status, want := range map[transcript.Status]error{transcript.Archived: transcript.ErrArchived, transcript.Deleted: transcript.ErrNotFound} {
		row.Status = status
		if _, err := transcript.DecideExpire(row, inputs, midday); !errors.Is(err, want) {
			t.Errorf("of what is %s: %v", status, err)
		}
	}
}

// What expires as an input comes does so by the same commit, before it; where none comes, nothing does.
func TestDecideAdmitExpires(t *testing.T) {
	f := transcript.AdmitFacts{
		Transcript: transcript.Transcript{Conversation: "c", Status: transcript.Active, LastSeq: 9}, After: true, Waiting: 3, Clock: midday,
		Due: []transcript.Input{waits(1, steer, expired), waits(2, steer, expired)},
	}
	in := transcript.NewInput{Entry: marker("new"), Lane: steer}
	a, err := transcript.DecideAdmit(f, in, "h", 4)
	if err != nil || news(a.Facts) != "10 1 expired, 11 2 expired, 12 new pending" || len(a.Expired) != 2 || a.Transcript.LastSeq != 12 || a.Input.Admitted != 12 {
		t.Errorf("got %+v, %v", a, err)
	}
	if a, err := transcript.DecideAdmit(f, in, "h", 3); !errors.As(err, new(*transcript.LimitError)) || len(a.Facts)+len(a.Expired) > 0 {
		t.Errorf("without room: %+v, %v", a, err)
	}
	was := waits(7, steer)
	f.There, f.Hash = &was, "h"
	if a, err := transcript.DecideAdmit(f, in, "h", 4); err != nil || a.Created || len(a.Facts)+len(a.Expired) > 0 {
		t.Errorf("a retry: %+v, %v", a, err)
	}
}

// What is archived or deleted has nothing that waits: whatever order a store finds it in, the plan is the same. (spec §2.4)
func TestDecideEmptiesTheQueue(t *testing.T) {
	queue := []transcript.Input{waits(3, barrier), waits(1, steer, later), waits(2, follow, expired)}
	archive := transcript.Change{Conversation: "c", Status: transcript.Archived}
	for _, c := range []struct {
		rule   string
		queue  []transcript.Input
		status transcript.Status // of the change
		cancel bool
		news   string // of inputs, where it is not refused
		waits  bool   // it is refused
	}{
		{"what waits is not archived", queue, transcript.Archived, false, "", true},
		{"nor deleted", queue, transcript.Deleted, false, "", true},
		{"nor what only has to wait", queue[1:2], transcript.Archived, false, "", true},
		{"unless it is taken back", queue, transcript.Archived, true, "41 1 cancelled, 42 2 expired, 43 3 cancelled", false},
		{"what is too late is no obstacle", queue[2:], transcript.Archived, false, "41 2 expired", false},
		{"nor to be deleted, and goes with it", queue[2:], transcript.Deleted, false, "", false},
		{"nothing is one neither", nil, transcript.Archived, false, "", false},
		{"to be restored all is welcome", queue, transcript.Active, false, "", false},
	} {
		for range 2 {
			f := with(func(f *transcript.Facts) { f.Clock, f.Queue = midday, slices.Clone(c.queue) })
			if c.status == transcript.Active {
				f.Transcript.Status = transcript.Archived
			}
			plan, err := transcript.Decide(f, transcript.Change{Conversation: "c", Status: c.status, CancelWaiting: c.cancel})
			if errors.Is(err, transcript.ErrWaiting) != c.waits || err != nil && !c.waits {
				t.Errorf("%s: %v", c.rule, err)
			}
			if n := len(plan.Facts); n > 0 && (news(plan.Facts[:n-1]) != c.news || plan.Facts[n-1].To != c.status || len(plan.Inputs) != n-1) {
				t.Errorf("%s: %s, of %d inputs", c.rule, news(plan.Facts), len(plan.Inputs))
			}
			slices.Reverse(c.queue)
		}
	}
	many := make([]transcript.Input, transcript.MaxCancelled+1)
	for i := range many {
		many[i] = waits(int64(i+1), steer)
	}
	archive.CancelWaiting = true
	if plan, err := transcript.Decide(with(func(f *transcript.Facts) { f.Queue = many[1:] }), archive); err != nil || len(plan.Inputs) != transcript.MaxCancelled {
		t.Errorf("as many as there may be: %d, %v", len(plan.Inputs), err)
	}
	if _, err := transcript.Decide(with(func(f *transcript.Facts) { f.Queue = many }), archive); !errors.Is(err, transcript.ErrWaiting) || !strings.Contains(err.Error(), "take them back first") {
		t.Errorf("one more: %v", err)
	}
	said := transcript.Change{Conversation: "c", Status: transcript.Archived, Append: []transcript.NewEntry{marker("1")}, Promote: []transcript.EntryID{"1"}}
	only := waits(1, steer)
	only.Entry = marker("1")
	only.NotBefore = time.Time{}
	plan, err := transcript.Decide(with(func(f *transcript.Facts) {
		f.Queue, f.Inputs = []transcript.Input{only}, map[transcript.EntryID]transcript.Input{"1": only}
	}), said)
	if err != nil || len(plan.Inputs) != 1 || plan.Inputs[0].State != transcript.InputPromoted {
		t.Errorf("what is said by the same change: %+v, %v", plan.Inputs, err)
	}
	for _, c := range []struct {
		status        transcript.Status
		cancel, needs bool
	}{{transcript.Archived, false, true}, {transcript.Archived, true, true}, {transcript.Deleted, false, true}, {transcript.Deleted, true, false}, {transcript.Active, false, false}, {"", false, false}} {
		if n := (transcript.Change{Status: c.status, CancelWaiting: c.cancel}).Needs(transcript.After("b")); n.Queue != c.needs {
			t.Errorf("%+v needs %+v", c, n)
		}
	}
}
