package session_test

import (
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Rule 15: with a durable working directory a lost machine is replaced, without
// one the loss is told first. Nothing else follows from it.
func TestDurableWorkdirDecides(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	terms := session.Terms{Caps: bindsWorkdir, Window: time.Minute, MaxWindow: time.Hour}
	for _, state := range []sandbox.State{sandbox.Lost, sandbox.None, sandbox.Live} {
		for _, durable := range []bool{true, false} {
			s := session.Snapshot{
				Now: now, Session: session.Session{ID: "s", Version: 3, Owner: "ann", DurableWorkdir: durable},
				Sandbox: sandbox.Row{ID: "b", Version: 4, Session: "s", State: state, Generation: 2, Key: "k", Provider: "p", LiveAt: now.Add(-time.Hour), Incarnation: "i"},
			}
			d, err := session.Decide(s, session.CommandEnsure{
				Want: sandbox.Ensure{Nonce: "n", Provider: "p", Caps: bindsWorkdir}, Terms: terms, MaxMachines: 1,
			})
			switch {
			case state == sandbox.Lost && !durable:
				wantType[*sandbox.LostError](t, "without a durable working directory", err)
			case err != nil:
				t.Errorf("%v, durable %v: %v", state, durable, err)
			case state == sandbox.Live:
				if d.Then != sandbox.EffectAttach {
					t.Errorf("live, durable %v: then %v", durable, d.Then)
				}
			case d.Then != sandbox.EffectCreate || d.Change.Sandbox == nil || d.Change.Sandbox.Generation != 3:
				t.Errorf("%v, durable %v: %+v", state, durable, d)
			}
		}
	}
}
