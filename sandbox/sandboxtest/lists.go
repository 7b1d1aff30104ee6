package sandboxtest

import (
	"context"
	"crypto/rand"
	"maps"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// lists returns the provider's power to list.
func (e *env) lists() sandbox.Lister {
	e.Helper()
	l, ok := sandbox.As[sandbox.Lister](e.Provider)
	if !ok {
		e.fatalf("the provider is no Lister, though Options.Lists says so")
	}
	return l
}

// list returns all that is listed of a deployment.
func (e *env) list(deployment string) (all []sandbox.Listed) {
	e.Helper()
	for l, err := range e.lists().List(e.deadline(), deployment) {
		e.ok(err, "list %s", deployment)
		all = append(all, l)
	}
	return all
}

// listed finds the machine ref in the list of a deployment, nil where it isn't there.
func (e *env) listed(deployment string, ref sandbox.Ref) (found *sandbox.Listed) {
	e.Helper()
	for _, l := range e.list(deployment) {
		if l.Ref.Incarnation == ref.Incarnation {
			if found != nil {
				e.fatalf("one list shows %s twice", ref.Name)
			}
			found = &l
		}
	}
	return found
}

// deployed makes a machine of a deployment of its own, which is destroyed when the check ends.
func (e *env) deployed() (deployment string, r sandbox.CreateRequest, m sandbox.Machine) {
	e.Helper()
	r = e.request(e.newName())
	r.Labels[sandbox.LabelDeployment] = "suite-" + rand.Text()
	r.Labels[sandbox.LabelSandbox] = "sandbox-" + rand.Text()
	r.Labels[sandbox.LabelGeneration] = "7"
	m, err := e.Create(e.deadline(), r)
	e.ok(err, "create %s", r.Name)
	e.Cleanup(func() { e.Destroy(context.Background(), m.Ref) })
	return r.Labels[sandbox.LabelDeployment], r, m
}

var listChecks = []check{
	{"Shows", "a list shows each machine with its whole Ref and all its labels, exactly as they were given", func(e *env) {
		deployment, r, m := e.deployed()
		e.eventually("the machine is listed", func() bool { return e.listed(deployment, m.Ref) != nil })
		l := e.listed(deployment, m.Ref)
		if l.Ref != m.Ref {
			e.fatalf("listed as %+v, made as %+v", l.Ref, m.Ref)
		}
		if !maps.Equal(l.Labels, r.Labels) {
			e.fatalf("listed with the labels %v, made with %v", l.Labels, r.Labels)
		}
		if key, ok := l.Labelled(deployment); !ok || string(key.Sandbox) != r.Labels[sandbox.LabelSandbox] || key.Generation != 7 || key.Incarnation != m.Ref.Incarnation {
			e.fatalf("the labels say %+v, %v", key, ok)
		}
		if l.Status == sandbox.StatusUnknown || l.Status == sandbox.StatusFailed {
			e.fatalf("a sound machine is %v", l.Status)
		}
	}},
	{"Whole", "every listed machine has a name and an incarnation: what can't be killed alone must not be shown", func(e *env) {
		deployment, _, m := e.deployed()
		e.eventually("the machine is listed", func() bool { return len(e.list(deployment)) > 0 })
		for _, l := range e.list(deployment) {
			if l.Ref.Incarnation == "" || l.Ref.Name != m.Ref.Name || l.Ref.Provider != e.Info().Provider || l.Ref.Host != e.Info().Host {
				e.fatalf("listed as %+v", l.Ref)
			}
		}
	}},
	{"CreatedAt", "CreatedAt, where it is known, is when the machine was made, and stays", func(e *env) {
		before := time.Now()
		deployment, _, m := e.deployed()
		e.eventually("the machine is listed", func() bool { return e.listed(deployment, m.Ref) != nil })
		made := e.listed(deployment, m.Ref).CreatedAt
		e.attach(m.Ref).write("f", "x")
		if again := e.listed(deployment, m.Ref); again == nil || !again.CreatedAt.Equal(made) {
			e.fatalf("made at %v, later %+v", made, again)
		}
		const skew = time.Hour // between the provider's clock and ours
		if !made.IsZero() && (made.Before(before.Add(-skew)) || made.After(time.Now().Add(skew))) {
			e.fatalf("made at %v, it is %v", made, time.Now())
		}
	}},
	{"Foreign", "a list shows one deployment's machines and no others: not another's, not those without the label", func(e *env) {
		mine, _, m := e.deployed()
		theirs, _, other := e.deployed()
		bare, err := e.Create(e.deadline(), sandbox.CreateRequest{Name: e.newName(), Spec: e.opts.Spec})
		e.ok(err, "create without labels")
		e.Cleanup(func() { e.Destroy(context.Background(), bare.Ref) })
		e.eventually("both are listed", func() bool { return e.listed(mine, m.Ref) != nil && e.listed(theirs, other.Ref) != nil })
		for deployment, ref := range map[string]sandbox.Ref{mine: m.Ref, theirs: other.Ref} {
			if all := e.list(deployment); len(all) != 1 || all[0].Ref.Incarnation != ref.Incarnation {
				e.fatalf("of %s are listed %+v", deployment, all)
			}
		}
		for _, nobody := range []string{"", "suite-" + rand.Text(), mine[:len(mine)-1], mine + "x"} {
			if all := e.list(nobody); len(all) != 0 {
				e.fatalf("of the deployment %q are listed %+v", nobody, all)
			}
		}
	}},
	{"Destroyed", "what was destroyed leaves the list, at once where VisibilityLag is Immediate", func(e *env) {
		deployment, _, m := e.deployed()
		e.eventually("the machine is listed", func() bool { return e.listed(deployment, m.Ref) != nil })
		e.ok(e.Destroy(e.deadline(), m.Ref), "destroy")
		e.eventually("the machine is gone", func() bool { return e.count(m.Ref) == 0 })
		if e.Info().Caps.VisibilityLag == sandbox.Immediate && e.listed(deployment, m.Ref) != nil {
			e.fatalf("it is listed still")
		}
		if e.Info().Caps.Lag() < e.opts.patience() {
			e.eventually("it is not listed any more", func() bool { return e.listed(deployment, m.Ref) == nil })
		}
	}},
	{"Many", "a list is whole, however many there are, and ends early where no more is wanted", func(e *env) {
		const n = 20
		deployment, r, _ := e.deployed()
		together(n-1, func(int) {
			more := r
			more.Name = e.newName()
			if m, err := e.Create(e.deadline(), more); err != nil {
				e.Errorf("create: %v", err)
			} else {
				e.Cleanup(func() { e.Destroy(context.Background(), m.Ref) })
			}
		})
		e.eventually("all are listed", func() bool { return len(e.list(deployment)) == n })
		seen := 0
		for _, err := range e.lists().List(e.deadline(), deployment) {
			e.ok(err, "list")
			if seen++; seen == 3 {
				break
			}
		}
	}},
	{"NeverWakes", "List never wakes a machine", func(e *env) {
		deployment, _, m := e.deployed()
		first, err := e.Inspect(e.deadline(), m.Ref)
		e.ok(err, "inspect")
		for range 3 {
			e.list(deployment)
		}
		again, err := e.Inspect(e.deadline(), m.Ref)
		e.ok(err, "inspect again")
		if len(first) == 1 && first[0].Status == sandbox.StatusStopped && (len(again) != 1 || again[0] != first[0]) {
			e.fatalf("was %+v, is %+v", first, again)
		}
	}},
	{"Context", "a list that can't be had is an error and not an empty list, and ends with it", func(e *env) {
		deployment, _, m := e.deployed()
		e.eventually("the machine is listed", func() bool { return e.listed(deployment, m.Ref) != nil })
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		var errs int
		for _, err := range e.lists().List(ctx, deployment) {
			if errs > 0 {
				e.fatalf("after an error it goes on")
			}
			if err != nil {
				errs++
			}
		}
		if errs == 0 {
			e.fatalf("no error, though the context had ended")
		}
	}},
}
