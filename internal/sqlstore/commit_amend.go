package sqlstore

import (
	"context"
	"fmt"

	"github.com/bunkroom/bunkroom/session"
)

const amendConversation = `UPDATE bunkroom_conversations SET shared = ?, closed_at = ? WHERE id = ? AND shared = ? AND (closed_at IS NULL) = ?`

func (w *commit) amend(ctx context.Context, a session.Amendment) error {
	now := a.Becomes()
	n, err := w.exec(ctx, amendConversation, now.Shared, micros(now.ClosedAt), string(a.Was.ID), a.Was.Shared, a.Was.ClosedAt.IsZero())
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: conversation %s is not there, or was changed", session.ErrStale, a.Was.ID)
	}
	return err
}
