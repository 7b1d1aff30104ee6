package memory_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// errorKinds are what the errors of files are told apart by.
var errorKinds = []error{
	fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, sandbox.ErrIsDir, sandbox.ErrNotDir, sandbox.ErrNotEmpty, sandbox.ErrNotLink,
	sandbox.ErrEscapes, sandbox.ErrInvalid, sandbox.ErrCrossDevice, sandbox.ErrClosed, syscall.ELOOP,
}

// kindOf is the kind of err in words. An error that is no *fs.PathError with the path p says so.
func kindOf(err error, paths ...string) string {
	if err == nil {
		return "ok"
	}
	var pe *fs.PathError
	if !errors.As(err, &pe) || !slices.Contains(paths, pe.Path) {
		return fmt.Sprintf("not a path error of %q: %v", paths, err)
	}
	for _, kind := range errorKinds {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return "other: " + err.Error()
}

// bind binds a new host directory at /workspace-agent/name.
func bind(t *testing.T, sb sandbox.Sandbox, name string) (hostDir string, unbind func() error) {
	t.Helper()
	binder, ok := sandbox.As[sandbox.Binder](sb)
	if !ok {
		t.Fatal("the handle is no Binder")
	}
	hostDir = t.TempDir()
	un, err := binder.Bind(t.Context(), hostDir, sandbox.BindRoot(sb)+"/"+name)
	if err != nil {
		t.Fatalf("Bind: %v", err)
	}
	return hostDir, func() error { return un(t.Context()) }
}

// Where paths lead, by links and by text, and how they are told.
func TestFilePaths(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	sb := mustOpen(t, boxes, "x")
	hostDir, _ := bind(t, sb, "real")
	outside := filepath.Join(t.TempDir(), "secret")
	for path, text := range map[string]string{outside: "secret", filepath.Join(hostDir, "file"): "bound"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(hostDir, "host-link")); err != nil {
		t.Fatal(err)
	}
	if err := sandbox.WriteFile(t.Context(), sb.FS(), "dir/file", []byte("own"), nil); err != nil {
		t.Fatal(err)
	}
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	for link, target := range map[string]string{
		"agent-files": "/workspace-agent", "absolute": "/workspace/dir/file", "up": "dir/../dir/file", "around": "../workspace/dir/file",
		"out": "/etc/passwd", "above": "../..", "beside": "/workspace-agentx", "loop": "loop", "dangling": "nowhere", "through": "nowhere/../dir/file", "/workspace-agent/real/through": "nowhere/../file", "chain": "absolute",
		"/workspace-agent/real/absolute": "/workspace/dir/file", "/workspace-agent/real/beside": "../../workspace/dir/file", "/workspace-agent/real/fine": "file", "/workspace-agent/real/root": "..",
	} {
		if err := links.Symlink(t.Context(), target, link); err != nil {
			t.Fatalf("Symlink(%s): %v", link, err)
		}
	}
	for _, c := range []struct{ rule, path, want string }{
		{"a file", "dir/file", "ok own"},
		{"by its absolute path", "/workspace/dir/file", "ok own"},
		{"dots go by the text, whatever is there", "nowhere/../dir/./file", "ok own"},
		{"nothing is decoded", "dir%2ffile", "file does not exist "},
		{"a link to an absolute path", "absolute", "ok own"},
		{"a link to a link", "chain", "ok own"},
		{"a link that goes up and down", "up", "ok own"},
		{"a link that leaves and comes back", "around", "ok own"},
		{"a link through the directory of binds", "agent-files/real/file", "ok bound"},
		{"a link inside a bind", "/workspace-agent/real/fine", "ok bound"},
		{"a link to nothing", "dangling", "file does not exist "},
		{"a link through nothing", "through", "file does not exist "},
		{"a link through nothing in a bind", "/workspace-agent/real/through", "file does not exist "},
		{"a link to itself", "loop", "too many levels of symbolic links "},
		{"a file as a directory", "dir/file/x", "sandbox: not a directory "},
		{"a directory as a file", "dir", "sandbox: is a directory "},
		{"a link out of the sandbox", "out", "sandbox: path escapes "},
		{"a link above everything", "above", "sandbox: path escapes "},
		{"a link to what only begins like a bind", "beside", "sandbox: path escapes "},
		{"a link out of a bind, on the host", "/workspace-agent/real/host-link", "sandbox: path escapes "},
		{"an absolute link in a bind", "/workspace-agent/real/absolute", "ok own"},
		{"a link from a bind to the working directory", "/workspace-agent/real/beside", "ok own"},
		{"a link from a bind to the directory of binds", "/workspace-agent/real/root/real/root/real/fine", "ok bound"},
		{"dots that leave", "../etc/passwd", "sandbox: path escapes "},
		{"the root", "/", "sandbox: path escapes "},
		{"what only begins like the working directory", "/workspacex/a", "sandbox: path escapes "},
		{"what is not bound", "/workspace-agent/other/file", "sandbox: path escapes "},
		{"an empty path", "", "sandbox: invalid argument "},
		{"a NUL byte", "a\x00", "sandbox: invalid argument "},
		{"no UTF-8", "\xff", "sandbox: invalid argument "},
	} {
		data, err := sandbox.ReadFile(t.Context(), sb.FS(), c.path)
		if got := kindOf(err, c.path) + " " + string(data); got != c.want {
			t.Errorf("%s: %q, want %q", c.rule, got, c.want)
		}
	}
}

// The directories that lead to binds can be looked at, and stay as they are.
func TestFileBindRoot(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	sb := mustOpen(t, boxes, "x")
	bind(t, sb, "a")
	_, unbind := bind(t, sb, "deep/b")
	root := sandbox.BindRoot(sb)
	want := []sandbox.FileInfo{{Name: "a", Kind: sandbox.KindDir, Mode: 0o755}, {Name: "deep", Kind: sandbox.KindDir, Mode: 0o755}}
	list := func() (got []sandbox.FileInfo) {
		for info, err := range sb.FS().ReadDir(t.Context(), root) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, info)
		}
		return got
	}
	if diff := cmp.Diff(want, list(), cmpopts.IgnoreFields(sandbox.FileInfo{}, "ModTime")); diff != "" {
		t.Errorf("ReadDir (-want +got)\n%s", diff)
	}
	all := &sandbox.RemoveOptions{Recursive: true}
	for _, p := range []string{root, root + "/a", root + "/deep", ".", "/workspace"} {
		wantErr(t, "Remove "+p, sb.FS().Remove(t.Context(), p, all), sandbox.ErrInvalid)
		wantErr(t, "Rename from "+p, sb.FS().Rename(t.Context(), p, "elsewhere", nil), sandbox.ErrInvalid)
		wantErr(t, "Mkdir "+p, sb.FS().Mkdir(t.Context(), p), nil)
	}
	wantErr(t, "Mkdir below the bind root", sb.FS().Mkdir(t.Context(), root+"/new"), sandbox.ErrEscapes)
	for range 2 {
		wantErr(t, "unbind", unbind(), nil)
	}
	if diff := cmp.Diff(want[:1], list(), cmpopts.IgnoreFields(sandbox.FileInfo{}, "ModTime")); diff != "" {
		t.Errorf("ReadDir after unbind (-want +got)\n%s", diff)
	}
}

// Where something can be bound, and where not.
func TestBindPlaces(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	sb := mustOpen(t, boxes, "x")
	binder, _ := sandbox.As[sandbox.Binder](sb)
	host := t.TempDir()
	if _, err := binder.Bind(t.Context(), host, "/workspace-agent/a"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule, at string
		want     error
	}{
		{"inside another bind", "/workspace-agent/a/b", sandbox.ErrInvalid},
		{"around another bind", "/workspace-agent", sandbox.ErrInvalid},
		{"in the working directory", "/workspace/a", sandbox.ErrInvalid},
		{"outside by dots", "/workspace-agent/../etc", sandbox.ErrInvalid},
		{"a relative path", "workspace-agent/b", sandbox.ErrInvalid},
		{"no path", "", sandbox.ErrInvalid},
		{"beside another bind", "/workspace-agent/ab", nil},
		{"over another bind", "/workspace-agent/a", nil},
	} {
		_, err := binder.Bind(t.Context(), host, c.at)
		wantErr(t, c.rule, err, c.want)
	}
	_, err := binder.Bind(t.Context(), filepath.Join(host, "nowhere"), "/workspace-agent/n")
	wantErr(t, "a host directory that is not there", err, fs.ErrNotExist)
	if err := sandbox.WriteFile(t.Context(), sb.FS(), "/workspace-agent/a/f", nil, nil); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "a rename from one bind to another", sb.FS().Rename(t.Context(), "/workspace-agent/a/f", "/workspace-agent/ab/f", nil), sandbox.ErrCrossDevice)
}

// Each handle has its own binds, and nothing that was opened through a handle
// outlives it: neither a file that is being read nor one that is being written.
func TestFilesEndWithTheirHandle(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	sb, other := mustOpen(t, boxes, "x"), mustOpen(t, boxes, "x")
	hostDir, _ := bind(t, sb, "real")
	_, err := other.FS().Stat(t.Context(), "/workspace-agent/real")
	wantErr(t, "another handle's bind", err, sandbox.ErrEscapes)
	for _, root := range []string{"/workspace", "/workspace-agent/real"} {
		if err := sandbox.WriteFile(t.Context(), sb.FS(), root+"/f", []byte("old"), nil); err != nil {
			t.Fatal(err)
		}
	}
	type opened struct {
		io.ReadCloser
		sandbox.Writer
	}
	var files []opened
	for _, root := range []string{"/workspace", "/workspace-agent/real"} {
		r, err := sb.FS().Open(t.Context(), root+"/f", nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := sb.FS().Create(t.Context(), root+"/f", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "new"); err != nil {
			t.Fatal(err)
		}
		files = append(files, opened{r, w})
	}
	for range 2 {
		if err := sb.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		_, err := f.Read(make([]byte, 1))
		wantErr(t, "Read", err, sandbox.ErrClosed)
		wantErr(t, "Writer.Close", f.Writer.Close(), sandbox.ErrClosed)
		wantErr(t, "Writer.Close again", f.Writer.Close(), nil)
		f.ReadCloser.Close()
	}
	data, err := sandbox.ReadFile(t.Context(), other.FS(), "f")
	if err != nil || string(data) != "old" {
		t.Errorf("the file holds %q, %v, want the old content", data, err)
	}
	onHost, err := os.ReadDir(hostDir)
	if err != nil || len(onHost) != 1 {
		t.Errorf("the bound directory holds %v, %v, want one file", onHost, err)
	}
	for _, err := range sb.FS().ReadDir(t.Context(), ".") {
		wantErr(t, "ReadDir", err, sandbox.ErrClosed)
	}
}

// What a writer promises, in memory and in a bind.
func TestFileWriters(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	sb := mustOpen(t, boxes, "x")
	bind(t, sb, "real")
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	for _, root := range []string{"/workspace", "/workspace-agent/real"} {
		create := func(name string, opts *sandbox.CreateOptions) sandbox.Writer {
			t.Helper()
			w, err := sb.FS().Create(t.Context(), root+"/"+name, opts)
			if err != nil {
				t.Fatalf("Create(%s): %v", name, err)
			}
			if _, err := io.WriteString(w, name); err != nil {
				t.Fatalf("Write(%s): %v", name, err)
			}
			return w
		}
		dropped := create("dropped/file", nil)
		wantErr(t, "Abort", dropped.Abort(), nil)
		wantErr(t, "Close after Abort", dropped.Close(), nil)
		_, err := io.WriteString(dropped, "more")
		wantErr(t, "Write after Abort", err, fs.ErrClosed)
		_, err = sb.FS().Stat(t.Context(), root+"/dropped")
		wantErr(t, "the parent of what was dropped", err, fs.ErrNotExist)

		first, second := create("one", &sandbox.CreateOptions{Exclusive: true}), create("one", &sandbox.CreateOptions{Exclusive: true})
		wantErr(t, "the first of two exclusive writers", first.Close(), nil)
		wantErr(t, "the second of two exclusive writers", second.Close(), fs.ErrExist)

		late := create("taken", nil)
		wantErr(t, "Mkdir where a file is on its way", sb.FS().Mkdir(t.Context(), root+"/taken"), nil)
		wantErr(t, "Close where a directory is by now", late.Close(), sandbox.ErrIsDir)

		wantErr(t, "Symlink", links.Symlink(t.Context(), "one", root+"/link"), nil)
		wantErr(t, "Close on a link", create("link", nil).Close(), nil)
		_, err = sb.FS().Create(t.Context(), root+"/link", &sandbox.CreateOptions{Exclusive: true})
		wantErr(t, "an exclusive writer on a link", err, fs.ErrExist)
		for _, target := range []string{"", "\x00", "\xff"} {
			wantErr(t, fmt.Sprintf("a link to %q", target), links.Symlink(t.Context(), target, root+"/bad"), sandbox.ErrInvalid)
		}
		wantErr(t, "Symlink", links.Symlink(t.Context(), "gone/dir", root+"/dangling"), nil)
		wantErr(t, "Mkdir where a link leads to nothing", sb.FS().Mkdir(t.Context(), root+"/dangling"), fs.ErrExist)
		_, err = sb.FS().Create(t.Context(), root+"/dangling", nil)
		wantErr(t, "Create where a link leads to nothing in nothing", err, fs.ErrNotExist)
		wantErr(t, "Remove of a link to nothing", sb.FS().Remove(t.Context(), root+"/dangling", nil), nil)

		_, err = sb.FS().Create(t.Context(), root+"/mode", &sandbox.CreateOptions{Mode: fs.ModeDir | 0o755})
		wantErr(t, "a mode of more than permissions", err, sandbox.ErrInvalid)
		wantErr(t, "Remove of nothing", sb.FS().Remove(t.Context(), root+"/nothing", nil), fs.ErrNotExist)
		wantErr(t, "Remove of nothing, which is fine", sb.FS().Remove(t.Context(), root+"/nothing", &sandbox.RemoveOptions{MissingOK: true}), nil)
		want := []string{"link 3 0 -rwxrwxrwx \"one\" <nil>", "one 1 4 -rw-r--r-- \"link\" <nil>", "taken 2 0 -rwxr-xr-x"}
		if diff := cmp.Diff(want, walk(t, sb, root)); diff != "" {
			t.Errorf("files in %s (-want +got)\n%s", root, diff)
		}
	}
}

// A listing streams every entry, ends where its reader stops, and ends with its handle.
func TestFileListing(t *testing.T) {
	const many = 300 // more than are read at a time
	boxes := memory.NewSandboxes(nil)
	sb := mustOpen(t, boxes, "x")
	hostDir, _ := bind(t, sb, "real")
	for i := range many {
		name := fmt.Sprint("f", i)
		if err := os.WriteFile(filepath.Join(hostDir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := sandbox.WriteFile(t.Context(), sb.FS(), name, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	roots := []string{"/workspace", "/workspace-agent/real"}
	for _, root := range roots {
		names := map[string]bool{}
		for info, err := range sb.FS().ReadDir(t.Context(), root) {
			if err != nil {
				t.Fatal(err)
			}
			names[info.Name] = true
		}
		if len(names) != many {
			t.Errorf("%s lists %d names, want %d", root, len(names), many)
		}
		for range sb.FS().ReadDir(t.Context(), root) {
			break
		}
	}
	for _, root := range roots {
		sb := mustOpen(t, boxes, "x")
		bind(t, sb, "real")
		if err := sandbox.WriteFile(t.Context(), sb.FS(), root+"/a", nil, nil); err != nil {
			t.Fatal(err)
		}
		if err := sandbox.WriteFile(t.Context(), sb.FS(), root+"/b", nil, nil); err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range sb.FS().ReadDir(t.Context(), root) {
			last = err
			sb.Close()
		}
		wantErr(t, "a listing in "+root+" whose handle was closed", last, sandbox.ErrClosed)
	}
}

// A bound directory may hold what would block a reader for ever.
func TestFileOther(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	sb := mustOpen(t, boxes, "x")
	hostDir, _ := bind(t, sb, "real")
	if err := syscall.Mkfifo(filepath.Join(hostDir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := sb.FS().Open(t.Context(), "/workspace-agent/real/pipe", nil)
	wantErr(t, "Open of a pipe", err, sandbox.ErrInvalid)
	info, err := sb.FS().Stat(t.Context(), "/workspace-agent/real/pipe")
	if err != nil || info.Kind != sandbox.KindOther {
		t.Errorf("Stat of a pipe = %+v, %v", info, err)
	}
}

// A caller that has gone gets nothing done.
func TestFileCallerGone(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	sb := mustOpen(t, boxes, "x")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	err := sb.FS().Mkdir(gone, "d")
	wantErr(t, "Mkdir", err, context.Canceled)
	if got := kindOf(err, "d"); !strings.HasPrefix(got, "other: mkdir d") {
		t.Errorf("Mkdir: %q, want a path error", got)
	}
}

// A command has the binds of its handle as they were when it started.
func TestCommandSeesBinds(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	for name, h := range memory.Coreutils() {
		boxes.Handle(name, h)
	}
	sb := mustOpen(t, boxes, "x")
	hostDir, unbind := bind(t, sb, "real")
	if err := os.WriteFile(filepath.Join(hostDir, "f"), []byte("bound"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cat := sandbox.Cmd{Argv: []string{"cat", "f"}, Dir: "/workspace-agent/real"}
	if exit, err := sandbox.Run(t.Context(), sb, cat, &out, nil); err != nil || exit.Code != 0 || out.String() != "bound" {
		t.Errorf("cat in the bind wrote %q: %+v, %v", &out, exit, err)
	}
	if err := unbind(); err != nil {
		t.Fatal(err)
	}
	_, err := sb.Start(t.Context(), cat)
	wantErr(t, "Start in what is no longer bound", err, sandbox.ErrNotStarted)
}
