package transcript

import (
	"context"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
)

// round is a way through all transcripts that is gone a stretch at a time. A
// new one begins at the beginning.
type round struct {
	after  access.ConversationID // where the next stretch begins
	failed []error               // of this stretch
}

const (
	roundPage    = 200    // transcripts that are listed at once
	roundLimit   = 10_000 // of what there may be more than any number, by default
	roundFailed  = 10     // after which it is nobody's own fault
	maxRoundSize = 1_000_000
)

// stretch looks at up to *left transcripts, and does something for those that q asks for. do returns false where it can't
// be done now: the next stretch begins with that one. One that it fails with keeps it from no other. It returns true at the end.
func (r *round) stretch(ctx context.Context, s Store, q IdleQuery, left *int, do func(context.Context, Transcript) (bool, error)) (bool, error) {
	for *left > 0 {
		q.After, q.Limit = r.after, min(roundPage, *left)
		page, err := s.Idle(ctx, q)
		if err != nil {
			return false, err
		}
		*left -= q.Limit
		for _, t := range page.Transcripts {
			if ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			done, err := do(ctx, t)
			if err == nil && !done {
				return false, nil
			}
			r.after = t.Conversation
			if err != nil {
				r.failed = append(r.failed, fmt.Errorf("transcript: %s: %w", t.Conversation, err))
			}
			if len(r.failed) == roundFailed {
				return false, nil
			}
		}
		if r.after = page.Next; r.after == "" {
			return true, nil
		}
	}
	return false, nil
}

// checkRound is how much a run of a chore may do.
func checkRound(limit int) (int, error) {
	switch {
	case limit < 0 || limit > maxRoundSize:
		return 0, &access.FieldError{Field: "Limit", Rule: fmt.Sprintf("must be 0 to %d", maxRoundSize)}
	case limit == 0:
		return roundLimit, nil
	}
	return limit, nil
}
