//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Measure adds up what is allocated for the machine's working directory, its
// own /tmp and, unconfined, the directory that binds appear in: of a bind the
// link, and never what it leads to. Confined, binds are mounted where the machine's
// processes are and not where this looks, so that what the working directory holds itself counts, while
// something is bound over it too. What other file systems are mounted there
// is left out, and so is what the user the host runs as can't read.
//
// A machine that sleeps is measured like any other and sleeps on, for its
// files are here. One that Destroy has begun with is ErrGone, also where that
// was while it was being measured. ErrInvalid: ref names no incarnation.
func (p *Provider) Measure(ctx context.Context, ref sandbox.Ref) (bytes int64, err error) {
	if err := p.check(ctx, ref); err != nil {
		return 0, err
	}
	if ref.Incarnation == "" {
		return 0, fmt.Errorf("%w: measure %s: the incarnation must be named", sandbox.ErrInvalid, ref.Name)
	}
	if bytes, err = p.measure(ctx, ref); err != nil {
		return 0, fmt.Errorf("local: measure %s: %w", ref.Name, err)
	}
	return bytes, nil
}

// measure looks before and afterwards whose the name is. Incarnations never
// come back, so what was opened in between is this one's, and was whole.
func (p *Provider) measure(ctx context.Context, ref sandbox.Ref) (int64, error) {
	if err := p.stands(ref); err != nil {
		return 0, err
	}
	dir, err := os.Open(p.dir(ref.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w: %s", sandbox.ErrGone, ref.Incarnation)
	}
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	bytes, err := usage(ctx, dir, workDir, tempDir, bindDir)
	if err != nil {
		return 0, err
	}
	return bytes, p.stands(ref)
}

// stands reports ErrGone where the name of ref is not that incarnation's.
func (p *Provider) stands(ref sandbox.Ref) error {
	rec, err := p.find(ref.Name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && rec.Incarnation != ref.Incarnation {
		return fmt.Errorf("%w: %s", sandbox.ErrGone, ref.Incarnation)
	}
	return err
}
