package mounttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// TestMounter checks a mounter against the contract of [mount.Mounter]. open
// returns one over storage that is empty and nobody else's, and cleans up with t.Cleanup.
func TestMounter(t *testing.T, open func(t *testing.T) mount.Mounter) {
	t.Helper()
	for _, c := range mounterChecks() {
		t.Run(c.name, func(t *testing.T) {
			if err := c.run(t.Context(), open(t)); err != nil {
				t.Errorf("%s: %v", c.rule, err)
			}
		})
	}
}

type mounterCheck struct {
	name, rule string
	run        func(context.Context, mount.Mounter) error
}

func mounterChecks() []mounterCheck {
	return []mounterCheck{
		{"directory", "a mount is an absolute path of an empty directory that can be written and listed", checkDirectory},
		{"same row", "two references to one row are one folder, and giving one up leaves the other", checkReferences},
		{"released twice", "releasing twice succeeds", checkReleasedTwice},
		{"outlives release", "what was written is there when the folder is mounted again", checkOutlives},
		{"renamed", "files stay where they are when slug, name and agent change", checkRenamed},
		{"apart", "folders of other ids and other scopes are other folders, none inside another", checkApart},
		{"bad rows", "a row without a canonical id or a scope is refused by field", checkBadRows},
		{"ended context", "with an ended context there is no mount and its error", checkEnded},
		{"at once", "many callers at once for one new row get one folder", checkAtOnce},
	}
}

// The rows of the checks.
const (
	firstID  mount.ID = "0192f0c1-2ab4-7cde-8f01-23456789abcd"
	secondID mount.ID = "0192f0c1-2ab4-7cde-8f01-2345678900ff"
)

func mounterRow(id mount.ID, scope string) mount.Row {
	return mount.Row{
		ID: id, Scope: scope, Slug: "__bkr__agent__06cbfb73-88fe-5cdd-954e-5a9744f9f489__default",
		Kind: mount.KindAgent, Agent: "reviewer", Name: mount.DefaultName,
	}
}

// with mounts row, runs f with its directory and releases it.
func with(ctx context.Context, m mount.Mounter, row mount.Row, f func(dir string) error) error {
	got, err := m.Mount(ctx, mount.Spec{Row: row})
	if err != nil {
		return fmt.Errorf("mounttest: Mount: %w", err)
	}
	err = f(got.HostDir())
	if released := got.Release(ctx); released != nil {
		err = errors.Join(err, fmt.Errorf("mounttest: Release: %w", released))
	}
	return err
}

func put(text string) func(dir string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, "note"), []byte(text), 0o600) }
}

func holds(text string) func(dir string) error {
	return func(dir string) error {
		got, err := os.ReadFile(filepath.Join(dir, "note"))
		if err == nil && string(got) != text {
			err = fmt.Errorf("the note reads %q, want %q", got, text)
		}
		return err
	}
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%d entries in a new folder, first %s", len(entries), entries[0].Name())
	}
	return err
}

func checkDirectory(ctx context.Context, m mount.Mounter) error {
	return with(ctx, m, mounterRow(firstID, "project:p"), func(dir string) error {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("HostDir %q is not absolute", dir)
		}
		if err := empty(dir); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, "deep", "er"), 0o755); err != nil {
			return err
		}
		return errors.Join(put("x")(filepath.Join(dir, "deep", "er")), holds("x")(filepath.Join(dir, "deep", "er")))
	})
}

func checkReferences(ctx context.Context, m mount.Mounter) error {
	row := mounterRow(firstID, "project:p")
	return with(ctx, m, row, func(first string) error {
		if err := with(ctx, m, row, put("written through the second")); err != nil {
			return err
		}
		if err := holds("written through the second")(first); err != nil {
			return fmt.Errorf("after the second was released: %w", err)
		}
		return put("the first still writes")(first)
	})
}

func checkReleasedTwice(ctx context.Context, m mount.Mounter) error {
	row := mounterRow(firstID, "project:p")
	got, err := m.Mount(ctx, mount.Spec{Row: row})
	if err != nil {
		return err
	}
	return with(ctx, m, row, func(dir string) error {
		for range 2 {
			if err := got.Release(ctx); err != nil {
				return err
			}
		}
		return put("only its own reference was given up")(dir)
	})
}

func checkOutlives(ctx context.Context, m mount.Mounter) error {
	row := mounterRow(firstID, "user:u")
	if err := with(ctx, m, row, put("remember")); err != nil {
		return err
	}
	return with(ctx, m, row, holds("remember"))
}

func checkRenamed(ctx context.Context, m mount.Mounter) error {
	row := mounterRow(firstID, "project:p")
	if err := with(ctx, m, row, put("still here")); err != nil {
		return err
	}
	row.Slug, row.Name, row.Agent = "other", "other", "other"
	return with(ctx, m, row, holds("still here"))
}

func checkApart(ctx context.Context, m mount.Mounter) error {
	rows := []mount.Row{mounterRow(firstID, "project:p"), mounterRow(secondID, "project:p")}
	for _, scope := range []string{
		"user:p", "project:P", "project:p/..", "project:../..", "project:%70", "project:", "..", ".", "/", "\\", "project:p\n",
		"project:" + strings.Repeat("ü", access.MaxID/2), "project:" + strings.Repeat("ü", access.MaxID/2-1) + "x",
	} {
		rows = append(rows, mounterRow(firstID, scope))
	}
	dirs := make([]string, len(rows))
	for i, row := range rows {
		err := with(ctx, m, row, func(dir string) error {
			dirs[i] = dir
			return errors.Join(empty(dir), put(fmt.Sprint(i))(dir))
		})
		if err != nil {
			return fmt.Errorf("%s in %q: %w", row.ID, row.Scope, err)
		}
	}
	for i, row := range rows {
		if err := with(ctx, m, row, holds(fmt.Sprint(i))); err != nil {
			return fmt.Errorf("%s in %q: %w", row.ID, row.Scope, err)
		}
		for j := range rows {
			if rel, err := filepath.Rel(dirs[i], dirs[j]); i != j && err == nil && filepath.IsLocal(rel) {
				return fmt.Errorf("the folder of %q lies in that of %q", rows[j].Scope, row.Scope)
			}
		}
	}
	return nil
}

func checkBadRows(ctx context.Context, m mount.Mounter) error {
	bad := []struct {
		field string
		row   mount.Row
	}{
		{"Row.Scope", mounterRow(firstID, "")},
		{"Row.ID", mounterRow("", "project:p")},
		{"Row.ID", mounterRow("../../etc", "project:p")},
		{"Row.ID", mounterRow(mount.ID(strings.ToUpper(string(firstID))), "project:p")},
		{"Row.ID", mounterRow(mount.ID(strings.ReplaceAll(string(firstID), "-", "")), "project:p")},
	}
	for _, b := range bad {
		_, err := m.Mount(ctx, mount.Spec{Row: b.row})
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != b.field {
			return fmt.Errorf("id %q in scope %q: got %v, want a FieldError of %s", b.row.ID, b.row.Scope, err, b.field)
		}
	}
	return nil
}

func checkEnded(ctx context.Context, m mount.Mounter) error {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	got, err := m.Mount(ended, mount.Spec{Row: mounterRow(firstID, "project:p")})
	if got != nil || !errors.Is(err, context.Canceled) {
		return fmt.Errorf("got (%v, %v), want no mount and context.Canceled", got, err)
	}
	return nil
}

func checkAtOnce(ctx context.Context, m mount.Mounter) error {
	const callers = 16
	row := mounterRow(firstID, "project:p")
	errs := make([]error, callers)
	var written, all sync.WaitGroup
	written.Add(callers)
	for i := range callers {
		all.Go(func() {
			var once sync.Once
			defer once.Do(written.Done)
			errs[i] = with(ctx, m, row, func(dir string) error {
				name := func(i int) string { return filepath.Join(dir, fmt.Sprint("of-", i)) }
				if err := os.WriteFile(name(i), []byte{byte(i)}, 0o600); err != nil {
					return err
				}
				once.Do(written.Done)
				written.Wait()
				for j := range callers {
					if got, err := os.ReadFile(name(j)); err != nil || !bytes.Equal(got, []byte{byte(j)}) {
						return fmt.Errorf("file of caller %d: %v, %v", j, got, err)
					}
				}
				return nil
			})
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
