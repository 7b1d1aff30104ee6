package files

import (
	"errors"
	"strings"
	"testing"

	"gocloud.dev/blob/memblob"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// mounts trap 17: what a list shows can be opened.
func TestPathsAreRefusedByAShortList(t *testing.T) {
	for _, c := range []struct {
		rule, path string
		ok         bool
	}{
		{"an ordinary name", "report (1).md", true},
		{"spaces, brackets and signs", "a b/[c]/@d+e#f~g'h%i&j;k", true},
		{"a quote", `say "hi".txt`, true},
		{"other scripts", "résumé/履歴書.pdf", true},
		{"a backslash", `a\b`, true},
		{"dots within a name", "..a/b../.c/...", true},
		{"a directory with a slash at its end", "a/b/", true},
		{"many slashes at the end", "a//", true},
		{"a leading slash", "/a", false},
		{"nothing", "", false},
		{"only slashes", "//", false},
		{"an empty segment", "a//b", false},
		{"one dot", "a/./b", false},
		{"two dots", "a/../b", false},
		{"two dots alone", "..", false},
		{"a newline", "a\nb", false},
		{"a NUL", "a\x00", false},
		{"a delete character", "a\x7f", false},
		{"bytes that are not UTF-8", "a\xff", false},
	} {
		if rule := pathRule(c.path); (rule == "") != c.ok {
			t.Errorf("%s: %q: %q", c.rule, c.path, rule)
		}
	}
}

func TestPathsThatAreRefusedReachNothing(t *testing.T) {
	d := open(t, Config{Bucket: memblob.OpenBucket(nil), SoleWriter: true})
	ctx := t.Context()
	for what, call := range map[string]func(p string) error{
		"Open":    func(p string) error { _, err := d.Open(ctx, p, nil); return err },
		"Stat":    func(p string) error { _, err := d.Stat(ctx, p); return err },
		"Text":    func(p string) error { _, err := d.ReadText(ctx, p); return err },
		"Write":   func(p string) error { _, err := d.Write(ctx, p, unread{t}, nil); return err },
		"Mkdir":   func(p string) error { return d.Mkdir(ctx, p) },
		"Delete":  func(p string) error { _, err := d.Delete(ctx, p, nil); return err },
		"Copy":    func(p string) error { _, err := d.Copy(ctx, p, "x", nil); return err },
		"Rename":  func(p string) error { _, err := d.Rename(ctx, "x", p, nil); return err },
		"Level":   func(p string) error { _, err := d.Level(ctx, p+"/..", nil); return err },
		"List":    func(p string) error { _, err := d.List(ctx, p+"/..", nil); return err },
		"Tree":    func(p string) error { _, err := d.Tree(ctx, p+"/..", ViewAll); return err },
		"Count":   func(p string) error { _, _, err := d.Count(ctx, p+"/..", ViewAll); return err },
		"Export":  func(p string) error { _, err := Export(ctx, []Source{{Folder: d, Path: p + "/.."}}, nil); return err },
		"Export2": func(p string) error { _, err := Export(ctx, []Source{{Folder: d, Prefix: "/" + p}}, nil); return err },
	} {
		for _, p := range []string{"../other", "/etc", "a//b", strings.Repeat("a/", 600) + "a"} {
			if len(p) > 1000 && what == "Export2" {
				continue
			}
			if err := call(p); !is[*PathError](err) {
				t.Errorf("%s(%.20q) = %v, want a *PathError", what, p, err)
			}
		}
	}
}

// No path leads out of a folder.
func TestPathsStayInTheirFolder(t *testing.T) {
	f, err := New(Config{Bucket: memblob.OpenBucket(nil), Namespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, errA := f.Folder(row())
		b, errB := f.Folder(otherRow())
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		path := rapid.String().Draw(t, "path")
		if pathRule(path) != "" {
			return
		}
		if key := a.key(path); !strings.HasPrefix(key, string(a.Prefix())) || strings.HasPrefix(key, string(b.Prefix())) {
			t.Fatalf("%s is not in %s alone", key, a.Prefix())
		}
	})
}

func TestNewRefusesByField(t *testing.T) {
	b := memblob.OpenBucket(nil)
	for field, c := range map[string]Config{
		"Bucket":    {},
		"Namespace": {Bucket: b, Namespace: "a/../b"},
		"Internal":  {Bucket: b, Internal: []string{"a/b"}},
		"MaxFile":   {Bucket: b, MaxFile: -1},
		"MaxText":   {Bucket: b, MaxText: -1},
		"MaxScan":   {Bucket: b, MaxScan: -1},
		"MaxCount":  {Bucket: b, MaxCount: -1},
	} {
		f, err := New(c)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != field || f != nil {
			t.Errorf("%s: %v, %v", field, f, err)
		}
	}
	if _, err := New(Config{Bucket: b, Namespace: strings.Repeat("a", 257)}); !is[*access.FieldError](err) {
		t.Errorf("a long namespace: %v", err)
	}
	f, err := New(Config{Bucket: b})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Folder(mount.Row{}); !is[*access.FieldError](err) {
		t.Errorf("Folder of nothing: %v", err)
	}
	if _, err := f.WorkingDirectory(mount.Row{}); !is[*access.FieldError](err) {
		t.Errorf("WorkingDirectory of nothing: %v", err)
	}
	if _, err := f.Attachments(mount.Row{}, AttachmentLimits{}); !is[*access.FieldError](err) {
		t.Errorf("Attachments of nothing: %v", err)
	}
	if _, err := f.Attachments(mount.Row{Purpose: mount.PurposeAttachments}, AttachmentLimits{}); !is[*access.FieldError](err) {
		t.Errorf("Attachments without an id: %v", err)
	}
	// A protected mount can't be browsed: by its id there is none.
	if _, err := f.Folder(attachmentsRow()); !errors.Is(err, mount.ErrNotFound) {
		t.Errorf("Folder of a protected mount: %v", err)
	}
	if _, err := f.WorkingDirectory(attachmentsRow()); !errors.Is(err, mount.ErrNotFound) {
		t.Errorf("WorkingDirectory of a protected mount: %v", err)
	}
}
