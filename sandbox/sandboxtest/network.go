package sandboxtest

import (
	"slices"

	"github.com/bunkroom/bunkroom/sandbox"
)

// The hosts that checks reach, or don't.
const (
	friend   = "friend.example.com"
	stranger = "stranger.example.org"
)

// allow are rules that allow hosts.
func allow(hosts ...string) (rules []sandbox.EgressRule) {
	for _, h := range hosts {
		rules = append(rules, sandbox.EgressRule{Host: h, Allow: true})
	}
	return rules
}

func deny(host string) sandbox.EgressRule { return sandbox.EgressRule{Host: host} }

// guards returns the provider's power to restrict networks.
func (e *env) guards() sandbox.Guard {
	e.Helper()
	g, ok := sandbox.As[sandbox.Guard](e.Provider)
	if !ok {
		e.fatalf("the provider is no Guard, though Options.Guards says so")
	}
	return g
}

func (e *env) restrict(ref sandbox.Ref, rules []sandbox.EgressRule) (token string) {
	e.Helper()
	token, err := e.guards().Restrict(e.deadline(), ref, rules)
	e.ok(err, "restrict")
	if token == "" {
		e.fatalf("there is no token")
	}
	return token
}

// reaches ends the check where the box does not reach exactly these of the hosts.
func (b *box) reaches(want ...string) {
	b.e.Helper()
	if b.e.opts.Commands.Reach == nil {
		return
	}
	for _, host := range []string{friend, "a." + friend, stranger, "a.b." + stranger} {
		r := b.run(sandbox.Cmd{Argv: b.e.opts.Commands.Reach(host)})
		if got := r.exit.Code == 0; r.exit.Reason != sandbox.Exited || got != slices.Contains(want, host) {
			b.e.fatalf("%s is reached: %v (%+v %s%s)", host, got, r.exit, r.stdout, r.stderr)
		}
	}
}

var networkChecks = []check{
	{"Nobody", "without a rule that allows it no host can be reached", func(e *env) {
		m := e.create(e.newName())
		for _, rules := range [][]sandbox.EgressRule{nil, {}, {deny("*")}, {deny(friend), deny("*." + stranger)}} {
			e.restrict(m.Ref, rules)
			e.attach(m.Ref).reaches()
		}
	}},
	{"Listed", "a host is reached that a rule allows, and no other: not what lies below it, and below \"*.name\" all but the name", func(e *env) {
		m := e.create(e.newName())
		e.restrict(m.Ref, allow(friend, "*."+stranger))
		e.attach(m.Ref).reaches(friend, "a.b."+stranger)
	}},
	{"Specific", "of several rules about one host the most specific decides, and of two alike the denial", func(e *env) {
		m := e.create(e.newName())
		e.restrict(m.Ref, append(allow("*", friend, stranger), deny("*."+friend), deny(stranger)))
		e.attach(m.Ref).reaches(friend, "a.b."+stranger)
	}},
	{"Replaces", "new rules take the place of all there were", func(e *env) {
		m := e.create(e.newName())
		e.restrict(m.Ref, allow(friend))
		e.attach(m.Ref).reaches(friend)
		e.restrict(m.Ref, allow(stranger))
		b := e.attach(m.Ref)
		b.reaches(stranger)
		e.restrict(m.Ref, nil)
		b.reaches()
	}},
	{"Lasts", "the rules hold for every handle, of before and after, and for as long as the machine lives", func(e *env) {
		m := e.create(e.newName())
		before := e.attach(m.Ref)
		before.write("kept", "x")
		e.restrict(m.Ref, allow(friend))
		before.reaches(friend)
		before.want("kept", "x")
		before.Close()
		e.attach(m.Ref).reaches(friend)
	}},
	{"Apart", "the rules of one machine are not another's, and neither are they those of the next that has its name", func(e *env) {
		one, two := e.create(e.newName()), e.create(e.newName())
		e.restrict(one.Ref, allow(friend))
		e.restrict(two.Ref, allow(stranger))
		e.attach(one.Ref).reaches(friend)
		e.attach(two.Ref).reaches(stranger)
		e.ok(e.Destroy(e.deadline(), one.Ref), "destroy")
		e.eventually("the machine is gone", func() bool { return e.count(one.Ref) == 0 })
		next := e.create(one.Ref.Name)
		e.restrict(next.Ref, allow(stranger))
		e.attach(next.Ref).reaches(stranger)
	}},
	{"Running", "once Restrict has returned, what runs does not go on to reach what the rules deny", func(e *env) {
		if e.opts.Commands.Reaching == nil || !e.opts.ProcessesSeeFiles {
			return
		}
		m := e.create(e.newName())
		e.restrict(m.Ref, allow(friend))
		b := e.attach(m.Ref)
		b.start(sandbox.Cmd{Argv: e.opts.Commands.Reaching(friend, "reached")})
		e.eventually("it is reached", func() bool { return b.has("reached") })
		e.restrict(m.Ref, allow(stranger))
		e.ok(b.FS().Remove(e.deadline(), "reached", &sandbox.RemoveOptions{MissingOK: true}), "remove")
		e.never("what ran before still reaches a host that is denied", func() bool { return b.has("reached") })
	}},
	{"Same", "to give a machine the rules that it has disturbs nobody", func(e *env) {
		if e.opts.Commands.Block == nil {
			return
		}
		m := e.create(e.newName())
		rules := append(allow(friend, stranger), deny("*"))
		e.restrict(m.Ref, rules)
		p := e.attach(m.Ref).start(sandbox.Cmd{Argv: e.opts.Commands.Block("x")})
		e.said(p, "x")
		slices.Reverse(rules)
		e.restrict(m.Ref, append(rules, rules[0]))
		e.survives(p, "what runs")
	}},
	{"Token", "the token is the same for the same rules, in whatever order and however often, and another for others and for another incarnation", func(e *env) {
		m, other := e.create(e.newName()), e.create(e.newName())
		seen := map[string]string{}
		for what, rules := range map[string][]sandbox.EgressRule{
			"none": nil, "one allowed": allow(friend), "the same denied": {deny(friend)}, "two": allow(friend, stranger), "all": allow("*"), "all below": allow("*." + friend),
		} {
			token := e.restrict(m.Ref, rules)
			if before, taken := seen[token]; taken {
				e.fatalf("the token of %q is that of %q", what, before)
			}
			seen[token] = what
			again := slices.Clone(rules)
			slices.Reverse(again)
			if len(again) > 0 {
				again = append(again, again[0])
			}
			if e.restrict(m.Ref, again) != token {
				e.fatalf("the rules of %q in another order have another token", what)
			}
			if e.restrict(other.Ref, rules) == token {
				e.fatalf("another machine has the token of %q too", what)
			}
		}
	}},
	{"Gone", "a machine that is not there, and another incarnation, is ErrGone, and the machine that has its name is not restricted", func(e *env) {
		m := e.create(e.newName())
		e.restrict(m.Ref, allow(friend))
		for what, ref := range map[string]sandbox.Ref{"what never was": e.absent(), "another incarnation": e.other(m.Ref)} {
			_, err := e.guards().Restrict(e.deadline(), ref, nil)
			e.is(err, "restrict "+what, sandbox.ErrGone)
		}
		e.attach(m.Ref).reaches(friend)
		e.ok(e.Destroy(e.deadline(), m.Ref), "destroy")
		e.eventually("the machine is gone", func() bool { return e.count(m.Ref) == 0 })
		_, err := e.guards().Restrict(e.deadline(), m.Ref, nil)
		e.is(err, "restrict what was destroyed", sandbox.ErrGone)
	}},
	{"NeverWakes", "Restrict never wakes a machine: the rules hold once it is woken", func(e *env) {
		m := e.create(e.newName())
		first, err := e.Inspect(e.deadline(), m.Ref)
		e.ok(err, "inspect")
		e.restrict(m.Ref, allow(friend))
		again, err := e.Inspect(e.deadline(), m.Ref)
		e.ok(err, "inspect again")
		if len(first) == 1 && first[0].Status == sandbox.StatusStopped && (len(again) != 1 || again[0] != first[0]) {
			e.fatalf("was %+v, is %+v", first, again)
		}
		e.attach(m.Ref).reaches(friend)
	}},
	{"Refused", "a rule that names no host and a Ref without incarnation are ErrInvalid and change nothing; another host's machine is ErrWrongHost", func(e *env) {
		m := e.create(e.newName())
		e.restrict(m.Ref, allow(friend))
		for _, host := range []string{"", "*.", "Friend.example.com", "friend.example.com.", "https://friend.example.com", "friend.example.com:443", "10.0.0.1", "**", "x.*"} {
			_, err := e.guards().Restrict(e.deadline(), m.Ref, append(allow(stranger), deny(host)))
			e.is(err, "a rule about "+brief(host), sandbox.ErrInvalid)
		}
		byName := m.Ref
		byName.Incarnation = ""
		_, err := e.guards().Restrict(e.deadline(), byName, nil)
		e.is(err, "restrict by name", sandbox.ErrInvalid)
		if e.Info().Caps.HostBound {
			elsewhere := m.Ref
			elsewhere.Host = "another-host"
			_, err := e.guards().Restrict(e.deadline(), elsewhere, nil)
			e.is(err, "restrict elsewhere", sandbox.ErrWrongHost)
		}
		e.attach(m.Ref).reaches(friend)
	}},
}
