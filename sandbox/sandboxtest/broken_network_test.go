package sandboxtest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/sandboxtest"
)

// brokenRefusals are providers that can't restrict networks, and break the promise to say so.
var brokenRefusals = map[string]brokenProvider{
	"pretends to restrict": {"Machines/Network", restricts(func(context.Context, sandbox.Guard, sandbox.Ref, []sandbox.EgressRule) (string, error) {
		return "token", nil
	})},
	"refuses for another reason": {"Machines/Network", restricts(func(context.Context, sandbox.Guard, sandbox.Ref, []sandbox.EgressRule) (string, error) {
		return "", errors.New("not now")
	})},
	"claims to restrict": {"Machines/Network", func(p sandbox.Provider) *provider {
		return &provider{Provider: claimingEgress{p, sandbox.EgressGuarded}}
	}},
}

// claimingEgress is a provider that says something else of its network.
type claimingEgress struct {
	sandbox.Provider
	egress sandbox.Egress
}

func (p claimingEgress) Info() sandbox.Info {
	info := p.Provider.Info()
	info.Caps.Egress = p.egress
	return info
}

func (p claimingEgress) As(target any) bool { return (&provider{Provider: p.Provider}).As(target) }

// brokenNetworks are providers that each restrict wrongly in one way.
var brokenNetworks = map[string]brokenProvider{
	"hides that it restricts": {"Machines/Network", func(p sandbox.Provider) *provider {
		return &provider{Provider: struct{ sandbox.Provider }{p}}
	}},
	"denies that it restricts": {"Machines/Network", func(p sandbox.Provider) *provider {
		return &provider{Provider: claimingEgress{p, sandbox.EgressOpen}}
	}},
	"takes no rules for all": {"Network/Nobody", changes(func(rules []sandbox.EgressRule) []sandbox.EgressRule {
		if !slices.ContainsFunc(rules, func(r sandbox.EgressRule) bool { return r.Allow }) {
			return []sandbox.EgressRule{{Host: "*", Allow: true}}
		}
		return rules
	})},
	"lets pass what it has no rule about": {"Network/Listed", changes(func(rules []sandbox.EgressRule) []sandbox.EgressRule {
		return append(slices.Clone(rules), sandbox.EgressRule{Host: "*", Allow: true})
	})},
	"takes a name for all below it": {"Network/Listed", changes(func(rules []sandbox.EgressRule) []sandbox.EgressRule {
		all := slices.Clone(rules)
		for _, r := range rules {
			if !strings.HasPrefix(r.Host, "*") {
				all = append(all, sandbox.EgressRule{Host: "*." + r.Host, Allow: r.Allow})
			}
		}
		return all
	})},
	"takes all below a name for the name": {"Network/Listed", changes(func(rules []sandbox.EgressRule) []sandbox.EgressRule {
		all := slices.Clone(rules)
		for _, r := range rules {
			if name, wild := strings.CutPrefix(r.Host, "*."); wild {
				all = append(all, sandbox.EgressRule{Host: name, Allow: r.Allow})
			}
		}
		return all
	})},
	"forgets what is denied": {"Network/Specific", changes(func(rules []sandbox.EgressRule) []sandbox.EgressRule {
		return slices.DeleteFunc(slices.Clone(rules), func(r sandbox.EgressRule) bool { return !r.Allow })
	})},
	"adds rules to those there are": {"Network/Replaces", func(p sandbox.Provider) *provider {
		var mu sync.Mutex
		all := map[sandbox.Incarnation][]sandbox.EgressRule{}
		return restricts(func(ctx context.Context, g sandbox.Guard, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			all[ref.Incarnation] = append(all[ref.Incarnation], rules...)
			return g.Restrict(ctx, ref, all[ref.Incarnation])
		})(p)
	}},
	"lifts the rules when it is attached again": {"Network/Lasts", func(p sandbox.Provider) *provider {
		var mu sync.Mutex
		attached := map[sandbox.Incarnation]int{}
		broken := restricts(func(ctx context.Context, g sandbox.Guard, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
			return g.Restrict(ctx, ref, rules)
		})(p)
		broken.attach = func(ctx context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
			mu.Lock()
			attached[ref.Incarnation]++
			again := attached[ref.Incarnation] > 1
			mu.Unlock()
			if again {
				g, _ := sandbox.As[sandbox.Guard](p)
				g.Restrict(ctx, ref, []sandbox.EgressRule{{Host: "*", Allow: true}})
			}
			return p.Attach(ctx, ref)
		}
		return broken
	}},
	"has one network for all": {"Network/Apart", func(p sandbox.Provider) *provider {
		var mu sync.Mutex
		var all []sandbox.Ref
		return restricts(func(ctx context.Context, g sandbox.Guard, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
			token, err := g.Restrict(ctx, ref, rules)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				all = append(all, ref)
			}
			for _, other := range all {
				g.Restrict(ctx, other, rules)
			}
			return token, err
		})(p)
	}},
	"restricts a little later": {"Network/Running", func(p sandbox.Provider) *provider {
		var mu sync.Mutex
		once := map[sandbox.Incarnation]string{}
		return restricts(func(ctx context.Context, g sandbox.Guard, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if token := once[ref.Incarnation]; token != "" {
				time.AfterFunc(2*time.Second, func() { g.Restrict(context.Background(), ref, rules) })
				return token, nil
			}
			token, err := g.Restrict(ctx, ref, rules)
			once[ref.Incarnation] = token
			return token, err
		})(p)
	}},
	"ends what runs whatever the rules": {"Network/Same", restricts(func(ctx context.Context, g sandbox.Guard, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
		r := g.(sandbox.Reaper)
		r.Reap(ctx, ref, untagged)
		return g.Restrict(ctx, ref, rules)
	})},
	"answers with the machine for a token": {"Network/Token", restricts(func(ctx context.Context, g sandbox.Guard, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
		_, err := g.Restrict(ctx, ref, rules)
		return string(ref.Incarnation), err
	})},
	"answers with the rules for a token": {"Network/Token", restricts(func(ctx context.Context, g sandbox.Guard, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
		token, err := g.Restrict(ctx, ref, rules)
		return strings.TrimPrefix(token, string(ref.Incarnation)), err
	})},
	"makes a token each time": {"Network/Token", restricts(func(ctx context.Context, g sandbox.Guard, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
		_, err := g.Restrict(ctx, ref, rules)
		return rand.Text(), err
	})},
	"restricts what has the name": {"Network/Gone", restricts(func(ctx context.Context, g sandbox.Guard, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
		if found, err := g.(sandbox.Provider).Inspect(ctx, sandbox.Ref{Name: ref.Name}); err == nil && len(found) == 1 {
			ref.Incarnation = found[0].Incarnation
		}
		return g.Restrict(ctx, ref, rules)
	})},
	"wakes what it restricts": {"Network/NeverWakes", func(p sandbox.Provider) *provider {
		s := sleeping(p)
		s.restrict = func(ctx context.Context, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
			s.wake(ref)
			return p.(sandbox.Guard).Restrict(ctx, ref, rules)
		}
		return s.provider
	}},
	"drops the rules it can't read": {"Network/Refused", restricts(func(ctx context.Context, g sandbox.Guard, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
		sound := slices.DeleteFunc(slices.Clone(rules), func(r sandbox.EgressRule) bool { return strings.Trim(r.Host, "abcdefghijklmnopqrstuvwxyz*.") != "" })
		return g.Restrict(ctx, ref, sound)
	})},
	"restricts before it looks": {"Network/Refused", restricts(func(ctx context.Context, g sandbox.Guard, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
		token, err := g.Restrict(ctx, ref, rules)
		if errors.Is(err, sandbox.ErrInvalid) && ref.Incarnation != "" {
			g.Restrict(ctx, ref, nil)
		}
		return token, err
	})},
}

// untagged is the tag that every process of a broken provider is given.
const untagged = "none"

// restricts breaks how a provider restricts.
func restricts(breaks func(context.Context, sandbox.Guard, sandbox.Ref, []sandbox.EgressRule) (string, error)) func(sandbox.Provider) *provider {
	return func(p sandbox.Provider) *provider {
		g, _ := sandbox.As[sandbox.Guard](p)
		tagging := handles(func(h *handle) {
			h.start = func(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
				c.Tag = untagged
				return h.Sandbox.Start(ctx, c)
			}
		})(p)
		tagging.restrict = func(ctx context.Context, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
			return breaks(ctx, g, ref, rules)
		}
		return tagging
	}
}

// changes breaks which rules a provider goes by.
func changes(change func([]sandbox.EgressRule) []sandbox.EgressRule) func(sandbox.Provider) *provider {
	return restricts(func(ctx context.Context, g sandbox.Guard, ref sandbox.Ref, rules []sandbox.EgressRule) (string, error) {
		return g.Restrict(ctx, ref, change(rules))
	})
}

// TestNetworkOn is the suite on a provider that a test below has chosen.
func TestNetworkOn(t *testing.T) {
	b, chosen := brokenNetworks[os.Getenv(brokenVar)]
	if !chosen {
		return
	}
	open := func(t *testing.T) sandbox.Provider {
		boxes := memory.NewSandboxes(nil)
		let := func(c *memory.Command) bool { return c.Reach(c.Argv[1]) == nil }
		boxes.Handle("reach", func(_ context.Context, c *memory.Command) int {
			if let(c) {
				return 0
			}
			return 1
		})
		boxes.Handle("reaching", func(ctx context.Context, c *memory.Command) int {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for ; ctx.Err() == nil; <-tick.C {
				if let(c) {
					sandbox.WriteFile(ctx, c.FS, c.Path(c.Argv[2]), []byte("x"), nil)
				}
			}
			return 1
		})
		boxes.Handle("block", func(ctx context.Context, c *memory.Command) int {
			c.Stdout.Write([]byte(c.Argv[1]))
			<-ctx.Done()
			return 1
		})
		return b.of(boxes)
	}
	sandboxtest.TestProvider(t, open, &sandboxtest.Options{
		Commands: sandboxtest.Commands{
			Reach:    func(host string) []string { return []string{"reach", host} },
			Reaching: func(host, path string) []string { return []string{"reaching", host, path} },
			Block:    func(text string) []string { return []string{"block", text} },
		},
		ProcessesSeeFiles: true, Binds: true, BindsWorkdir: true, Links: true, Detached: true, Lists: true, Reaps: true, Measures: true, Guards: true,
	})
}

// Each broken provider fails the check that is about what it breaks, and the
// failure names the rule. That sound ones pass is shown by their own tests.
func TestSuiteFindsWhatIsBrokenAboutNetworks(t *testing.T) {
	for name, b := range brokenNetworks {
		t.Run(name, func(t *testing.T) { fails(t, "TestNetworkOn", name, b.check) })
	}
}
