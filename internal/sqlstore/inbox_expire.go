package sqlstore

import (
	"context"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func (s inbox) Expire(ctx context.Context, c access.ConversationID, limit int) (expired int, err error) {
	if err := transcript.CheckExpire(c, limit); err != nil {
		return 0, err
	}
	err = s.change(ctx, func(ctx context.Context, on place, clock time.Time) error {
		expired = 0
		t, err := on.find(ctx, keepTree, c)
		if err != nil {
			return err
		}
		due, err := on.inputs(ctx, leanDue, t.key, micros(clock), limit)
		if err != nil {
			return err
		}
		e, err := transcript.DecideExpire(t.Transcript, due, clock)
		if err != nil || len(e.Inputs) == 0 {
			return err
		}
		if err := on.putAway(ctx, t, e.Inputs); err != nil {
			return err
		}
		expired = len(e.Inputs)
		return on.noted(ctx, t, e.Facts, -int64(expired), clock)
	})
	if err != nil {
		return 0, err
	}
	return expired, nil
}

func (s inbox) Expired(ctx context.Context, after access.ConversationID, limit int) ([]access.ConversationID, error) {
	return s.conversations(ctx, withExpired, after, limit)
}
