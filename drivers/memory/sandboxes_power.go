package memory

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/bunkroom/bunkroom/sandbox"
)

// List yields the machines with the label that are to be seen, as they were
// when it began.
func (s *Sandboxes) List(ctx context.Context, deployment string) iter.Seq2[sandbox.Listed, error] {
	return func(yield func(sandbox.Listed, error) bool) {
		list, err := s.list(ctx, deployment)
		for _, l := range list {
			if !yield(l, nil) {
				return
			}
		}
		if err != nil {
			yield(sandbox.Listed{}, err)
		}
	}
}

func (s *Sandboxes) list(ctx context.Context, deployment string) ([]sandbox.Listed, error) {
	f := s.ask(OpList, sandbox.Ref{Name: deployment})
	err := context.Cause(ctx)
	if err == nil {
		err = f.before(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("memory: list the machines of %s: %w", deployment, err)
	}
	var list []sandbox.Listed
	s.mu.Lock()
	for _, m := range s.machines {
		if its, ok := m.labels[sandbox.LabelDeployment]; ok && its == deployment && !m.hidden && !f.Unseen {
			list = append(list, sandbox.Listed{Ref: m.ref, Labels: maps.Clone(m.labels), Status: m.status, CreatedAt: m.born})
		}
	}
	s.mu.Unlock()
	if err := f.after(ctx); err != nil {
		return nil, fmt.Errorf("%w: list the machines of %s", err, deployment)
	}
	return list, nil
}

// Reap kills what runs with tag in the machine with ref's incarnation, as
// Cancelled. A machine that is not to be seen is not reaped either.
func (s *Sandboxes) Reap(ctx context.Context, ref sandbox.Ref, tag string) error {
	switch err := sandbox.CheckTag(tag); {
	case err != nil:
		return err
	case tag == "":
		return fmt.Errorf("%w: reap in machine %s: no Tag", sandbox.ErrInvalid, ref.Name)
	case ref.Incarnation == "":
		return fmt.Errorf("%w: reap in machine %s: no incarnation", sandbox.ErrInvalid, ref.Name)
	}
	f, err := s.begin(ctx, OpReap, ref)
	if err != nil {
		return err
	}
	if err := s.reap(ctx, ref, tag); err != nil {
		return fmt.Errorf("memory: reap %s in machine %s: %w", tag, ref.Name, err)
	}
	if err := f.after(ctx); err != nil {
		return fmt.Errorf("%w: reap %s in machine %s", err, tag, ref.Name)
	}
	return nil
}

// reap kills, and waits for the end.
func (s *Sandboxes) reap(ctx context.Context, ref sandbox.Ref, tag string) error {
	var tagged []*boxProcess
	s.mu.Lock()
	for _, m := range s.machines {
		if m.seenAs(ref) {
			tagged = slices.DeleteFunc(slices.Collect(maps.Keys(m.procs)), func(p *boxProcess) bool { return p.tag != tag })
		}
	}
	s.mu.Unlock()
	for _, p := range tagged {
		p.stop(boxStop{reason: sandbox.Cancelled, signal: sandbox.SignalKill, cause: fmt.Errorf("tag %s reaped: %w", tag, context.Canceled)})
	}
	for _, p := range tagged {
		select {
		case <-p.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
