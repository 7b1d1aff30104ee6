//go:build linux

package local_test

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/sandbox"
)

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(30 * time.Second); !cond(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("still not: %s", what)
		}
	}
}

func create(t testing.TB, p *local.Provider, name string) sandbox.Ref {
	t.Helper()
	m, err := p.Create(deadline(t), sandbox.CreateRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return m.Ref
}

func attach(t testing.TB, p *local.Provider, ref sandbox.Ref) sandbox.Sandbox {
	t.Helper()
	sb, err := p.Attach(deadline(t), ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb
}

// sh runs a script and returns what it wrote; it must succeed.
func sh(t testing.TB, sb sandbox.Sandbox, script string) string {
	t.Helper()
	var out, errs bytes.Buffer
	exit, err := sandbox.Run(deadline(t), sb, sandbox.Cmd{Argv: []string{"sh", "-c", script}}, &out, &errs)
	if err != nil || exit.Code != 0 {
		t.Fatalf("%s: %+v, %v\n%s%s", script, exit, err, out.String(), errs.String())
	}
	return out.String()
}

// start starts a script that writes "ready" once it is.
func start(t testing.TB, sb sandbox.Sandbox, c sandbox.Cmd, script string) sandbox.Process {
	t.Helper()
	c.Argv = []string{"sh", "-c", script}
	p, err := sb.Start(deadline(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	var got []byte
	for chunk, err := range p.Output(deadline(t), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, chunk.Data...); bytes.Contains(got, []byte("ready")) {
			return p
		}
	}
	t.Fatalf("%s: ended with %q", script, got)
	return nil
}

func wait(t testing.TB, p sandbox.Process) sandbox.Exit {
	t.Helper()
	exit, err := p.Wait(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

// beats reports whether the file at path, which is removed first, is written again.
func beats(path string) bool {
	os.Remove(path)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 60 {
		<-tick.C
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}

// beating is a script that writes a file again and again.
const beating = "while :; do echo x >beat; sleep 0.02; done & echo ready; wait"
