package mount

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bunkroom/bunkroom/access"
)

// KeptSigner is a [Signer] that mints only for folders that are kept: before each
// minting it looks for the folder's row. Credentials that were minted can't be
// taken back before they expire, so this is how a folder's end ends the access to it: from the time at which the row
// is put away in the archive, by whomever, or deleted, nothing is minted for it any more, a [Renewer]
// renews no more, and with the last expiry, after at most the life that credentials
// are asked for with, what still serves the folder reads and writes nothing there.
//
// Where the row can't be looked for, nothing is minted either: a store that is away for longer
// than credentials are renewed ahead of time ([LeaseOf]) ends the access too, until it is back.
type KeptSigner struct {
	signer Signer
	store  Store
}

// KeptSignerConfig is the configuration of a [KeptSigner].
type KeptSignerConfig struct {
	Signer Signer // mints; required
	Store  Store  // has the rows; required
}

var _ Signer = (*KeptSigner)(nil)

// NewKeptSigner returns such a signer. The error is a [*access.FieldError].
func NewKeptSigner(c KeptSignerConfig) (*KeptSigner, error) {
	switch {
	case c.Signer == nil:
		return nil, &access.FieldError{Field: "Signer", Rule: "must be set"}
	case c.Store == nil:
		return nil, &access.FieldError{Field: "Store", Rule: "must be set"}
	}
	return &KeptSigner{c.Signer, c.Store}, nil
}

// Sign mints credentials for g as the signer below does. ErrNotFound: no row has its
// files there. ErrUnavailable, beside what that signer says with it: the row is in the archive,
// or could not be looked for.
func (s *KeptSigner) Sign(ctx context.Context, g Grant) (Credentials, error) {
	if err := g.Prefix.Check(); err != nil {
		return Credentials{}, err
	}
	whole := strings.TrimSuffix(string(g.Prefix), "/")
	id := ID(whole[strings.LastIndexByte(whole, '/')+1:])
	row, err := s.store.Get(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return Credentials{}, fmt.Errorf("mount %s: no credentials: %w", id, err)
	case ctx.Err() != nil:
		return Credentials{}, ctx.Err()
	case err != nil:
		return Credentials{}, fmt.Errorf("%w: mount %s: no credentials: %w", ErrUnavailable, id, err)
	case row.Archived():
		return Credentials{}, fmt.Errorf("%w: mount %s: no credentials: it is in the archive", ErrUnavailable, id)
	}
	// The id alone says nothing of whose folder it is.
	own, err := PrefixOf("", row)
	if err != nil || g.Prefix != own && !strings.HasSuffix(string(g.Prefix), "/"+string(own)) {
		return Credentials{}, fmt.Errorf("mount %s: no credentials for %q: %w", id, g.Prefix, ErrNotFound)
	}
	return s.signer.Sign(ctx, g)
}
