package sandbox_test

import (
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/google/go-cmp/cmp"
)

func TestDecideRowBuried(t *testing.T) { // rule 3: the trigger fires in every state but none, and but for what was lost with its host
	for _, state := range []sandbox.State{sandbox.None, sandbox.Creating, sandbox.Live, sandbox.Lost, sandbox.Destroying} {
		for _, incarnation := range []sandbox.Incarnation{"i1", ""} {
			t.Run(state.String()+" "+string(incarnation), func(t *testing.T) {
				row := base().row
				row.State, row.Host, row.Incarnation, row.NotBefore, row.AbsentSince = state, "here", incarnation, later, now
				got, ok := row.Buried()
				buried := state != sandbox.None && (state != sandbox.Lost || incarnation != "")
				var want sandbox.Tombstone
				if buried {
					want = sandbox.Tombstone{
						TombstoneKey: sandbox.TombstoneKey{Sandbox: "s", Generation: 7, Incarnation: incarnation},
						Name:         "name-g7", Provider: "p", Host: "here", Payer: "payer", Deployment: "d", NotBefore: later,
						Origin: sandbox.OriginTornDown,
					}
					if state == sandbox.Lost { // whoever proves it gone has to know
						want.Origin = sandbox.OriginLost
					}
				}
				if diff := cmp.Diff(want, got); diff != "" || ok != buried {
					t.Errorf("ok %v, (-want +got) %s", ok, diff)
				}
			})
		}
	}
}

func TestDecideRowRef(t *testing.T) {
	row := base().row
	row.Incarnation, row.Host = "i1", "here"
	want := sandbox.Ref{Provider: "p", Name: "name-g7", Incarnation: "i1", Host: "here"}
	entry := sandbox.Tombstone{TombstoneKey: sandbox.TombstoneKey{Incarnation: "i1"}, Name: "name-g7", Provider: "p", Host: "here"}
	if row.Ref() != want || entry.Ref() != want {
		t.Errorf("row %+v, tombstone %+v, want %+v", row.Ref(), entry.Ref(), want)
	}
}

func TestDecideRowStamps(t *testing.T) { // the clock rule: only the store's clock dates a row
	row := base().row
	row.Deadline, row.MaxDeadline, row.NotBefore, row.AbsentSince, row.LiveAt = now, now, now, now, now
	if got := (sandbox.Stamps{}).Apply(row, later); !sameRow(&got, &row) {
		t.Errorf("no stamps change nothing: %s", cmp.Diff(row, got))
	}
	all := sandbox.Stamps{Deadline: 1, MaxDeadline: 2, NotBefore: 3, Absent: true, Live: true, Destroyed: true}
	want := row
	want.Deadline, want.MaxDeadline, want.NotBefore = later.Add(1), later.Add(2), later.Add(3)
	want.AbsentSince, want.LiveAt, want.DestroyedAt = later, later, later
	if diff := cmp.Diff(want, all.Apply(row, later)); diff != "" {
		t.Error(diff)
	}
}

func TestDecideCapsReadUnknown(t *testing.T) { // rule 8
	for _, c := range []struct {
		says              string
		declared          time.Duration
		horizon, measured time.Duration
	}{
		{"zero is unknown", 0, 15 * time.Minute, time.Minute},
		{"Immediate is none", sandbox.Immediate, 0, 0},
		{"anything else is what it is", time.Second, time.Second, time.Second},
	} {
		caps := sandbox.Caps{CreateHorizon: c.declared, VisibilityLag: c.declared}
		if caps.Horizon() != c.horizon || caps.Lag() != c.measured {
			t.Errorf("%s: horizon %v, lag %v", c.says, caps.Horizon(), caps.Lag())
		}
	}
}

func TestDecideWordsAreTold(t *testing.T) { // what logs show of each value is its own
	told := map[string]bool{}
	for _, s := range []interface{ String() string }{
		sandbox.None, sandbox.Creating, sandbox.Live, sandbox.Lost, sandbox.Destroying,
	} {
		told[s.String()] = true
	}
	if len(told) != 5 {
		t.Errorf("states: %v", told)
	}
	clear(told)
	for _, e := range []sandbox.Effect{sandbox.EffectNone, sandbox.EffectCreate, sandbox.EffectAttach, sandbox.EffectInspect, sandbox.EffectDestroy} {
		told[e.String()] = true
	}
	if len(told) != 5 {
		t.Errorf("effects: %v", told)
	}
}

// Every refusal has its own fixed sentence, and tells nothing of the sandbox.
func TestDecideRefusalsAreProblems(t *testing.T) {
	type problem interface {
		error
		Problem() (status int, code, sentence string)
	}
	codes := map[string]bool{}
	for _, p := range []problem{
		sandbox.ErrNotAllowed, sandbox.ErrEnded, sandbox.ErrUnavailable, sandbox.ErrWorking, sandbox.ErrWrongHost, sandbox.ErrStale,
		&sandbox.ProvisioningError{Sandbox: "secret"}, &sandbox.LostError{Sandbox: "secret"}, &sandbox.AttemptsError{Sandbox: "secret"},
	} {
		status, code, sentence := p.Problem()
		if status < 400 || code == "" || sentence == "" || codes[code] {
			t.Errorf("%v: %d %q %q", p, status, code, sentence)
		}
		if p2, ok := p.(*sandbox.LostError); ok && p2.Error() == sentence {
			t.Error("the log's text went to the client")
		}
		codes[code] = true
	}
}
