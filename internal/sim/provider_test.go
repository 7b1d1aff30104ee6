package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// wiredProvider is the provider as one replica reaches it.
type wiredProvider struct{ wire }

var _ sandbox.Provider = wiredProvider{}

func (w wiredProvider) Info() sandbox.Info { return w.r.boxes[w.r.host].Info() }

func (w wiredProvider) As(target any) bool {
	switch power := target.(type) {
	case *sandbox.Lister:
		*power = w
	case *sandbox.Reaper:
		*power = w
	case *sandbox.Measurer:
		*power = w
	default:
		return false
	}
	return true
}

// elsewhere is the error of a ref that is another host's.
func (w wiredProvider) elsewhere(ref sandbox.Ref) error {
	if info := w.Info(); info.Caps.HostBound && ref.Host != info.Host {
		return fmt.Errorf("%w: %s", sandbox.ErrWrongHost, ref.Host)
	}
	return nil
}

func (w wiredProvider) Create(ctx context.Context, q sandbox.CreateRequest) (sandbox.Machine, error) {
	s := w.r.sim
	if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > window {
		s.violated("deadline", "a create of %s has more time than its window", short(q.Name))
	}
	s.checkIntent(q.Name)
	v, err := w.r.park(ctx, "Create", short(q.Name))
	if err == nil {
		err = v.fail
	}
	if err != nil {
		return sandbox.Machine{}, err
	}
	type birth struct{ m *machine }
	born := make(chan birth, 2)
	stray := ctx.Err() != nil // it leaves a process that was paused: nobody waits for it any more
	at := birthplace{w.r.host, q.Name}
	s.creates[at]++
	s.later(v.after, func() {
		if w.r.host == s.gone {
			return
		}
		born <- birth{s.birth(w.r.host, q, stray, v.starts)}
		if v.again < 0 {
			s.creates[at]--
			return
		}
		s.later(v.again, func() {
			if w.r.host == s.gone {
				return
			}
			s.creates[at]--
			s.birth(w.r.host, q, stray, v.starts)
		})
	})
	var b birth
	select {
	case b = <-born:
	default:
		select {
		case b = <-born:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-s.over:
			return sandbox.Machine{}, errDead
		}
	}
	if runs := w.r.runs(); runs != nil || err != nil {
		return sandbox.Machine{}, errors.Join(runs, err)
	}
	if err := w.reply(ctx, v, "Create"); err != nil {
		return sandbox.Machine{}, err
	}
	if b.m.ready.After(s.clock()) {
		return sandbox.Machine{}, fmt.Errorf("%w: %v", sandbox.ErrStarting, b.m)
	}
	return sandbox.Machine{Ref: b.m.ref}, nil
}

func (w wiredProvider) Inspect(ctx context.Context, ref sandbox.Ref) ([]sandbox.Found, error) {
	s := w.r.sim
	if err := w.elsewhere(ref); err != nil {
		return nil, err
	}
	v, err := w.r.park(ctx, "Inspect", short(ref.Name)+" "+string(ref.Incarnation))
	if err == nil {
		err = v.fail
	}
	if err != nil {
		return nil, err
	}
	var found []sandbox.Found
	for _, m := range s.named(w.r.host, ref) {
		if s.seen(m, v.age) && !(ref.Incarnation != "" && s.blind(m, v)) {
			found = append(found, sandbox.Found{Incarnation: m.ref.Incarnation, Status: s.status(m)})
		}
	}
	s.log("  %v sees %v", w.r, found)
	if err := w.reply(ctx, v, "Inspect"); err != nil {
		return nil, err
	}
	return found, nil
}

// blind says that a machine, asked for by its incarnation, is not seen though
// it is there. That happens to it once in its life: two such answers are what counts as proof.
func (s *sim) blind(m *machine, v verdict) bool {
	if !v.blind || m.blinded {
		return false
	}
	m.blinded = true
	return true
}

func (w wiredProvider) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
	s := w.r.sim
	if err := w.elsewhere(ref); err != nil {
		return nil, err
	}
	v, err := w.r.park(ctx, "Attach", short(ref.Name)+" "+string(ref.Incarnation))
	if err == nil {
		err = v.fail
	}
	if err != nil {
		return nil, err
	}
	all := s.named(w.r.host, ref)
	if len(all) == 0 || !s.seen(all[0], v.age) || v.blind { // of no account by itself: Inspect is asked next
		return nil, fmt.Errorf("%w: %s", sandbox.ErrGone, ref.Incarnation)
	}
	m := all[0]
	if m.ready.After(s.clock()) {
		return nil, fmt.Errorf("%w: %v", sandbox.ErrStarting, m)
	}
	inner, err := s.boxes[m.host].Attach(context.WithoutCancel(ctx), m.inner)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errOutage, err) // it is shown, and is not there any more
	}
	if err := w.reply(ctx, v, "Attach"); err != nil {
		inner.Close()
		return nil, err
	}
	s.attached(opOf(ctx))
	return &handle{Sandbox: inner, wire: w.wire, machine: m}, nil
}

func (w wiredProvider) Destroy(ctx context.Context, ref sandbox.Ref) error {
	s := w.r.sim
	if err := w.elsewhere(ref); err != nil {
		return err
	}
	if ref.Incarnation == "" {
		return sandbox.ErrInvalid
	}
	s.checkDry(ctx, "destroys "+string(ref.Incarnation))
	v, err := w.r.park(ctx, "Destroy", short(ref.Name)+" "+string(ref.Incarnation))
	if err == nil {
		err = v.fail
	}
	if err != nil {
		return err
	}
	all := s.named(w.r.host, ref)
	if s.world.byName {
		all = slices.DeleteFunc(s.named(w.r.host, sandbox.Ref{Name: ref.Name}), func(m *machine) bool { return !s.seen(m, v.age) })
		if len(all) > 0 && all[0].ref.Incarnation != ref.Incarnation {
			all = nil
		}
	}
	if len(all) > 0 && s.seen(all[0], 0) { // what is not to be seen is not destroyed either
		m := all[0]
		s.later(v.after, func() {
			if s.world.byName {
				for _, other := range s.named(m.host, sandbox.Ref{Name: ref.Name}) {
					if other.alive() {
						m = other
						break
					}
				}
			}
			s.die(m, true)
		})
	}
	return w.reply(ctx, v, "Destroy")
}

func (w wiredProvider) List(ctx context.Context, of string) iter.Seq2[sandbox.Listed, error] {
	return func(yield func(sandbox.Listed, error) bool) {
		s := w.r.sim
		v, err := w.r.park(ctx, "Enumerate", "")
		if err == nil {
			err = v.fail
		}
		if err != nil {
			yield(sandbox.Listed{}, err)
			return
		}
		var all []sandbox.Listed
		for _, m := range s.machines {
			if m.host == w.r.host && m.labels[sandbox.LabelDeployment] == of && s.seen(m, v.age) {
				all = append(all, sandbox.Listed{Ref: m.ref, Labels: maps.Clone(m.labels), Status: s.status(m), CreatedAt: m.born})
			}
		}
		for _, l := range all {
			if !yield(l, nil) {
				return
			}
		}
		if err := w.reply(ctx, v, "Enumerate"); err != nil {
			yield(sandbox.Listed{}, err)
		}
	}
}

func (w wiredProvider) Reap(ctx context.Context, ref sandbox.Ref, tag string) error {
	if err := w.elsewhere(ref); err != nil {
		return err
	}
	_, err := through(ctx, w.wire, "Reap", string(ref.Incarnation)+" "+tag, func(ctx context.Context) (struct{}, error) {
		for _, p := range w.r.procs {
			if p.tag == tag && p.machine.ref.Incarnation == ref.Incarnation && !p.over() {
				if err := p.inner.Signal(ctx, sandbox.SignalKill); err != nil {
					return struct{}{}, err
				}
				if _, err := p.inner.Wait(ctx); err != nil && !errors.Is(err, sandbox.ErrLost) {
					return struct{}{}, err
				}
				w.r.log("  process of %s is reaped", tag)
				w.r.tell("reaped")
			}
		}
		return struct{}{}, nil
	})
	return err
}

// Measure tells what the disk holds, which is always the same for one machine.
func (w wiredProvider) Measure(ctx context.Context, ref sandbox.Ref) (int64, error) {
	if err := w.elsewhere(ref); err != nil {
		return 0, err
	}
	return through(ctx, w.wire, "Measure", string(ref.Incarnation), func(context.Context) (int64, error) {
		for _, m := range w.r.named(w.r.host, ref) {
			switch {
			case !m.alive() || m.ref.Incarnation != ref.Incarnation:
			case w.r.status(m) != sandbox.StatusRunning:
				return 0, sandbox.ErrAsleep
			default:
				return m.bytes, nil
			}
		}
		return 0, sandbox.ErrGone
	})
}

// handle is a handle that one replica has.
type handle struct {
	sandbox.Sandbox
	wire
	machine *machine
}

func (h *handle) Ref() sandbox.Ref { return h.machine.ref }

// Start notes when a process was asked for, which is what a lease and a hold are for.
func (h *handle) Start(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
	h.r.checkStart(h.r, c.Tag)
	h.r.tell("started")
	return through(ctx, h.wire, "Start", c.Tag, func(context.Context) (sandbox.Process, error) {
		p, err := h.Sandbox.Start(ctx, c)
		if err == nil {
			h.r.boxes[h.machine.host].SetStatus(h.machine.inner.Incarnation, sandbox.StatusRunning) // it wakes
			h.r.procs = append(h.r.procs, &running{h.r, c.Tag, p, h.machine})
		}
		return p, err
	})
}

// Close is the process's own doing. One that is dead closes nothing.
func (h *handle) Close() error {
	if err := h.r.runs(); err != nil {
		return err
	}
	return h.Sandbox.Close()
}
