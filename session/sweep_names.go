package session

import (
	"context"
	"fmt"
	"hash/maphash"

	"github.com/bunkroom/bunkroom/sandbox"
)

// nameSet is what the rows and the outbox named when a sweep began: eight
// bytes for each machine. Of two machines that look the same to it, one may be
// taken for named that is not, and is left alone by this sweep; never the other way round.
type nameSet struct {
	seed   maphash.Seed
	hashes map[uint64]struct{}
}

// readNames reads the set. It is read before any list, so that a machine made
// meanwhile is missing from it at worst: then the store is asked for it by its key.
func (s *sweep) readNames(ctx context.Context) error {
	s.names = nameSet{seed: maphash.MakeSeed(), hashes: map[uint64]struct{}{}}
	for after := ""; ; {
		page, err := s.machines.rows.store.Names(ctx, after)
		if err != nil {
			return fmt.Errorf("session: sweep: names: %w", err)
		}
		for _, key := range page.Items {
			s.names.hashes[s.names.hash(key)] = struct{}{}
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}

func (n nameSet) hash(key sandbox.TombstoneKey) uint64 { return maphash.Comparable(n.seed, key) }

// has reports whether the machine was named, by itself or with all of its generation.
func (n nameSet) has(key sandbox.TombstoneKey) bool {
	_, itself := n.hashes[n.hash(key)]
	key.Incarnation = ""
	_, all := n.hashes[n.hash(key)]
	return itself || all
}
