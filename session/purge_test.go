package session_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// town is a few people's sessions, environments and conversations. The keys say whose and where.
type town struct {
	w             *world
	sessions      map[string]session.ID
	environments  map[string]session.EnvironmentID
	conversations map[string]session.ConversationID
}

// newTown: in project p a session of ann's and one of bob's, both warm, and
// one of bob's that borrows a warm environment; one of eve's in project q; a
// personal one of ann's. A conversation of each, one of bob's in ann's, and ones that are bound to none.
func newTown(w *world, r *replica) *town {
	w.Helper()
	v := &town{w, map[string]session.ID{}, map[string]session.EnvironmentID{}, map[string]session.ConversationID{}}
	env, err := r.CreateEnvironment(w.Context(), ann, session.NewEnvironment{Project: "p"})
	if err != nil {
		w.Fatal(err)
	}
	v.environments["p"] = env.ID
	for name, q := range map[string]session.Spawn{
		"ann p": {Project: "p", Agent: "builder"}, "bob p": {Project: "p", Agent: "builder"}, "bob p borrowed": {Project: "p", Agent: "builder", Environment: env.ID},
		"eve q": {Project: "q", Agent: "spy"}, "ann": {},
	} {
		a := access.Actor{User: access.UserID(strings.Fields(name)[0])}
		s, c, err := r.Spawn(w.Context(), a, q)
		if err != nil {
			w.Fatalf("%s: %v", name, err)
		}
		v.sessions[name], v.conversations[name] = s.ID, c.ID
		closeWork(w, r.mustWork(a, inSession(s.ID)))
	}
	v.conversations["bob in ann p"] = r.add(bob, v.sessions["ann p"], "tester").ID
	for name, q := range map[string]session.NewConversation{"ann p unbound": {Project: "p", Agent: "builder"}, "bob unbound": {}} {
		c, err := r.NewConversation(w.Context(), access.Actor{User: access.UserID(strings.Fields(name)[0])}, q)
		if err != nil {
			w.Fatalf("%s: %v", name, err)
		}
		v.conversations[name] = c.ID
	}
	return v
}

// left is what there still is, sorted: "session ann p", "conversation ann p unbound" if it is bound to none.
func (v *town) left() (all []string) {
	v.w.Helper()
	load := func(a session.Address) (session.Snapshot, bool) {
		s, err := v.w.db.Sessions().Load(context.Background(), a)
		if err != nil && !errors.Is(err, session.ErrNotFound) {
			v.w.Error(err)
		}
		return s, err == nil
	}
	for name, id := range v.sessions {
		if _, there := load(session.Address{Session: id}); there {
			all = append(all, "session "+name)
		}
	}
	for name, id := range v.environments {
		if _, there := load(session.Address{Environment: id}); there {
			all = append(all, "environment "+name)
		}
	}
	for name, id := range v.conversations {
		if s, there := load(session.Address{Conversation: id}); there {
			if s.Conversation.Session == "" && !strings.Contains(name, "unbound") {
				name += ", let go"
			}
			all = append(all, "conversation "+name)
		}
	}
	slices.Sort(all)
	return all
}

func TestPurge(t *testing.T) {
	everything := []string{
		"conversation ann", "conversation ann p", "conversation ann p unbound", "conversation bob in ann p", "conversation bob p",
		"conversation bob p borrowed", "conversation bob unbound", "conversation eve q",
		"environment p", "session ann", "session ann p", "session bob p", "session bob p borrowed", "session eve q",
	}
	for _, c := range []struct {
		rule    string
		target  func(v *town) session.PurgeTarget
		gone    []string
		letGo   []string // conversations that stay, bound to none
		report  session.PurgeReport
		machine int // how many are in the outbox then
	}{
		{"S-03: of a session, the conversations stay, bound to none", func(v *town) session.PurgeTarget { return session.PurgeTarget{Session: v.sessions["ann p"]} },
			[]string{"session ann p"}, []string{"ann p", "bob in ann p"}, session.PurgeReport{Sessions: 1}, 1},
		{"of a session with its history, nothing stays", func(v *town) session.PurgeTarget {
			return session.PurgeTarget{Session: v.sessions["ann p"], History: true}
		}, []string{"session ann p", "conversation ann p", "conversation bob in ann p"}, nil, session.PurgeReport{Sessions: 1, Conversations: 2}, 1},
		{"of a session that borrows, the environment and its machine stay", func(v *town) session.PurgeTarget {
			return session.PurgeTarget{Session: v.sessions["bob p borrowed"], History: true}
		}, []string{"session bob p borrowed", "conversation bob p borrowed"}, nil, session.PurgeReport{Sessions: 1, Conversations: 1}, 0},
		{"of a project, sessions and environments go and the conversations stay", func(*town) session.PurgeTarget { return session.PurgeTarget{Project: "p"} },
			[]string{"session ann p", "session bob p", "session bob p borrowed", "environment p"}, []string{"ann p", "bob in ann p", "bob p", "bob p borrowed"},
			session.PurgeReport{Sessions: 3, Environments: 1}, 3},
		{"of a project with its history, all of it goes, and nothing of others", func(*town) session.PurgeTarget { return session.PurgeTarget{Project: "p", History: true} },
			[]string{
				"session ann p", "session bob p", "session bob p borrowed", "environment p",
				"conversation ann p", "conversation bob in ann p", "conversation bob p", "conversation bob p borrowed", "conversation ann p unbound",
			}, nil, session.PurgeReport{Sessions: 3, Environments: 1, Conversations: 5}, 3},
		{"of a user, the sessions that he opened, wherever", func(*town) session.PurgeTarget { return session.PurgeTarget{User: "ann"} },
			[]string{"session ann p", "session ann"}, []string{"ann p", "ann", "bob in ann p"}, session.PurgeReport{Sessions: 2}, 2},
		{"of a user with his history, his conversations in others' sessions too, and not others' in his", func(*town) session.PurgeTarget { return session.PurgeTarget{User: "bob", History: true} },
			[]string{
				"session bob p", "session bob p borrowed",
				"conversation bob p", "conversation bob p borrowed", "conversation bob in ann p", "conversation bob unbound",
			}, nil, session.PurgeReport{Sessions: 2, Conversations: 4}, 1},
		{"of what is not there, nothing", func(*town) session.PurgeTarget { return session.PurgeTarget{Project: "never", History: true} }, nil, nil, session.PurgeReport{}, 0},
	} {
		inWorld(t, c.rule, lagging, func(t *testing.T, w *world) {
			r := w.replica()
			v := newTown(w, r)
			if diff := cmp.Diff(everything, v.left()); diff != "" {
				t.Fatalf("the town (-want +got)\n%s", diff)
			}
			killed, born := w.asked(memory.OpDestroy), len(w.boxes.Machines())
			rep, err := r.Purge(t.Context(), c.target(v), session.PurgeOptions{})
			c.report.Done, c.report.Purgers = true, rep.Purgers
			if diff := cmp.Diff(c.report, rep); diff != "" || err != nil {
				t.Errorf("%v, report (-want +got)\n%s", err, diff)
			}
			var want []string
			for _, name := range everything {
				conversation, is := strings.CutPrefix(name, "conversation ")
				switch {
				case slices.Contains(c.gone, name):
				case is && slices.Contains(c.letGo, conversation):
					want = append(want, name+", let go")
				default:
					want = append(want, name)
				}
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, v.left()); diff != "" {
				t.Errorf("what is left (-want +got)\n%s", diff)
			}
			if len(w.outbox()) != c.machine || w.asked(memory.OpDestroy) != killed {
				t.Errorf("T-32: outbox %+v, want %d machines and nothing killed yet", w.outbox(), c.machine)
			}
			w.reclaimed(r)
			if n := len(w.boxes.Machines()); n != born-c.machine || len(w.outbox()) > 0 {
				t.Errorf("%d machines of %d live, outbox %+v", n, born, w.outbox())
			}
			rep, err = r.Purge(t.Context(), c.target(v), session.PurgeOptions{})
			if diff := cmp.Diff(session.PurgeReport{Done: true, Purgers: rep.Purgers}, rep); diff != "" || err != nil {
				t.Errorf("again: %v, %s", err, diff)
			}
		})
	}

	for what, c := range map[string]struct {
		target session.PurgeTarget
		field  string
	}{
		"none":                  {session.PurgeTarget{History: true}, "Session"},
		"two":                   {session.PurgeTarget{Session: "s", User: "ann"}, "Session"},
		"three":                 {session.PurgeTarget{Session: "s", Project: "p", User: "ann"}, "Session"},
		"no text for a project": {session.PurgeTarget{Project: "a\x00b"}, "Project"},
		"too much for a user":   {session.PurgeTarget{User: access.UserID(strings.Repeat("x", 257))}, "User"},
		"no UTF-8":              {session.PurgeTarget{Session: "\xff"}, "Session"},
	} {
		inWorld(t, "a target that is "+what+" is refused, and nothing is read or written", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			_, err := r.Purge(t.Context(), c.target, session.PurgeOptions{})
			wantField(t, "Purge", err, c.field)
			if calls := r.calls(); len(calls) > 0 {
				t.Errorf("called %v", calls)
			}
		})
	}
}

// A machine may be in any state when its row is purged. (S-03: the pointer is rescued.)
func TestPurgeInEveryState(t *testing.T) {
	inWorld(t, "what is creating, live, lost, destroying or none is proven gone after a purge, and a create that is late with it", lagging, func(t *testing.T, w *world) {
		r := w.replica()
		late := latch(t)
		r.abandoned(memory.Fault{Late: late})
		r.abandoned(memory.Fault{Lose: true})
		r.dying()
		lost := r.warm()
		r.warm()
		r.spawn(ann)
		w.boxes.Kill(w.snap(lost).Sandbox.Incarnation)
		for range 3 {
			r.work(t.Context(), ann, session.WorkRequest{Session: lost})
			time.Sleep(time.Minute)
		}
		states := map[sandbox.State]int{}
		for _, s := range w.all() {
			states[s.Sandbox.State]++
		}
		want := map[sandbox.State]int{sandbox.None: 1, sandbox.Creating: 2, sandbox.Live: 1, sandbox.Lost: 1, sandbox.Destroying: 1}
		if diff := cmp.Diff(want, states); diff != "" {
			t.Fatalf("states (-want +got)\n%s", diff)
		}
		if _, err := r.Purge(t.Context(), session.PurgeTarget{Project: "p", History: true}, session.PurgeOptions{}); err != nil {
			t.Error(err)
		}
		late.Open()
		w.reclaimed(r)
		w.converge(r)
		if len(w.boxes.Machines()) > 0 || len(w.all()) > 0 {
			t.Errorf("machines %+v, sessions %+v", w.boxes.Machines(), w.all())
		}
	})
}

func TestPurgeAfterHostGone(t *testing.T) {
	inLand(t, "what was lost with its host leaves nothing when it is purged: nobody could prove it gone, and it would count for good", func(t *testing.T, w *land) {
		w.limits = session.Limits{Machines: 2}
		n := w.at("north", "n")
		lost, kept := n.warm(), n.warm()
		n.kill()
		s := w.at("south", "s")
		if rep, err := s.HostGone(t.Context(), "north"); err != nil || rep.Lost != 2 {
			t.Fatalf("HostGone: %+v, %v", rep, err)
		}
		for _, id := range []session.ID{lost, kept} {
			if row := w.snap(id).Sandbox; row.State != sandbox.Lost || row.Incarnation != "" || row.Host != "" {
				t.Errorf("row %+v", row)
			}
		}
		if _, err := s.Purge(t.Context(), session.PurgeTarget{Session: lost}, session.PurgeOptions{}); err != nil {
			t.Error(err)
		}
		for _, host := range []string{"north", "south"} {
			for due, err := range w.db.Sessions().Due(t.Context(), session.DueQuery{Kinds: session.DueTombstones, Hosts: []string{host}, Limit: 10}) {
				t.Errorf("in the outbox of %s: %+v, %v", host, due.Tombstone, err)
			}
		}
		_, err := s.work(t.Context(), ann, inSession(kept)) // rule 15: whoever works next is told all the same
		if e := wantType[*sandbox.LostError](t, "Open", err); e.Generation != 1 {
			t.Errorf("%+v", e)
		}
		q := inSession(kept)
		q.AcceptLoss = 1
		s.mustWork(ann, q)
		s.warm() // the second of two: the lost ones count no more
		if row := w.snap(kept).Sandbox; row.State != sandbox.Live || row.Host != "south" || row.Generation != 2 {
			t.Errorf("row %+v", row)
		}
	})
}

func TestPurgeEndsWorks(t *testing.T) {
	for what, target := range map[string]func(id session.ID) session.PurgeTarget{
		"session":              func(id session.ID) session.PurgeTarget { return session.PurgeTarget{Session: id} },
		"session with history": func(id session.ID) session.PurgeTarget { return session.PurgeTarget{Session: id, History: true} },
		"project":              func(session.ID) session.PurgeTarget { return session.PurgeTarget{Project: "p"} },
		"user":                 func(session.ID) session.PurgeTarget { return session.PurgeTarget{User: "ann"} },
	} {
		inWorld(t, "works of this process in a purged "+what+" end at once, others with their next heartbeat, all with ErrEnded; works elsewhere go on", lagging, func(t *testing.T, w *world) {
			here, there := w.replica(), w.replica()
			s, _ := here.spawn(ann)
			a, b := here.mustWork(ann, inSession(s.ID)), there.mustWork(ann, inSession(s.ID))
			q, _, err := here.Spawn(t.Context(), eve, session.Spawn{Project: "q", Agent: "spy"})
			if err != nil {
				t.Fatal(err)
			}
			other := here.mustWork(eve, inSession(q.ID))
			if _, err := here.Purge(t.Context(), target(s.ID), session.PurgeOptions{}); err != nil {
				t.Error(err)
			}
			wantErr(t, "here", context.Cause(a.Context()), session.ErrEnded)
			if err := b.Context().Err(); err != nil {
				t.Errorf("the other process knows at once: %v", err)
			}
			time.Sleep(40 * time.Second)
			wantErr(t, "elsewhere", context.Cause(b.Context()), session.ErrEnded)
			if err := other.Context().Err(); err != nil {
				t.Errorf("somebody else's work ended: %v", context.Cause(other.Context()))
			}
			closeWork(t, a)
			closeWork(t, b)
			closeWork(t, other)
			w.gate.wantSettled(t)
			_, err = there.work(t.Context(), ann, inSession(s.ID))
			wantErr(t, "Open afterwards", err, session.ErrNotFound)
		})
	}
}

// wantSettled fails the test unless every hold was settled or given back.
func (g *gate) wantSettled(t testing.TB) {
	t.Helper()
	if live := g.live(); len(live) > 0 {
		t.Errorf("holds left: %v", live)
	}
}
