//go:build linux

package geesefs

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/mount"
)

const (
	bucket  = "folders"
	mountID = "0192f0c1-2ab4-7cde-8f01-23456789abcd"
	prefix  = "mounts/project%3aweb/" + mountID + "/"
)

func spec() mount.Spec {
	return mount.Spec{Row: mount.Row{ID: mountID, Scope: "project:web"}, Run: "run-7"}
}

// programs are the stand-in for geesefs and the store, built once for all runs.
var programs struct {
	once sync.Once
	dir  string
	err  error
}

// bin is the directory with the programs of internal/tools/geesefs.
func bin(t testing.TB) string {
	t.Helper()
	programs.once.Do(func() {
		if programs.dir, programs.err = filepath.Abs("../../.cache/geesefs"); programs.err != nil {
			return
		}
		if programs.err = os.MkdirAll(programs.dir, 0o755); programs.err != nil {
			return
		}
		build := exec.Command("go", "build", "-buildvcs=false", "-o", programs.dir, "./...")
		build.Dir = "../../internal/tools/geesefs"
		if out, err := build.CombinedOutput(); err != nil {
			programs.err = fmt.Errorf("go build: %w: %s", err, out)
		}
	})
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return programs.dir
}

// fuse ends a test on a machine that can't mount.
func fuse(t testing.TB) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		need.Missing(t, need.FUSE, err.Error())
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		need.Missing(t, need.FUSE, "no fusermount3 on PATH")
	}
}

// store is an object store, which refuses keys that have expired.
type store struct{ url string }

func newStore(t testing.TB) store {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin(t), "store"), bucket, secretKey)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe() // it ends with this process
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return store{strings.TrimSpace(line)}
}

// keys is how many different access keys it has accepted, and how many requests refused.
func (s store) keys(t testing.TB) (accepted, refused int) {
	t.Helper()
	answer, err := http.Get(s.url + "/-/keys")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := fmt.Fscan(answer.Body, &accepted, &refused); err != nil {
		t.Fatal(err)
	}
	return accepted, refused
}

// put makes an empty object as somebody else would, past every mount.
func (s store) put(t testing.TB, name string) {
	t.Helper()
	u := s.url + "/" + bucket + "/" + strings.ReplaceAll(prefix, "%", "%25") + name
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, u, nil)
	if err != nil {
		t.Fatal(err)
	}
	sign(r, credentials(s.url, prefix, time.Minute), time.Now())
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if said, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", answer.Status, said, err)
	}
}

const secretKey = "this-is-the-secret-key"

// credentials are good for a while, for a prefix.
func credentials(endpoint string, p mount.Prefix, life time.Duration) mount.Credentials {
	expires := time.Now().Add(life).Truncate(time.Millisecond)
	return mount.Credentials{
		Endpoint: endpoint, Region: "us-east-1", Bucket: bucket, Prefix: p,
		AccessKey: fmt.Sprintf("until-%d", expires.UnixMilli()), SecretKey: secretKey,
		SessionToken: base64.URLEncoding.EncodeToString([]byte(p)), Expires: expires,
	}
}

// minter mints credentials for a store.
type minter struct {
	endpoint string
	life     time.Duration
	spoil    func(*mount.Credentials)
	err      error

	mu     sync.Mutex
	grants []mount.Grant
}

func (m *minter) Sign(_ context.Context, g mount.Grant) (mount.Credentials, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grants = append(m.grants, g)
	c := credentials(m.endpoint, g.Prefix, m.life)
	if m.spoil != nil {
		m.spoil(&c)
	}
	return c, m.err
}

// server serves folders of a store by the stand-in.
func server(t testing.TB, m *minter, change func(*Config)) *Server {
	t.Helper()
	c := Config{Signer: m, Dir: t.TempDir(), Program: filepath.Join(bin(t), "geesefs")}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// bounded is for a call that must not take for ever.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// serve serves the folder at a directory of its own until the test ends.
func serve(t testing.TB, s *Server) (mount.Serving, string) {
	t.Helper()
	dir := t.TempDir()
	v, err := s.Serve(bounded(t), spec(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop(t, v)
		if t.Failed() {
			t.Logf("the program said%s", v.(*serving).said())
		}
	})
	eventually(t, "the folder is mounted", func() bool {
		select {
		case <-v.Done():
			t.Fatalf("it ended: %v", v.Err())
		default:
		}
		mounted, err := isMounted(dir)
		return mounted && err == nil
	})
	return v, dir
}

func stop(t testing.TB, v mount.Serving) {
	t.Helper()
	if err := v.Stop(bounded(t)); err != nil {
		t.Error(err)
	}
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(30 * time.Second); !cond(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("still not: %s", what)
		}
	}
}

// put writes a file and has it in the storage: only fsync says whether it is.
func put(name, text string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := put(name, text); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Fatalf("%s reads %q, %v; want %q", filepath.Base(name), got, err, want)
	}
}

// hasEnded reports whether a serving is done, and is for what must have happened already.
func ended(v mount.Serving) error {
	select {
	case <-v.Done():
		return v.Err()
	case <-time.After(20 * time.Second):
		return errors.New("it goes on")
	}
}
