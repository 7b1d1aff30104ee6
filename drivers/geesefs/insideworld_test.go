//go:build linux

package geesefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

const (
	target = "/workspace-agent/reviewer-89abcdef"
	inDir  = "private"
)

// machine is a sandbox without processes, in which the scripts come out as a test says.
type machine struct {
	boxes *memory.Sandboxes
	sb    sandbox.Sandbox

	mu      sync.Mutex
	exits   map[string]int                   // what a script exits with; what is not here, 0
	hooks   map[string]func(context.Context) // what happens in it before
	args    map[string][][]string            // what each was called with
	refused map[string]error                 // scripts that can't be started
}

// words tell the scripts apart, in the order of a mount.
var words = map[string]string{
	stopScript: "stop", prepareScript: "prepare", launchScript: "launch", probeScript: "probe", tailScript: "tail", refreshScript: "refresh",
}

// inMachine runs fn in a bubble, and ends all that is left of the machine.
func inMachine(t *testing.T, fn func(t *testing.T, m *machine)) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{
			boxes: memory.NewSandboxes(nil), exits: map[string]int{}, hooks: map[string]func(context.Context){},
			args: map[string][][]string{}, refused: map[string]error{},
		}
		m.boxes.Handle("sh", m.sh)
		made, err := m.boxes.Create(t.Context(), sandbox.CreateRequest{Name: "m"})
		if err != nil {
			t.Fatal(err)
		}
		m.sb = m.open(t, made.Ref)
		fn(t, m)
		if err := m.boxes.Destroy(t.Context(), made.Ref); err != nil {
			t.Error(err)
		}
	})
}

func (m *machine) open(t *testing.T, ref sandbox.Ref) sandbox.Sandbox {
	t.Helper()
	sb, err := m.boxes.Attach(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return refusing{sb, m}
}

func (m *machine) sh(ctx context.Context, c *memory.Command) int {
	word := words[c.Argv[2]]
	m.mu.Lock()
	exit, hook := m.exits[word], m.hooks[word]
	m.mu.Unlock()
	if hook != nil {
		hook(ctx)
	}
	switch word {
	case "prepare":
		fmt.Fprintln(c.Stdout, "/workspace/"+c.Argv[5])
	case "launch":
		if exit == 0 {
			<-ctx.Done()
		}
	case "tail":
		fmt.Fprintln(c.Stdout, "FATAL Mounting file system: Forbidden", secretKey)
	}
	return exit
}

func (m *machine) calls(word string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.args[word])
}

func (m *machine) set(word string, exit int, hook func(context.Context)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exits[word], m.hooks[word] = exit, hook
}

// refusing is a handle that notes which scripts are started, and can't start some.
type refusing struct {
	sandbox.Sandbox
	m *machine
}

func (r refusing) Start(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
	word := words[c.Argv[2]]
	r.m.mu.Lock()
	r.m.args[word] = append(r.m.args[word], c.Argv[4:])
	err := r.m.refused[word]
	r.m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return r.Sandbox.Start(ctx, c)
}

// left are the files that are in the directory for credentials.
func (m *machine) left(t *testing.T) (all []string) {
	t.Helper()
	for info, err := range m.sb.FS().ReadDir(t.Context(), inDir) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info.Name)
	}
	return all
}

// answering is a storage that gives everybody the same answer.
type answering int

func (status answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(status), Body: http.NoBody}, nil
}

// silent is a storage that this host can't reach.
type silent struct{}

func (silent) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }

func inside(t testing.TB, m mount.Signer, change func(*InsideConfig)) *Inside {
	t.Helper()
	c := InsideConfig{Signer: m, Dir: inDir, HTTP: &http.Client{Transport: silent{}}}
	if change != nil {
		change(&c)
	}
	i, err := NewInside(c)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func public() *minter { return &minter{endpoint: "https://store.example.org", life: time.Hour} }
