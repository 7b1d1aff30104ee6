package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/policy"
)

// Restrict gives a machine these rules from now on, for commands that run as
// well: [Command.Reach] goes by them. sandbox.ErrUnsupported where the provider claims no
// [sandbox.EgressGuarded].
func (s *Sandboxes) Restrict(ctx context.Context, ref sandbox.Ref, rules []sandbox.EgressRule) (token string, err error) {
	switch {
	case s.info.Caps.Egress != sandbox.EgressGuarded:
		return "", fmt.Errorf("%w: restrict machine %s", sandbox.ErrUnsupported, ref.Name)
	case ref.Incarnation == "":
		return "", fmt.Errorf("%w: restrict machine %s: no incarnation", sandbox.ErrInvalid, ref.Name)
	}
	if err := policy.CheckRules(rules); err != nil {
		return "", fmt.Errorf("memory: restrict machine %s: %w", ref.Name, err)
	}
	f, err := s.begin(ctx, OpRestrict, ref)
	if err != nil {
		return "", err
	}
	err = s.restrict(ref, f, rules)
	if after := f.after(ctx); after != nil {
		err = fmt.Errorf("%w: restrict machine %s", after, ref.Name)
	}
	if err != nil {
		return "", err
	}
	return policy.Token(ref.Incarnation, rules), nil
}

func (s *Sandboxes) restrict(ref sandbox.Ref, f Fault, rules []sandbox.EgressRule) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.machines, func(m *boxMachine) bool { return m.seenAs(ref) })
	if i < 0 || f.Unseen {
		return fmt.Errorf("%w: machine %s (%s)", sandbox.ErrGone, ref.Name, ref.Incarnation)
	}
	s.machines[i].rules, s.machines[i].restricted = slices.Clone(rules), true
	return nil
}

// Reach asks whether the command may connect to a host: the error is a
// *policy.RefusedError where the rules of its machine deny it (see
// [Sandboxes.Restrict]), and nil where there are none. Nothing is connected to.
func (c *Command) Reach(host string) error { return c.reach(host) }

// reach is whether what runs in m may connect to host.
func (s *Sandboxes) reach(m *boxMachine, host string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.restricted {
		return nil
	}
	return policy.CheckHost(m.rules, host)
}
