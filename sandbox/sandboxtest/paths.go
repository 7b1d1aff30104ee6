package sandboxtest

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

var pathChecks = []check{
	{"Resolve", "a relative path starts at the working directory, and dots are resolved in the text before anything is looked up", func(e *env) {
		b := e.box()
		b.write("dir/file", "x")
		for _, path := range []string{
			"dir/file", "./dir/./file", "dir//file", "no-such/../dir/file", "dir/file/../file", "a/b/../../dir/file",
			b.Workdir() + "/dir/file", b.Workdir() + "/../" + b.Workdir()[strings.LastIndex(b.Workdir(), "/")+1:] + "/dir/file",
		} {
			b.want(path, "x")
		}
	}},
	{"Escapes", "a path that leaves the files of the sandbox in its text is ErrEscapes, for every operation", func(e *env) { // T-96
		b := e.box()
		b.write("inside", "x")
		w := b.Workdir()
		for _, path := range []string{
			"..", "../x", "dir/../../x", "./../x", "/", "/etc/passwd", "/x", w + "foo", w + "foo/x", w + "/..", w + "/../x",
			sandbox.BindRoot(b), sandbox.BindRoot(b) + "/nothing-bound/x", strings.Repeat("../", 40) + "etc/passwd",
		} {
			for op, err := range e.touch(b, path, "inside") {
				e.pathIs(err, op, path, sandbox.ErrEscapes)
			}
			e.is(b.FS().Rename(e.deadline(), "inside", path, nil), "rename to "+path, sandbox.ErrEscapes)
		}
		b.want("inside", "x")
	}},
	{"NothingDecoded", "nothing is ever decoded or expanded: odd names are ordinary names", func(e *env) { // T-96
		names := []string{
			"%2e%2e", "%2e%2e%2fetc%2fpasswd", "%252e%252e%252f", "..%2f..", "%2fetc", "..\\..\\etc", "~", "~root", "$HOME", "*", "?",
			"line\nbreak", "line\rbreak", "tab\there", " ", "trailing ", "...", "..foo", "a;b", "`id`", "'q'", `"d"`, "C:", "\u202e", "-rf",
		}
		b := e.box()
		for _, name := range names {
			b.write(name, "content of "+name)
			b.write("dir/"+name+"/file", "below "+name)
		}
		slices.Sort(names)
		for _, name := range names {
			b.want(name, "content of "+name)
			b.want("dir/"+name+"/file", "below "+name)
		}
		if got := b.list("dir"); !slices.Equal(got, names) {
			e.fatalf("listed %q, want %q", got, names)
		}
	}},
	{"Invalid", "an empty path, a NUL byte or invalid UTF-8 is ErrInvalid, for every operation", func(e *env) {
		b := e.box()
		b.write("inside", "x")
		for _, path := range []string{"", "a\x00b", "inside\x00", "\x00", "\xff", "dir/\xc3("} {
			for op, err := range e.touch(b, path, "inside") {
				e.pathIs(err, op, path, sandbox.ErrInvalid)
			}
			e.is(b.FS().Rename(e.deadline(), "inside", path, nil), "rename to an invalid path", sandbox.ErrInvalid)
		}
		b.want("inside", "x")
		if names := b.list("."); len(names) != 1 {
			e.fatalf("the directory holds %q", names)
		}
	}},
	{"LongName", "a name of 200 bytes is an ordinary name", func(e *env) {
		b := e.box()
		name := strings.Repeat("n", 200)
		b.write(name, "x")
		b.want(name, "x")
	}},
}

// touch is what every operation that takes one path says to path; to is a
// name that is taken.
func (e *env) touch(b *box, path, to string) map[string]error {
	ctx := context.Background()
	f := b.FS()
	errs := map[string]error{}
	_, errs["open"] = f.Open(ctx, path, nil)
	errs["create"] = sandbox.WriteFile(ctx, f, path, []byte("escaped"), nil)
	errs["create exclusively"] = sandbox.WriteFile(ctx, f, path, []byte("escaped"), &sandbox.CreateOptions{Exclusive: true})
	_, errs["stat"] = f.Stat(ctx, path)
	_, errs["lstat"] = f.Lstat(ctx, path)
	errs["readdir"] = drain(ctx, f, path)
	errs["mkdir"] = f.Mkdir(ctx, path)
	errs["remove"] = f.Remove(ctx, path, &sandbox.RemoveOptions{MissingOK: true})
	errs["remove recursively"] = f.Remove(ctx, path, &sandbox.RemoveOptions{Recursive: true, MissingOK: true})
	errs["rename"] = f.Rename(ctx, path, to, nil)
	if l, ok := sandbox.As[sandbox.Symlinker](b.Sandbox); ok {
		errs["symlink"] = l.Symlink(ctx, to, path)
		_, errs["readlink"] = l.Readlink(ctx, path)
	}
	if a, ok := sandbox.As[sandbox.AttrSetter](b.Sandbox); ok {
		errs["chmod"] = a.Chmod(ctx, path, 0o777)
		errs["chtimes"] = a.Chtimes(ctx, path, time.Unix(1, 0))
	}
	return errs
}
