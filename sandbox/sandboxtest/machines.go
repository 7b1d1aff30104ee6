package sandboxtest

import (
	"context"
	"sync/atomic"

	"github.com/bunkroom/bunkroom/sandbox"
)

var machineChecks = []check{
	{"Info", "Info is constant, names the provider, and has a host exactly where machines are bound to one", func(e *env) {
		i := e.Info()
		if i.Provider == "" || i != e.Info() {
			e.fatalf("Info is %+v, then %+v", i, e.Info())
		}
		if (i.Host != "") != i.Caps.HostBound {
			e.fatalf("Host is %q where HostBound is %v", i.Host, i.Caps.HostBound)
		}
	}},
	{"Powers", "As finds the powers of the provider that the options declare, and no others", func(e *env) {
		if _, ok := sandbox.As[sandbox.Lister](e.Provider); ok != e.opts.Lists {
			e.fatalf("is a Lister: %v", ok)
		}
		if _, ok := sandbox.As[sandbox.Reaper](e.Provider); ok != e.opts.Reaps {
			e.fatalf("is a Reaper: %v", ok)
		}
		if _, ok := sandbox.As[sandbox.Measurer](e.Provider); ok != e.opts.Measures {
			e.fatalf("is a Measurer: %v", ok)
		}
	}},
	{"Network", "the Caps say that networks can be restricted exactly where they can; a provider that can't refuses with ErrUnsupported, whatever the rules", func(e *env) {
		if guarded := e.Info().Caps.Egress == sandbox.EgressGuarded; guarded != e.opts.Guards {
			e.fatalf("Caps.Egress is %d", e.Info().Caps.Egress)
		}
		g, ok := sandbox.As[sandbox.Guard](e.Provider)
		switch {
		case !ok && e.opts.Guards:
			e.fatalf("the provider is no Guard, though Options.Guards says so")
		case ok && !e.opts.Guards:
			m := e.create(e.newName())
			for _, rules := range [][]sandbox.EgressRule{nil, allow("*")} {
				token, err := g.Restrict(e.deadline(), m.Ref, rules)
				e.is(err, "restrict", sandbox.ErrUnsupported)
				if token != "" {
					e.fatalf("it refuses, and answers with the token %q", token)
				}
			}
		}
	}},
	{"Create", "Create answers with a whole Ref, and says that the machine is new", func(e *env) {
		name := e.newName()
		m := e.create(name)
		if i := e.Info(); m.Adopted || m.Ref.Provider != i.Provider || m.Ref.Name != name || m.Ref.Incarnation == "" || m.Ref.Host != i.Host {
			e.fatalf("Create answered %+v", m)
		}
	}},
	{"CreateTwice", "a Create finds the machine that has the name, and says that it was adopted", func(e *env) {
		m := e.create(e.newName())
		e.attach(m.Ref).write("kept", "by the first")
		again, err := e.Create(e.deadline(), e.request(m.Ref.Name))
		e.ok(err, "create again")
		if !again.Adopted || again.Ref != m.Ref {
			e.fatalf("Create answered %+v after %+v", again, m)
		}
		e.attach(again.Ref).want("kept", "by the first")
	}},
	{"CreateRace", "where names are unique, of many Creates at once one makes the machine and the others find it", func(e *env) {
		if !e.Info().Caps.UniqueNames {
			return
		}
		name := e.newName()
		var fresh atomic.Int64
		machines := make([]sandbox.Machine, 12)
		errs := make([]error, len(machines))
		together(len(machines), func(i int) {
			if machines[i], errs[i] = e.Create(context.Background(), e.request(name)); errs[i] == nil && !machines[i].Adopted {
				fresh.Add(1)
			}
		})
		e.Cleanup(func() { e.Destroy(context.Background(), machines[0].Ref) })
		for i, m := range machines {
			e.ok(errs[i], "create")
			if m.Ref != machines[0].Ref {
				e.fatalf("two machines with one name: %+v and %+v", m.Ref, machines[0].Ref)
			}
		}
		if n := fresh.Load(); n != 1 {
			e.fatalf("%d callers were told that they made the machine", n)
		}
	}},
	{"Inspect", "Inspect lists the machine that the name, or the incarnation, stands for", func(e *env) {
		m := e.create(e.newName())
		byName := m.Ref
		byName.Incarnation = ""
		for _, ref := range []sandbox.Ref{m.Ref, byName} {
			e.eventually("the machine is seen", func() bool { return e.count(ref) == 1 })
			found, err := e.Inspect(e.deadline(), ref)
			e.ok(err, "inspect")
			if found[0].Incarnation != m.Ref.Incarnation || found[0].Status == sandbox.StatusUnknown {
				e.fatalf("inspect %+v: %+v", ref, found)
			}
		}
	}},
	{"InspectAbsent", "an empty list, and no error, is the word that there is none", func(e *env) {
		m := e.create(e.newName())
		for _, ref := range []sandbox.Ref{e.absent(), e.other(m.Ref)} {
			if n := e.count(ref); n != 0 {
				e.fatalf("inspect %+v found %d machines", ref, n)
			}
		}
	}},
	{"InspectNeverWakes", "Inspect never wakes a machine: asked again, it says the same", func(e *env) {
		m := e.create(e.newName())
		first, err := e.Inspect(e.deadline(), m.Ref)
		e.ok(err, "inspect")
		for range 3 {
			again, err := e.Inspect(e.deadline(), m.Ref)
			e.ok(err, "inspect again")
			if len(first) == 1 && first[0].Status == sandbox.StatusStopped && (len(again) != 1 || again[0] != first[0]) {
				e.fatalf("was %+v, is %+v", first, again)
			}
		}
	}},
	{"AttachAbsent", "to attach a machine that isn't there is ErrGone", func(e *env) {
		_, err := e.Attach(e.deadline(), e.absent())
		e.is(err, "attach", sandbox.ErrGone)
	}},
	{"AttachReplaced", "to attach where the name belongs to another incarnation is ErrStale", func(e *env) {
		m := e.create(e.newName())
		_, err := e.Attach(e.deadline(), e.other(m.Ref))
		e.is(err, "attach", sandbox.ErrStale)
	}},
	{"AttachTwice", "several handles on one machine see the same files, and live apart", func(e *env) {
		m := e.create(e.newName())
		a, b := e.attach(m.Ref), e.attach(m.Ref)
		a.write("shared", "by a")
		b.want("shared", "by a")
		e.ok(a.Close(), "close the first")
		b.write("shared", "by b")
		b.want("shared", "by b")
	}},
	{"Destroy", "Destroy ends the machine, and another one succeeds", func(e *env) {
		m := e.create(e.newName())
		e.attach(m.Ref).write("dir/file", "x")
		e.ok(e.Destroy(e.deadline(), m.Ref), "destroy")
		e.eventually("the machine is gone", func() bool { return e.count(m.Ref) == 0 })
		e.ok(e.Destroy(e.deadline(), m.Ref), "destroy again")
		_, err := e.Attach(e.deadline(), m.Ref)
		e.is(err, "attach", sandbox.ErrGone)
	}},
	{"DestroyAbsent", "to destroy what was never there succeeds", func(e *env) {
		e.ok(e.Destroy(e.deadline(), e.absent()), "destroy")
	}},
	{"DestroyOther", "Destroy ends nothing at all where the name belongs to another incarnation", func(e *env) {
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		b.write("kept", "x")
		e.ok(e.Destroy(e.deadline(), e.other(m.Ref)), "destroy another incarnation")
		if e.count(m.Ref) != 1 {
			e.fatalf("the machine was destroyed")
		}
		b.want("kept", "x")
	}},
	{"Replaced", "two machines never share an incarnation, even with one name, and to destroy the old one spares the new one", func(e *env) {
		old := e.create(e.newName())
		e.attach(old.Ref).write("file", "old")
		e.ok(e.Destroy(e.deadline(), old.Ref), "destroy")
		e.eventually("the machine is gone", func() bool { return e.count(old.Ref) == 0 })
		fresh := e.create(old.Ref.Name)
		if fresh.Adopted || fresh.Ref.Incarnation == old.Ref.Incarnation {
			e.fatalf("Create answered %+v after %+v was destroyed", fresh, old)
		}
		b := e.attach(fresh.Ref)
		if b.has("file") {
			e.fatalf("the new machine has files of the old one")
		}
		b.write("file", "new")
		e.ok(e.Destroy(e.deadline(), old.Ref), "destroy the old one again")
		b.want("file", "new")
		if e.count(old.Ref) != 0 || e.count(fresh.Ref) != 1 {
			e.fatalf("old and new are seen %d and %d times", e.count(old.Ref), e.count(fresh.Ref))
		}
	}},
	{"WrongHost", "only the host that a machine is bound to can tell of it", func(e *env) {
		if !e.Info().Caps.HostBound {
			return
		}
		m := e.create(e.newName())
		e.attach(m.Ref).write("kept", "x")
		elsewhere := m.Ref
		elsewhere.Host = "another-host"
		_, err := e.Inspect(e.deadline(), elsewhere)
		e.is(err, "inspect", sandbox.ErrWrongHost)
		_, err = e.Attach(e.deadline(), elsewhere)
		e.is(err, "attach", sandbox.ErrWrongHost)
		e.is(e.Destroy(e.deadline(), elsewhere), "destroy", sandbox.ErrWrongHost)
		e.attach(m.Ref).want("kept", "x")
	}},
}

// count is how many machines ref names.
func (e *env) count(ref sandbox.Ref) int {
	e.Helper()
	found, err := e.Inspect(e.deadline(), ref)
	e.ok(err, "inspect %+v", ref)
	return len(found)
}

// absent names a machine that never was.
func (e *env) absent() sandbox.Ref {
	i := e.Info()
	return sandbox.Ref{Provider: i.Provider, Name: e.newName(), Incarnation: "never-was", Host: i.Host}
}

// other is ref with an incarnation that never was.
func (e *env) other(ref sandbox.Ref) sandbox.Ref {
	ref.Incarnation = "never-was"
	return ref
}
