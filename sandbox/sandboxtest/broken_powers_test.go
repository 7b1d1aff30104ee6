package sandboxtest_test

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// brokenPowers are providers that each break one promise of a power of theirs.
var brokenPowers = map[string]brokenProvider{
	"lists what is another's": {"Lists/Foreign", lists(func(p *listing, _ string) iter.Seq2[sandbox.Listed, error] {
		return p.ever
	})},
	"lists by the first letters": {"Lists/Foreign", lists(func(p *listing, deployment string) iter.Seq2[sandbox.Listed, error] {
		return kept(p.ever, func(l *sandbox.Listed) bool {
			its, ok := l.Labels[sandbox.LabelDeployment]
			return ok && strings.HasPrefix(its, deployment)
		})
	})},
	"lists without labels": {"Lists/Shows", lists(func(p *listing, deployment string) iter.Seq2[sandbox.Listed, error] {
		return kept(p.of(deployment), func(l *sandbox.Listed) bool { l.Labels = nil; return true })
	})},
	"lists the deployment's label only": {"Lists/Shows", lists(func(p *listing, deployment string) iter.Seq2[sandbox.Listed, error] {
		return kept(p.of(deployment), func(l *sandbox.Listed) bool {
			l.Labels = map[string]string{sandbox.LabelDeployment: deployment}
			return true
		})
	})},
	"lists without incarnation": {"Lists/Whole", lists(func(p *listing, deployment string) iter.Seq2[sandbox.Listed, error] {
		return kept(p.of(deployment), func(l *sandbox.Listed) bool { l.Ref.Incarnation = ""; return true })
	})},
	"lists the dead for ever": {"Lists/Destroyed", lists(func(p *listing, deployment string) iter.Seq2[sandbox.Listed, error] {
		return kept(p.ever, func(l *sandbox.Listed) bool { return l.Labels[sandbox.LabelDeployment] == deployment })
	})},
	"lists one page": {"Lists/Many", lists(func(p *listing, deployment string) iter.Seq2[sandbox.Listed, error] {
		n := 0
		return kept(p.of(deployment), func(*sandbox.Listed) bool { n++; return n <= 10 })
	})},
	"dates a machine when it is asked": {"Lists/CreatedAt", lists(func(p *listing, deployment string) iter.Seq2[sandbox.Listed, error] {
		return kept(p.of(deployment), func(l *sandbox.Listed) bool { l.CreatedAt = time.Now(); return true })
	})},
	"lists none where it can't": {"Lists/Context", lists(func(p *listing, deployment string) iter.Seq2[sandbox.Listed, error] {
		return func(yield func(sandbox.Listed, error) bool) {
			for l, err := range p.of(deployment) {
				if err != nil || !yield(l, nil) {
					return
				}
			}
		}
	})},
	"wakes what it lists": {"Lists/NeverWakes", func(p sandbox.Provider) *provider {
		s := sleeping(p)
		s.list = func(ctx context.Context, deployment string) iter.Seq2[sandbox.Listed, error] {
			return kept((&listing{ctx: ctx, p: p}).of(deployment), func(l *sandbox.Listed) bool { s.wake(l.Ref); return true })
		}
		return s.provider
	}},

	"reaps every tag": {"Reaps/Others", reaps(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref, tag string) error {
		for _, t := range []string{tag, "t", "u", "t.1"} {
			if err := reap(ctx, p, ref, t); err != nil {
				return err
			}
		}
		return nil
	})},
	"reaps every incarnation": {"Reaps/Others", reaps(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref, tag string) error {
		found, err := p.Inspect(ctx, sandbox.Ref{Name: ref.Name})
		if err == nil && len(found) == 1 {
			ref.Incarnation = found[0].Incarnation
		}
		return reap(ctx, p, ref, tag)
	})},
	"reaps later": {"Reaps/Done", reaps(func(_ context.Context, p sandbox.Provider, ref sandbox.Ref, tag string) error {
		time.AfterFunc(time.Second, func() { reap(context.Background(), p, ref, tag) })
		return nil
	})},
	"asks where it should end": {"Reaps/Done", reaps(func(_ context.Context, _ sandbox.Provider, ref sandbox.Ref, tag string) error {
		return signalMarked(syscall.SIGTERM, ref, tag, func(int) bool { return true })
	})},
	"leaves what was started in turn": {"Reaps/Escaped", reaps(func(_ context.Context, _ sandbox.Provider, ref sandbox.Ref, tag string) error {
		return signalMarked(syscall.SIGKILL, ref, tag, func(parent int) bool { return parent == os.Getpid() })
	})},
	"goes by the environment": {"Reaps/Cleared", reaps(func(_ context.Context, _ sandbox.Provider, ref sandbox.Ref, tag string) error {
		return signalMarked(syscall.SIGKILL, ref, tag, func(int) bool { return true })
	})},
	"wakes what it reaps": {"Reaps/NeverWakes", func(p sandbox.Provider) *provider {
		s := sleeping(p)
		s.reap = func(ctx context.Context, ref sandbox.Ref, tag string) error {
			s.wake(ref)
			return reap(ctx, p, ref, tag)
		}
		return s.provider
	}},
	"fails where there is nothing to reap": {"Reaps/Absent", reaps(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref, tag string) error {
		if found, err := p.Inspect(ctx, ref); err == nil && len(found) == 0 {
			return sandbox.ErrGone
		}
		return reap(ctx, p, ref, tag)
	})},
	"reaps without a tag": {"Reaps/Refused", reaps(func(ctx context.Context, p sandbox.Provider, ref sandbox.Ref, tag string) error {
		if tag == "" {
			return nil
		}
		return reap(ctx, p, ref, tag)
	})},
}

// listing is a sound list, which is then broken.
type listing struct {
	ctx context.Context
	p   sandbox.Provider

	mu   sync.Mutex
	seen []sandbox.Listed // ever
}

func (p *listing) of(deployment string) iter.Seq2[sandbox.Listed, error] {
	l, _ := sandbox.As[sandbox.Lister](p.p)
	return l.List(p.ctx, deployment)
}

// made notes a machine that was created, and returns what is listed of all of them.
func (p *listing) made(r sandbox.CreateRequest, m sandbox.Machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, sandbox.Listed{Ref: m.Ref, Labels: r.Labels, Status: sandbox.StatusRunning})
}

// ever yields all machines that were ever made, of every deployment.
func (p *listing) ever(yield func(sandbox.Listed, error) bool) {
	p.mu.Lock()
	seen := slices.Clone(p.seen)
	p.mu.Unlock()
	for _, l := range seen {
		if !yield(l, nil) {
			return
		}
	}
}

// lists breaks the list of a provider.
func lists(breaks func(p *listing, deployment string) iter.Seq2[sandbox.Listed, error]) func(sandbox.Provider) *provider {
	return func(p sandbox.Provider) *provider {
		all := &listing{p: p}
		return &provider{
			Provider: p,
			create: func(ctx context.Context, r sandbox.CreateRequest) (sandbox.Machine, error) {
				m, err := p.Create(ctx, r)
				if err == nil {
					all.made(r, m)
				}
				return m, err
			},
			list: func(ctx context.Context, deployment string) iter.Seq2[sandbox.Listed, error] {
				all.ctx = ctx
				return breaks(all, deployment)
			},
		}
	}
}

// kept is a list of which some are kept, and changed.
func kept(list iter.Seq2[sandbox.Listed, error], keep func(*sandbox.Listed) bool) iter.Seq2[sandbox.Listed, error] {
	return func(yield func(sandbox.Listed, error) bool) {
		for l, err := range list {
			if (err != nil || keep(&l)) && !yield(l, err) {
				return
			}
		}
	}
}

func reap(ctx context.Context, p sandbox.Provider, ref sandbox.Ref, tag string) error {
	r, _ := sandbox.As[sandbox.Reaper](p)
	return r.Reap(ctx, ref, tag)
}

// reaps breaks the reaping of a provider.
func reaps(breaks func(context.Context, sandbox.Provider, sandbox.Ref, string) error) func(sandbox.Provider) *provider {
	return func(p sandbox.Provider) *provider {
		return &provider{Provider: p, reap: func(ctx context.Context, ref sandbox.Ref, tag string) error { return breaks(ctx, p, ref, tag) }}
	}
}

// signalMarked sends a signal to what has the tag in its environment and a parent that will do.
func signalMarked(sig syscall.Signal, ref sandbox.Ref, tag string, will func(parent int) bool) error {
	procs, err := filepath.Glob("/proc/[0-9]*")
	for _, proc := range procs {
		environ, _ := os.ReadFile(proc + "/environ")
		env := "\x00" + string(environ)
		stat, _ := os.ReadFile(proc + "/stat")
		_, rest, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(rest)
		if len(f) < 2 || !strings.Contains(env, "\x00BUNKROOM_TAG="+tag+"\x00") || !strings.Contains(env, "\x00BUNKROOM_MACHINE="+string(ref.Incarnation)+"\x00") {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(proc))
		if parent, _ := strconv.Atoi(f[1]); will(parent) {
			syscall.Kill(pid, sig)
		}
	}
	return err
}

// sleeper is a provider whose machines sleep until they are attached.
type sleeper struct {
	*provider
	mu    sync.Mutex
	awake map[sandbox.Incarnation]bool
}

func (s *sleeper) wake(ref sandbox.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awake[ref.Incarnation] = true
}

func sleeping(p sandbox.Provider) *sleeper {
	s := &sleeper{provider: &provider{Provider: p}, awake: map[sandbox.Incarnation]bool{}}
	s.attach = func(ctx context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
		s.wake(ref)
		return p.Attach(ctx, ref)
	}
	s.inspect = func(ctx context.Context, ref sandbox.Ref) ([]sandbox.Found, error) {
		found, err := p.Inspect(ctx, ref)
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, m := range found {
			if !s.awake[m.Incarnation] {
				found[i].Status = sandbox.StatusStopped
			}
		}
		return found, err
	}
	return s
}
