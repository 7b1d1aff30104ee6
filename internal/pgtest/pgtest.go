package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/internal/need"
)

// startTimeout bounds the start on a machine that is busy with other things;
// by itself it takes about a second.
const startTimeout = 60 * time.Second

// Server is a server that starts when it is first asked for. The zero value is ready.
type Server struct {
	once    sync.Once
	dir     string // of the cluster, and of the socket
	process *exec.Cmd
	missing string // why there can't be one on this machine
	err     error
}

// DSN returns where to connect to as the superuser, in the form of keywords and values.
// A test on a machine without Postgres ends with need.Missing.
func (s *Server) DSN(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("host=%s user=postgres dbname=postgres sslmode=disable", s.Dir(t))
}

// Dir returns the folder with the server's socket.
func (s *Server) Dir(t testing.TB) string {
	t.Helper()
	s.once.Do(s.start)
	if s.missing != "" {
		need.Missing(t, need.Postgres, s.missing)
	}
	if s.err != nil {
		t.Fatalf("pgtest: %v", s.err)
	}
	return s.dir
}

// Stop ends the server, if it was started, and removes its cluster.
func (s *Server) Stop() {
	if s.process != nil {
		_ = s.process.Process.Signal(os.Interrupt) // without waiting for its clients
		_ = s.process.Wait()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *Server) start() {
	bin, ok := folder()
	if !ok {
		s.missing = "no initdb on PATH or in /usr/lib/postgresql/*/bin"
		return
	}
	who, err := account()
	if err != nil {
		s.missing = err.Error()
		return
	}
	// The name of a socket has about a hundred bytes at most: not below TMPDIR, which may be deep.
	if s.dir, s.err = os.MkdirTemp("/tmp", "pg"); s.err != nil {
		return
	}
	if s.err = who.own(s.dir); s.err != nil {
		return
	}
	data := filepath.Join(s.dir, "data")
	initdb := s.command(who, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres",
		"-A", "trust", "-N", "--no-locale", "-E", "UTF8", "--no-instructions")
	if out, err := initdb.CombinedOutput(); err != nil {
		s.err = fmt.Errorf("initdb: %w: %s", err, out)
		return
	}
	server := s.command(who, filepath.Join(bin, "postgres"), "-D", data, "-k", s.dir, "-c", "listen_addresses=",
		"-F", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "shared_buffers=64MB", "-c", "max_connections=200")
	var said bytes.Buffer
	server.Stdout, server.Stderr = &said, &said
	if s.err = server.Start(); s.err != nil {
		return
	}
	s.process = server
	if err := s.reachable(); err != nil {
		_ = server.Process.Kill()
		_ = server.Wait()
		s.process, s.err = nil, fmt.Errorf("%w: %s", err, said.String())
	}
}

// reachable waits until the server answers on its socket.
func (s *Server) reachable() error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	socket := filepath.Join(s.dir, ".s.PGSQL.5432")
	deadline := time.Now().Add(startTimeout)
	for {
		if conn, err := net.Dial("unix", socket); err == nil {
			ready, err := answers(conn)
			if ready || err != nil {
				return err
			}
		}
		if time.Now().After(deadline) {
			return errors.New("the server does not answer")
		}
		<-tick.C
	}
}

// answers greets the server and reports whether it accepts connections yet.
func answers(conn net.Conn) (bool, error) {
	defer conn.Close()
	body := "\x00\x03\x00\x00" + "user\x00postgres\x00database\x00postgres\x00\x00" // version 3.0
	message := append([]byte{0, 0, 0, byte(len(body) + 4)}, body...)
	if err := conn.SetDeadline(time.Now().Add(startTimeout)); err != nil {
		return false, err
	}
	if _, err := conn.Write(message); err != nil {
		return false, nil // it may be just about to listen
	}
	var kind [1]byte
	if _, err := conn.Read(kind[:]); err != nil {
		return false, nil
	}
	return kind[0] == 'R', nil // an error tells that it is starting up
}

// folder is where the server's programs are.
func folder() (string, bool) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		if _, err := exec.LookPath(filepath.Join(filepath.Dir(path), "postgres")); err == nil {
			return filepath.Dir(path), true
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return major(b) - major(a) })
	if len(found) == 0 {
		return "", false
	}
	return filepath.Dir(found[0]), true
}

// major is the version in the path of a program.
func major(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// owner is whom the server runs as: it refuses to run as root.
type owner struct {
	uid, gid int
	other    bool // than this process
}

func account() (owner, error) {
	if os.Getuid() != 0 {
		return owner{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return owner{}, errors.New("the server does not run as root, and there is no user postgres")
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return owner{}, err
	}
	gid, err := strconv.Atoi(u.Gid)
	return owner{uid, gid, true}, err
}

func (o owner) own(dir string) error {
	if !o.other {
		return nil
	}
	return os.Chown(dir, o.uid, o.gid)
}

// command is a program run by who, in a folder who can enter.
func (s *Server) command(who owner, path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = attributes(who)
	return cmd
}
