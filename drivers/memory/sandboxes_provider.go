package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Create makes a machine at once. One of that name that is seen already is adopted.
func (s *Sandboxes) Create(ctx context.Context, r sandbox.CreateRequest) (sandbox.Machine, error) {
	if r.Name == "" {
		return sandbox.Machine{}, fmt.Errorf("%w: %w: a machine must have a name", sandbox.ErrNotSent, sandbox.ErrInvalid)
	}
	f := s.ask(OpCreate, sandbox.Ref{Name: r.Name})
	if err := ctx.Err(); err != nil {
		return sandbox.Machine{}, fmt.Errorf("%w: machine %s: %w", sandbox.ErrNotSent, r.Name, context.Cause(ctx))
	}
	if err := sandbox.CheckSpec(r.Spec, 0); err != nil {
		return sandbox.Machine{}, fmt.Errorf("%w: machine %s: %w", sandbox.ErrNotSent, r.Name, err)
	}
	if err := f.before(ctx); err != nil {
		return sandbox.Machine{}, fmt.Errorf("memory: create machine %s: %w", r.Name, err)
	}
	var m sandbox.Machine
	var err error
	if f.Late != nil {
		f.Late.then(func() { _, _ = s.create(r, f) })
		err = fmt.Errorf("%w: create machine %s", ErrNoReply, r.Name)
	} else {
		m, err = s.create(r, f)
	}
	if after := f.after(ctx); after != nil {
		err = fmt.Errorf("%w: create machine %s", after, r.Name)
	}
	if err != nil {
		return sandbox.Machine{}, err
	}
	return m, nil
}

// create is the effect of Create.
func (s *Sandboxes) create(r sandbox.CreateRequest, f Fault) (sandbox.Machine, error) {
	s.mu.Lock()
	m := s.standing(r.Name)
	adopted := m != nil
	born := []*boxMachine{}
	if !adopted {
		m = s.bear(r, f)
		born = append(born, m)
		if f.Twice {
			born = append(born, s.bear(r, f))
		}
	}
	status := m.status
	s.mu.Unlock()
	if f.Hidden != nil {
		f.Hidden.then(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, m := range born {
				m.hidden = false
			}
		})
	}
	switch status {
	case sandbox.StatusStarting:
		return sandbox.Machine{}, fmt.Errorf("%w: %s", sandbox.ErrStarting, m)
	case sandbox.StatusFailed:
		return sandbox.Machine{}, fmt.Errorf("memory: %s has failed", m)
	}
	return sandbox.Machine{Ref: m.ref, Adopted: adopted}, nil
}

// standing is the machine that a Create of name finds, nil for none. Where
// names are unique even one that nobody sees yet stands in the way of another. s.mu is held.
func (s *Sandboxes) standing(name string) *boxMachine {
	for _, m := range s.machines {
		if m.ref.Name == name && (!m.hidden || s.info.Caps.UniqueNames) {
			return m
		}
	}
	return nil
}

// bear makes one machine. s.mu is held.
func (s *Sandboxes) bear(r sandbox.CreateRequest, f Fault) *boxMachine {
	s.born++
	m := &boxMachine{
		ref: sandbox.Ref{
			Provider:    s.info.Provider,
			Name:        r.Name,
			Incarnation: sandbox.Incarnation(fmt.Sprintf("%s-%d", s.info.Provider, s.born)),
			Host:        s.info.Host,
		},
		spec:   sandbox.Spec{Image: r.Spec.Image, Env: slices.Clone(r.Spec.Env)},
		labels: maps.Clone(r.Labels),
		born:   s.now(),
		status: cmp.Or(f.Status, sandbox.StatusRunning),
		hidden: f.Hidden != nil,
		root:   newBoxRoot(s.now()),
		procs:  map[*boxProcess]struct{}{},
	}
	s.machines = append(s.machines, m)
	return m
}

// Inspect lists the machines that ref names and that are to be seen.
func (s *Sandboxes) Inspect(ctx context.Context, ref sandbox.Ref) ([]sandbox.Found, error) {
	f, err := s.begin(ctx, OpInspect, ref)
	if err != nil {
		return nil, err
	}
	var found []sandbox.Found
	s.mu.Lock()
	for _, m := range s.machines {
		if !f.Unseen && m.seenAs(ref) {
			found = append(found, sandbox.Found{Incarnation: m.ref.Incarnation, Status: m.status})
		}
	}
	s.mu.Unlock()
	if err := f.after(ctx); err != nil {
		return nil, fmt.Errorf("%w: inspect machine %s", err, ref.Name)
	}
	return found, nil
}

// Attach returns a handle on the machine with ref's incarnation.
func (s *Sandboxes) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
	if ref.Incarnation == "" {
		return nil, fmt.Errorf("%w: attach to machine %s: no incarnation", sandbox.ErrInvalid, ref.Name)
	}
	f, err := s.begin(ctx, OpAttach, ref)
	if err != nil {
		return nil, err
	}
	h, err := s.attach(ref, f)
	if after := f.after(ctx); after != nil {
		err = fmt.Errorf("%w: attach to machine %s", after, ref.Name)
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (s *Sandboxes) attach(ref sandbox.Ref, f Fault) (*boxHandle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.machines, func(m *boxMachine) bool { return m.seenAs(ref) })
	switch {
	case f.Unseen:
		return nil, fmt.Errorf("%w: machine %s (%s)", sandbox.ErrGone, ref.Name, ref.Incarnation)
	case i < 0:
		return nil, s.missing(ref)
	}
	m := s.machines[i]
	switch m.status {
	case sandbox.StatusStarting:
		return nil, fmt.Errorf("%w: %s", sandbox.ErrStarting, m)
	case sandbox.StatusFailed:
		return nil, fmt.Errorf("memory: %s has failed", m)
	case sandbox.StatusStopped:
		m.status = sandbox.StatusRunning
	}
	return newBoxHandle(s, m), nil
}

// Destroy ends the machine with ref's incarnation, its processes and its
// files. A machine that is not to be seen is not destroyed either.
func (s *Sandboxes) Destroy(ctx context.Context, ref sandbox.Ref) error {
	if ref.Incarnation == "" {
		return fmt.Errorf("%w: destroy machine %s: no incarnation", sandbox.ErrInvalid, ref.Name)
	}
	f, err := s.begin(ctx, OpDestroy, ref)
	if err != nil {
		return err
	}
	effect := func() {
		s.destroy(ref.Incarnation, false, boxStop{reason: sandbox.SandboxEnded, cause: sandbox.ErrGone})
	}
	if f.Late != nil {
		f.Late.then(effect)
	} else {
		effect()
	}
	if err := f.after(ctx); err != nil {
		return fmt.Errorf("%w: destroy machine %s", err, ref.Name)
	}
	return nil
}

// destroy removes a machine and kills its processes. It reports whether there was one.
func (s *Sandboxes) destroy(i sandbox.Incarnation, evenHidden bool, how boxStop) bool {
	s.mu.Lock()
	at := slices.IndexFunc(s.machines, func(m *boxMachine) bool {
		return m.ref.Incarnation == i && (evenHidden || !m.hidden)
	})
	if at < 0 {
		s.mu.Unlock()
		return false
	}
	m := s.machines[at]
	m.gone = true
	s.machines = slices.Delete(s.machines, at, at+1)
	m.endWatches(nil, s.missing(m.ref))
	procs := slices.Collect(maps.Keys(m.procs))
	s.mu.Unlock()
	how.signal = sandbox.SignalKill
	for _, p := range procs {
		p.stop(how)
	}
	return true
}

// begin is how a call that names a machine starts.
func (s *Sandboxes) begin(ctx context.Context, op Op, ref sandbox.Ref) (Fault, error) {
	f := s.ask(op, ref)
	var err error
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case ref.Provider != "" && ref.Provider != s.info.Provider:
		err = fmt.Errorf("%w: it is %s's, not %s's", sandbox.ErrInvalid, ref.Provider, s.info.Provider)
	case ref.Name == "" && ref.Incarnation == "":
		err = fmt.Errorf("%w: neither name nor incarnation", sandbox.ErrInvalid)
	case ref.Host != "" && ref.Host != s.info.Host:
		err = fmt.Errorf("%w: %s", sandbox.ErrWrongHost, ref.Host)
	default:
		err = f.before(ctx)
	}
	if err != nil {
		return f, fmt.Errorf("memory: %s machine %s (%s): %w", op, ref.Name, ref.Incarnation, err)
	}
	return f, nil
}

// missing says why there is no machine ref. s.mu is held.
func (s *Sandboxes) missing(ref sandbox.Ref) error {
	for _, m := range s.machines {
		if m.ref.Name == ref.Name && !m.hidden {
			return fmt.Errorf("%w: machine %s is %s, not %s", sandbox.ErrStale, ref.Name, m.ref.Incarnation, ref.Incarnation)
		}
	}
	return fmt.Errorf("%w: machine %s (%s)", sandbox.ErrGone, ref.Name, ref.Incarnation)
}

// seenAs reports whether ref names m and m is to be seen.
func (m *boxMachine) seenAs(ref sandbox.Ref) bool {
	if ref.Incarnation != "" {
		return !m.hidden && m.ref.Incarnation == ref.Incarnation
	}
	return !m.hidden && m.ref.Name == ref.Name
}

func (m *boxMachine) String() string {
	return fmt.Sprintf("machine %s (%s)", m.ref.Name, m.ref.Incarnation)
}
