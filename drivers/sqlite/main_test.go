package sqlite_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// childRole, when set, makes the test binary do one thing and exit: it is how
// tests have a second process.
const childRole = "BUNKROOM_SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := child(role, os.Args[1:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is a child that says "ready" when it is, and goes on once it reads a line.
type process struct {
	t   testing.TB
	cmd *exec.Cmd
	in  interface{ Write([]byte) (int, error) }
	out *bufio.Scanner
}

// start starts a child and waits until it is ready.
func start(t testing.TB, role string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), childRole+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
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
	p := &process{t, cmd, in, bufio.NewScanner(out)}
	if line := p.line(); line != "ready" {
		t.Fatalf("the child said %q", line)
	}
	return p
}

func (p *process) line() string {
	p.out.Scan()
	return p.out.Text()
}

func (p *process) goOn() {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the child's end and returns what else it said.
func (p *process) wait() []string {
	p.t.Helper()
	var said []string
	for p.out.Scan() {
		said = append(said, p.out.Text())
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatalf("the child: %v: %s", err, strings.Join(said, "\n"))
	}
	return said
}

// ready is the child's side of start and goOn.
func ready() error {
	fmt.Println("ready")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}
