package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// failure is an error and what it means.
type failure struct {
	err  error
	want sandbox.Failure
}

// ownErrors is every exported error of the package, by its name.
func ownErrors() map[string]failure {
	row := func(err error, kind string, retry sandbox.Retry) failure {
		return failure{err, sandbox.Failure{Kind: kind, Retry: retry}}
	}
	no, yes, changed := sandbox.RetryNo, sandbox.RetryYes, sandbox.RetryAfterChange
	return map[string]failure{
		"ErrUnsupported":    row(sandbox.ErrUnsupported, "unsupported", no),
		"ErrInvalid":        row(sandbox.ErrInvalid, "invalid_argument", no),
		"ErrClosed":         row(sandbox.ErrClosed, "handle_closed", changed),
		"ErrGone":           row(sandbox.ErrGone, "sandbox_not_found", no),
		"ErrStale":          row(sandbox.ErrStale, "stale_incarnation", no),
		"ErrWrongHost":      row(sandbox.ErrWrongHost, "wrong_host", changed),
		"ErrAsleep":         row(sandbox.ErrAsleep, "sandbox_asleep", changed),
		"ErrNotSent":        row(sandbox.ErrNotSent, "transport", yes),
		"ErrStarting":       row(sandbox.ErrStarting, "sandbox_starting", yes),
		"ErrNotStarted":     row(sandbox.ErrNotStarted, "start_failed", no),
		"ErrLost":           {sandbox.ErrLost, sandbox.Failure{Kind: "outcome_unknown", OutcomeUnknown: true}},
		"ErrEscapes":        row(sandbox.ErrEscapes, "escapes_root", no),
		"ErrIsDir":          row(sandbox.ErrIsDir, "is_dir", no),
		"ErrNotDir":         row(sandbox.ErrNotDir, "not_dir", no),
		"ErrNotEmpty":       row(sandbox.ErrNotEmpty, "not_empty", no),
		"ErrNotLink":        row(sandbox.ErrNotLink, "not_link", no),
		"ErrPrecondition":   row(sandbox.ErrPrecondition, "precondition", changed),
		"ErrOutputLost":     row(sandbox.ErrOutputLost, "output_lost", no),
		"ErrNoProcess":      row(sandbox.ErrNoProcess, "process_gone", no),
		"ErrCrossDevice":    row(sandbox.ErrCrossDevice, "cross_device", no),
		"ErrNotAllowed":     row(sandbox.ErrNotAllowed, "transition_conflict", changed),
		"ErrEnded":          row(sandbox.ErrEnded, "sandbox_ended", changed),
		"ErrUnavailable":    row(sandbox.ErrUnavailable, "sandbox_unavailable", yes),
		"ErrWorking":        row(sandbox.ErrWorking, "sandbox_busy", changed),
		"LostError":         row(&sandbox.LostError{}, "sandbox_lost", changed),
		"ErrTooManyWatches": row(sandbox.ErrTooManyWatches, "too_many_watches", changed),
		"ErrArchive":        row(sandbox.ErrArchive, "corrupt", no),
		"TarLimitError":     row(&sandbox.TarLimitError{}, "too_large", no),
		"LimitError":        row(&sandbox.LimitError{}, "unsupported", no),
		"ProvisioningError": {&sandbox.ProvisioningError{RetryAfter: time.Minute}, sandbox.Failure{Kind: "sandbox_starting", Retry: yes, RetryAfter: time.Minute}},
		"AttemptsError":     {&sandbox.AttemptsError{RetryAfter: time.Hour}, sandbox.Failure{Kind: "sandbox_not_started", Retry: yes, RetryAfter: time.Hour}},
	}
}

// foreignErrors are the errors of others that come through the boundary.
func foreignErrors() map[string]failure {
	row := func(err error, kind string, retry sandbox.Retry) failure {
		return failure{err, sandbox.Failure{Kind: kind, Retry: retry}}
	}
	no, changed := sandbox.RetryNo, sandbox.RetryAfterChange
	return map[string]failure{
		"fs.ErrNotExist":   row(fs.ErrNotExist, "not_exist", no),
		"fs.ErrExist":      row(fs.ErrExist, "exist", no),
		"fs.ErrPermission": row(fs.ErrPermission, "permission", no),
		"fs.ErrInvalid":    row(fs.ErrInvalid, "invalid_argument", no),
		"fs.ErrClosed":     row(fs.ErrClosed, "handle_closed", changed),
		"EACCES":           row(syscall.EACCES, "permission", no),
		"EEXIST":           row(syscall.EEXIST, "exist", no),
		"ENOENT":           row(syscall.ENOENT, "not_exist", no),
		"EISDIR":           row(syscall.EISDIR, "is_dir", no),
		"ENOTDIR":          row(syscall.ENOTDIR, "not_dir", no),
		"ENOTEMPTY":        row(syscall.ENOTEMPTY, "not_empty", no),
		"EXDEV":            row(syscall.EXDEV, "cross_device", no),
		"ENAMETOOLONG":     row(syscall.ENAMETOOLONG, "name_too_long", no),
		"ELOOP":            row(syscall.ELOOP, "loop", no),
		"EROFS":            row(syscall.EROFS, "read_only", no),
		"ENOSPC":           row(syscall.ENOSPC, "no_space", changed),
		"EMFILE":           row(syscall.EMFILE, "no_resources", sandbox.RetryYes),
		"ENFILE":           row(syscall.ENFILE, "no_resources", sandbox.RetryYes),
		"EAGAIN":           row(syscall.EAGAIN, "no_resources", sandbox.RetryYes),
		"ENOMEM":           row(syscall.ENOMEM, "no_resources", sandbox.RetryYes),
		"EDQUOT":           row(syscall.EDQUOT, "quota", changed),
		"EFBIG":            row(syscall.EFBIG, "too_large", no),
		"access denied":    row(&access.DeniedError{}, "denied_access", no),
		"a field":          row(&access.FieldError{}, "invalid_argument", no),
		"cancelled":        {context.Canceled, sandbox.Failure{Kind: "cancelled", Retry: no, OutcomeUnknown: true}},
		"a deadline":       {context.DeadlineExceeded, sandbox.Failure{Kind: "timeout", Retry: no, OutcomeUnknown: true}},
		"a file's":         {os.ErrDeadlineExceeded, sandbox.Failure{Kind: "timeout", Retry: no, OutcomeUnknown: true}},
		"another":          {errors.New("x"), sandbox.Failure{Kind: "unknown", OutcomeUnknown: true}},
		"nil":              {nil, sandbox.Failure{}},

		// Of two that match, the one that says most.
		"not started, for there is no directory": row(fmt.Errorf("%w: %w", sandbox.ErrNotStarted, sandbox.ErrNotDir), "start_failed", no),
		"never sent, for it can't be":            row(fmt.Errorf("%w: %w", sandbox.ErrNotSent, sandbox.ErrUnsupported), "unsupported", no),
		"lost, as the context ended":             {fmt.Errorf("%w: %w", sandbox.ErrLost, context.Canceled), sandbox.Failure{Kind: "outcome_unknown", OutcomeUnknown: true}},
		"gone, and so are its files":             row(fmt.Errorf("%w: %w", sandbox.ErrGone, fs.ErrNotExist), "sandbox_not_found", no),
		"full, which is there":                   row(fmt.Errorf("%w: %w", sandbox.ErrNotEmpty, syscall.ENOTEMPTY), "not_empty", no),
	}
}

// Every error means what the table says, as it is and however it is wrapped.
func TestClassify(t *testing.T) {
	all := ownErrors()
	maps.Copy(all, foreignErrors())
	for name, f := range all {
		if got := sandbox.Classify(f.err); got != f.want {
			t.Errorf("%s is %+v, want %+v", name, got, f.want)
		}
		if f.err == nil {
			continue
		}
		if got := sandbox.Classify(fmt.Errorf("again: %w", errors.Join(errors.New("x"), f.err))); got != f.want {
			t.Errorf("%s, wrapped, is %+v, want %+v", name, got, f.want)
		}
		want := f.want
		if want.Kind == "invalid_argument" && (errors.Is(f.err, sandbox.ErrInvalid) || errors.Is(f.err, fs.ErrInvalid)) {
			want.Kind = "invalid_path"
		}
		if got := sandbox.Classify(&fs.PathError{Op: "open", Path: "p", Err: f.err}); got != want {
			t.Errorf("%s, of a path, is %+v, want %+v", name, got, want)
		}
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(f.want.Kind) {
			t.Errorf("%s is of the kind %q", name, f.want.Kind)
		}
	}
}

// The table has every exported error that the source of the package declares, and no other.
func TestClassifyIsTotal(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						if gen.Tok == token.VAR && strings.HasPrefix(id.Name, "Err") {
							declared = append(declared, id.Name)
						}
					}
				case *ast.TypeSpec:
					if ast.IsExported(spec.Name.Name) && strings.HasSuffix(spec.Name.Name, "Error") {
						declared = append(declared, spec.Name.Name)
					}
				}
			}
		}
	}
	slices.Sort(declared)
	if table := slices.Sorted(maps.Keys(ownErrors())); !slices.Equal(declared, table) {
		t.Fatalf("declared are %q, and the table has %q", declared, table)
	}
}

func TestRetryWords(t *testing.T) {
	for retry, want := range map[sandbox.Retry]string{
		sandbox.RetryUnknown: "unknown", sandbox.RetryNo: "no", sandbox.RetryYes: "yes", sandbox.RetryAfterChange: "after change", 99: "unknown",
	} {
		if retry.String() != want {
			t.Errorf("%d is %q, want %q", retry, retry, want)
		}
	}
}

func ExampleClassify() {
	ctx := context.Background()
	sb, err := memory.NewSandboxes(nil).Open(ctx, "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close()
	_, err = sandbox.ReadFile(ctx, sb.FS(), "missing")
	f := sandbox.Classify(err)
	fmt.Println(f.Kind, f.Retry)
	f = sandbox.Classify(&sandbox.ProvisioningError{RetryAfter: time.Minute})
	fmt.Println(f.Kind, f.Retry, f.RetryAfter)
	f = sandbox.Classify(errors.New("connection reset"))
	fmt.Println(f.Kind, f.Retry, f.OutcomeUnknown)
	// Output:
	// not_exist no
	// sandbox_starting yes 1m0s
	// unknown unknown true
}
