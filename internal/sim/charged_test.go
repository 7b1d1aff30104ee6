package sim

import (
	"context"
	"fmt"

	"github.com/bunkroom/bunkroom/session"
)

func (s toldStore) StorageCharged(ctx context.Context, charged []session.StorageCharged) error {
	s.tell(ctx)
	return s.inner.StorageCharged(ctx, charged)
}

func (w wiredStore) StorageCharged(ctx context.Context, charged []session.StorageCharged) error {
	_, err := through(ctx, w.wire, "StorageCharged", fmt.Sprint(len(charged)), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, w.r.store.StorageCharged(ctx, charged)
	})
	return err
}
