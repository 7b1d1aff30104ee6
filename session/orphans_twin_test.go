package session_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// somebodys is what the database says, in plain words, and the machines there are.
type somebodys struct {
	rows     map[sandbox.ID]sandbox.Row
	outbox   map[sandbox.TombstoneKey]bool
	machines []sandbox.Listed
	shown    map[sandbox.Incarnation]bool // by the provider, asked by id
}

// nobodys are the machines of ours that no row and no outbox entry names.
func (s somebodys) nobodys() map[sandbox.Incarnation]sandbox.TombstoneKey {
	found := map[sandbox.Incarnation]sandbox.TombstoneKey{}
	for _, m := range s.machines {
		generation := map[string]int64{"1": 1, "2": 2, "3": 3}[m.Labels[sandbox.LabelGeneration]]
		key := sandbox.TombstoneKey{Sandbox: sandbox.ID(m.Labels[sandbox.LabelSandbox]), Generation: generation, Incarnation: m.Ref.Incarnation}
		ours := m.Labels[sandbox.LabelDeployment] == "bunkroom"
		complete := key.Sandbox != "" && generation > 0 && m.Ref.Name != ""
		row, isRow := s.rows[key.Sandbox]
		wanted := isRow && row.Generation == generation && (row.Incarnation == "" || row.Incarnation == key.Incarnation) &&
			slices.Contains([]string{"creating", "live", "destroying"}, row.State.String())
		doomed := s.outbox[key] || s.outbox[sandbox.TombstoneKey{Sandbox: key.Sandbox, Generation: generation}]
		if ours && complete && !wanted && !doomed {
			found[key.Incarnation] = key
		}
	}
	return found
}

// Of machines with all kinds of labels, among rows and outbox entries of all
// kinds, exactly those are buried that are orphans by the words of rule 10.
func TestSweepAgainstTwin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC)
		db := memory.New(&memory.Options{Now: func() time.Time { return now }})
		store := db.Sessions()
		pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, what) }
		ids := []string{"s1", "s2", "s3"}
		incarnations := []string{"", "m0", "m1", "m2", "m3", "m4", "m5"}
		truth := somebodys{rows: map[sandbox.ID]sandbox.Row{}, outbox: map[sandbox.TombstoneKey]bool{}, shown: map[sandbox.Incarnation]bool{}}
		commit := func(c session.Change) {
			if _, err := store.Commit(context.Background(), c); err != nil {
				rt.Fatal(err)
			}
		}
		write := func(id sandbox.ID) {
			old := truth.rows[id]
			row := sandbox.Row{ID: id, Session: session.ID("of-" + id), Version: old.Version, Payer: "ann",
				State:      sandbox.State(rapid.IntRange(0, 4).Draw(rt, "state")),
				Generation: int64(rapid.IntRange(1, 3).Draw(rt, "generation")), Incarnation: sandbox.Incarnation(pick("incarnation", incarnations...))}
			c := session.Change{Sandbox: &row}
			if old.Version == 0 {
				c.Session = &session.Session{ID: row.Session, Owner: "ann"}
			}
			commit(c)
			row.Version++
			truth.rows[id] = row
		}
		bury := func() {
			key := sandbox.TombstoneKey{Sandbox: sandbox.ID(pick("buried", ids...)), Generation: int64(rapid.IntRange(1, 3).Draw(rt, "generation")),
				Incarnation: sandbox.Incarnation(pick("incarnation", incarnations...))}
			commit(session.Change{Bury: []sandbox.Tombstone{{TombstoneKey: key, Name: "n", Provider: "a"}}})
			truth.outbox[key] = true
		}
		for _, id := range ids[:2] {
			if rapid.Bool().Draw(rt, "has a row") {
				write(sandbox.ID(id))
			}
		}
		for range rapid.IntRange(0, 2).Draw(rt, "outbox") {
			bury()
		}
		for i := range 6 {
			m := sandbox.Listed{
				Ref: sandbox.Ref{Provider: "a", Name: pick("name", "n", "n", "n", ""), Incarnation: sandbox.Incarnation(fmt.Sprint("m", i))},
				Labels: map[string]string{
					sandbox.LabelDeployment: pick("deployment", "bunkroom", "bunkroom", "bunkroom", "bunkroom2", ""),
					sandbox.LabelSandbox:    pick("sandbox", append(ids, "s1", "s2", "")...),
					sandbox.LabelGeneration: pick("label", "1", "1", "2", "3", "0", "-1", "1.0", ""),
				},
				CreatedAt: rapid.SampledFrom([]time.Time{{}, now.Add(-24 * time.Hour), now, now.Add(10 * time.Minute)}).Draw(rt, "made"),
			}
			truth.machines = append(truth.machines, m)
			truth.shown[m.Ref.Incarnation] = rapid.IntRange(0, 4).Draw(rt, "shown") > 0
		}
		p := &roster{name: "a", caps: lagging,
			list: func(context.Context) iter.Seq2[sandbox.Listed, error] {
				return func(yield func(sandbox.Listed, error) bool) {
					for _, m := range truth.machines {
						if !yield(m, nil) {
							return
						}
					}
				}
			},
			inspect: func(ref sandbox.Ref) ([]sandbox.Found, error) {
				if truth.shown[ref.Incarnation] {
					return []sandbox.Found{{Incarnation: ref.Incarnation}}, nil
				}
				return nil, nil
			},
		}
		svc, err := session.New(session.Config{Store: store, Leases: db.Leases(), Directory: newDirectory(),
			Sandboxes: []sandbox.Provider{p}, KeySecret: secret, Deployment: "bunkroom"})
		if err != nil {
			rt.Fatal(err)
		}

		since := map[sandbox.Incarnation]time.Time{} // when each was first nobody's, without a pass since that found otherwise
		all := slices.Clone(truth.machines)
		for range rapid.IntRange(2, 4).Draw(rt, "passes") {
			want := map[sandbox.TombstoneKey]bool{}
			nobodys := truth.nobodys()
			for i, key := range nobodys {
				first, before := since[i]
				if !before {
					since[i] = now
					continue
				}
				born := all[slices.IndexFunc(all, func(m sandbox.Listed) bool { return m.Ref.Incarnation == i })].CreatedAt
				if born.IsZero() {
					born = first
				}
				// A create may take 75 seconds, and be done and seen 3 minutes later.
				if now.Sub(first) >= 5*time.Minute && now.Sub(born) >= 75*time.Second+3*time.Minute && truth.shown[i] {
					want[key] = true
				}
			}
			for i := range since {
				if _, still := nobodys[i]; !still {
					delete(since, i)
				}
			}

			rep, err := svc.Sweep(context.Background(), session.SweepOptions{})
			if err != nil || rep.Tripped != (len(want) > 5) {
				rt.Fatalf("%v, %+v", err, rep)
			}
			if rep.Tripped {
				want = map[sandbox.TombstoneKey]bool{}
			}
			got := map[sandbox.TombstoneKey]bool{}
			for _, i := range rep.Items {
				if i.Action == session.SweepBuried {
					got[i.Machine] = true
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("buried (-want +got)\n%s", diff)
			}
			for key := range got {
				truth.outbox[key] = true
				delete(since, key.Incarnation)
			}
			in := map[sandbox.TombstoneKey]bool{}
			for due, err := range store.Due(context.Background(), session.DueQuery{Kinds: session.DueTombstones, Limit: 100}) {
				if err != nil {
					rt.Fatal(err)
				}
				in[due.Tombstone.TombstoneKey] = true
			}
			if diff := cmp.Diff(truth.outbox, in); diff != "" {
				rt.Fatalf("outbox (-want +got)\n%s", diff)
			}

			// Life goes on until the next pass.
			now = now.Add(time.Duration(rapid.SampledFrom([]int{60, 299, 300, 7200}).Draw(rt, "seconds")) * time.Second)
			switch rapid.IntRange(0, 4).Draw(rt, "meanwhile") {
			case 0:
				write(sandbox.ID(pick("written", ids...)))
			case 1:
				bury()
			case 2: // the list leaves some out
				truth.machines = slices.DeleteFunc(slices.Clone(all), func(sandbox.Listed) bool { return rapid.Bool().Draw(rt, "left out") })
			case 3:
				truth.machines = all
			}
		}
	})
}
