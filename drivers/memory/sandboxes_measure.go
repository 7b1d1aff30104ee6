package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Measure returns the sum of the sizes of the machine's files, exactly:
// nothing is rounded up to blocks, and directories, links and what is bound
// take nothing. Of a machine that sleeps ([sandbox.StatusStopped], see
// [Sandboxes.SetStatus]) the answer is sandbox.ErrAsleep; in every other state it is
// measured. ErrInvalid: ref names no incarnation.
func (s *Sandboxes) Measure(ctx context.Context, ref sandbox.Ref) (bytes int64, err error) {
	if ref.Incarnation == "" {
		return 0, fmt.Errorf("%w: measure machine %s: no incarnation", sandbox.ErrInvalid, ref.Name)
	}
	f, err := s.begin(ctx, OpMeasure, ref)
	if err != nil {
		return 0, err
	}
	bytes, err = s.measure(ref, f)
	if after := f.after(ctx); after != nil {
		err = fmt.Errorf("%w: measure machine %s", after, ref.Name)
	}
	if err != nil {
		return 0, err
	}
	return bytes, nil
}

func (s *Sandboxes) measure(ref sandbox.Ref, f Fault) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.machines, func(m *boxMachine) bool { return m.seenAs(ref) })
	switch {
	case i < 0 || f.Unseen:
		return 0, fmt.Errorf("%w: machine %s (%s)", sandbox.ErrGone, ref.Name, ref.Incarnation)
	case s.machines[i].status == sandbox.StatusStopped:
		return 0, fmt.Errorf("%w: %s", sandbox.ErrAsleep, s.machines[i])
	}
	return s.machines[i].root.size(), nil
}

// size is how many bytes the files at n and below hold. No file has two names here.
func (n *boxNode) size() int64 {
	bytes := int64(len(n.data))
	for _, child := range n.entries {
		bytes += child.size()
	}
	return bytes
}
