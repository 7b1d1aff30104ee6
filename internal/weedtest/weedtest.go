package weedtest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/internal/need"
)

// startTimeout bounds the start on a machine that is busy with other things;
// by itself it takes about three seconds.
const startTimeout = 60 * time.Second

// The answers to who may what at a server.
const (
	AccessKey = "weedtestadmin" // of a user who may do anything
	SecretKey = "weedtest/secret+of/the+admin"
	// Role may do anything with any bucket. The user may assume it, and so may
	// whoever shows a token of the issuer.
	Role     = "arn:aws:iam::role/weedtest"
	Audience = "weedtest" // whom the tokens are for
	Region   = "us-east-1"
	// ShortTTL is how long credentials live for which no time is asked, where
	// Server names no other: far less than can be asked for, which is 15 minutes.
	ShortTTL = 3 * time.Second
)

// Access is how a server is reached.
type Access struct {
	Endpoint string // of S3 and STS
	Issuer   string // the URL whose tokens the server trusts
}

// Server is a server that starts when it is first asked for. The zero value is ready.
type Server struct {
	// PublicKeys returns a JSON Web Key Set: the keys of the issuer.
	PublicKeys func() ([]byte, error)
	// TTL is how long credentials live for which no time is asked; 0 = ShortTTL.
	TTL time.Duration

	once    sync.Once
	access  Access
	issuer  *httptest.Server
	dir     string
	program string
	ports   ports
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	missing string        // why there can't be one on this machine
	err     error
}

// Start returns how the server is reached, which it starts if need be. A test
// on a machine without the program ends with need.Missing.
func (s *Server) Start(t testing.TB) Access {
	t.Helper()
	s.once.Do(s.start)
	if s.missing != "" {
		need.Missing(t, need.Weed, s.missing)
	}
	if s.err != nil {
		t.Fatalf("weedtest: %v", s.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("weedtest: what the server said last:\n%s", s.said())
		}
	})
	return s.access
}

// said is the end of what the server said.
func (s *Server) said() []byte {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return []byte(err.Error())
	}
	return text[max(0, len(text)-4096):]
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// Kill ends the server as a crash does; its data stay. Nothing else of it is called at the same time.
func (s *Server) Kill() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		<-s.ended
	}
}

// Restart starts a server that was killed again: with its data, and where it was before.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatalf("weedtest: %v", err)
	}
}

// Stop ends the server, if it was started, and removes its data.
func (s *Server) Stop() {
	s.Kill()
	if s.issuer != nil {
		s.issuer.Close()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *Server) start() {
	var err error
	if s.program, err = find(); err != nil {
		s.missing = err.Error()
		return
	}
	s.issuer = httptest.NewServer(http.HandlerFunc(s.serveKeys))
	s.access.Issuer = s.issuer.URL
	// Somebody else may take a port before the server does. It then ends, and is given others, and a
	// folder of its own: in the old one its parts would remember each other at other ports.
	for range 3 {
		if s.dir != "" {
			_ = os.RemoveAll(s.dir)
		}
		if s.dir, s.err = os.MkdirTemp("", "weed"); s.err != nil {
			return
		}
		if s.ports, s.err = freePorts(); s.err != nil {
			return
		}
		if s.err = s.run(); s.err == nil || !errors.Is(s.err, errEnded) {
			return
		}
	}
}

func (s *Server) serveKeys(w http.ResponseWriter, _ *http.Request) {
	if s.PublicKeys == nil {
		http.Error(w, "this issuer has no keys", http.StatusNotFound)
		return
	}
	set, err := s.PublicKeys()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(set)
}

// errEnded says that the server ended while it was waited for.
var errEnded = errors.New("the server has ended")

// run starts the program once and waits until it answers.
func (s *Server) run() error {
	config := filepath.Join(s.dir, "config.json")
	if err := writeConfig(config, s.access.Issuer, cmp.Or(s.TTL, ShortTTL)); err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	said, err := os.Create(s.log())
	if err != nil {
		return err
	}
	defer said.Close()
	cmd := exec.Command(s.program, append([]string{"-logtostderr=true"}, arguments(s.dir, data, config, s.ports)...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.dir, said, said, attributes()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	s.access.Endpoint = "http://" + net.JoinHostPort(loopback, strconv.Itoa(s.ports.s3))
	if err := ready(s.access.Endpoint, s.ports, ended); err != nil {
		_ = cmd.Process.Kill()
		<-ended
		return fmt.Errorf("%w: %s", err, s.said())
	}
	s.process, s.ended = cmd, ended
	return nil
}

// ready waits until files can be stored.
func ready(endpoint string, p ports, ended <-chan struct{}) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(startTimeout)
	client := &http.Client{Timeout: 5 * time.Second}
	for {
		if answers(client, fmt.Sprintf("http://%s:%d/dir/assign", loopback, p.master)) && answers(client, endpoint+"/healthz") {
			return nil
		}
		select {
		case <-ended:
			return errEnded
		case <-late:
			return fmt.Errorf("the server does not answer within %v", startTimeout)
		case <-tick.C:
		}
	}
}

func answers(client *http.Client, url string) bool {
	answer, err := client.Get(url)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err == nil && answer.StatusCode == http.StatusOK
}

// find is where the program is: in .cache/bin at the root of the module, by
// the name "make deps" gives it, or on PATH.
func find() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if text, err := os.ReadFile(filepath.Join(dir, "internal", "tools", "weed", "go.mod")); err == nil {
			version, ok := versionIn(string(text))
			if !ok {
				return "", errors.New("internal/tools/weed/go.mod names no version of seaweedfs")
			}
			program := filepath.Join(dir, ".cache", "bin", "weed-"+version)
			if _, err := exec.LookPath(program); err == nil {
				return program, nil
			}
			if program, err := exec.LookPath("weed"); err == nil {
				return program, nil
			}
			return "", fmt.Errorf("no weed on PATH, and no .cache/bin/weed-%s, which \"make deps\" builds", version)
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the root of the module was not found")
		}
	}
}
