package transcript

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// flush writes the entries that wait: all at once, and where that is refused
// one after the other, so that the line is known of the one that can't be.
func (im *importing) flush(ctx context.Context) error {
	all := im.pending
	im.pending, im.bytes = nil, 0
	if len(all) == 0 {
		return nil
	}
	together := all[0].Change
	for _, one := range all[1:] {
		together.Append = append(together.Append, one.Append...)
		together.Labels = append(together.Labels, one.Labels...)
	}
	err := im.commit(ctx, together)
	if err != nil && !refused(err) {
		return err
	}
	for _, one := range all {
		if err != nil { // of all together
			if err := im.commit(ctx, one.Change); err != nil {
				return im.at(one.line, err)
			}
		}
		for _, s := range one.late {
			if err := im.commit(ctx, Change{Conversation: im.conversation, Settle: []Settlement{s}}); err != nil {
				return im.at(one.line, err)
			}
		}
	}
	return nil
}

// aborted makes an entry that was given up, and then labels it.
func (im *importing) aborted(ctx context.Context, d Draft, labels Change) error {
	if err := im.commit(ctx, Change{Conversation: im.conversation, Draft: &d}); err != nil {
		return err
	}
	if err := im.commit(ctx, Change{Conversation: im.conversation, Abort: []EntryID{d.ID}}); err != nil || len(labels.Labels) == 0 {
		return err
	}
	return im.commit(ctx, labels)
}

// unanswered takes large results out of an entry: what its calls have come to
// may be more than an entry can be appended with.
func unanswered(e NewEntry) (parts []Part, late []Settlement) {
	parts = slices.Clone(e.Parts)
	for i, p := range parts {
		if p.Call == nil || len(p.Call.Result) <= InlineBytes || !p.Call.Status.Settled() {
			continue
		}
		late = append(late, Settlement{CallAddress{e.ID, p.Call.ID}, p.Call.Status, p.Call.Result})
		call := *p.Call
		call.Status, call.Result = CallPending, nil
		parts[i].Call = &call
	}
	return parts, late
}

// at says which line is to blame for an error, where one is.
func (im *importing) at(line int, err error) error {
	var known *LineError
	if errors.As(err, &known) || !refused(err) {
		return err
	}
	return &LineError{line, err}
}

// refused reports whether an error is about what is imported, not about where to.
func refused(err error) bool {
	if errors.Is(err, errForm) {
		return true
	}
	var p interface {
		Problem() (status int, code, sentence string)
	}
	if !errors.As(err, &p) {
		return false
	}
	status, _, _ := p.Problem()
	return status < 500
}

// commit commits what must not be there yet. One whose reply is lost is tried again.
func (im *importing) commit(ctx context.Context, c Change) error {
	if err := c.Check(); err != nil {
		return err
	}
	done, err := im.store.Commit(ctx, c)
	lost := false
	for range importTries {
		if !errors.Is(err, ErrUnknown) {
			break
		}
		lost = true
		done, err = im.store.Commit(ctx, c)
	}
	if err == nil && done.Retried && !lost {
		err = fmt.Errorf("%w: an entry of the same id and content", ErrExists)
	}
	return err
}
