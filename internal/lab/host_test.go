//go:build linux

package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/geesefs"
	"github.com/bunkroom/bunkroom/mount"
)

// hostVar is the variable by which this program, run as a child, is a host. Its
// orders are its input.
const hostVar = "BUNKROOM_LAB_HOST"

// orders are what a host in a process of its own is to do.
type orders struct {
	Endpoint, Program, Root, Private string
	Folder                           mount.ID
	Write                            map[string]string // files to write and sync; then it waits for its end
}

// host is the child: it mounts a folder, and writes to it, or tells what it holds and closes all.
func host() int {
	var o orders
	err := json.NewDecoder(os.Stdin).Decode(&o)
	if err == nil {
		err = o.carryOut(context.Background(), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (o orders) carryOut(ctx context.Context, out io.Writer) error {
	sign, err := keysSigner(o.Endpoint)
	if err != nil {
		return err
	}
	serve, err := geesefs.New(geesefs.Config{Signer: sign, Dir: o.Private, Program: o.Program})
	if err != nil {
		return err
	}
	h, err := mount.NewHost(ctx, mount.HostConfig{Server: serve, Root: o.Root})
	if err != nil {
		return err
	}
	m, err := h.Mount(ctx, spec(o.Folder))
	if err != nil {
		return errors.Join(err, h.Close(ctx))
	}
	if o.Write == nil {
		held, err := contents(m.HostDir())
		return errors.Join(err, json.NewEncoder(out).Encode(held), m.Release(ctx), h.Close(ctx), serve.Close())
	}
	for name, text := range o.Write {
		path := filepath.Join(m.HostDir(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := put(path, text); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(out).Encode(o.Write); err != nil {
		return err
	}
	for n := 0; ; n++ { // it is killed in the midst of this
		if err := put(filepath.Join(m.HostDir(), "busy"), strings.Repeat("x", n%50_000)); err != nil {
			return err
		}
	}
}

// contents are the files below a directory, but for the one that may be torn.
func contents(dir string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "busy" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		all[rel] = string(text)
		return err
	})
	return all, err
}

// child is a host in a process of its own.
type child struct {
	cmd *exec.Cmd
	out *json.Decoder
}

func start(t *testing.T, o orders) child {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Its end shows without waiting for what it has started, which may outlive it.
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := child{cmd: exec.Command(self), out: json.NewDecoder(out)}
	c.cmd.Env, c.cmd.Stdin = append(os.Environ(), hostVar+"=1"), bytes.NewReader(text)
	c.cmd.Stdout, c.cmd.Stderr = in, os.Stderr
	err = c.cmd.Start()
	in.Close()
	t.Cleanup(func() { out.Close() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.cmd.Process.Kill(), c.cmd.Wait() })
	return c
}

// says is what it says next.
func (c child) says(t *testing.T) map[string]string {
	t.Helper()
	var files map[string]string
	if err := c.out.Decode(&files); err != nil {
		t.Fatalf("the host says nothing: %v", err)
	}
	return files
}

// servers are the processes that it has started.
func (c child) servers(t *testing.T) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		status, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", c.cmd.Process.Pid)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// gone waits until processes have ended.
func gone(t *testing.T, pids []int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for _, pid := range pids {
		for {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil || strings.Contains(string(stat), ") Z ") {
				break
			}
			select {
			case <-tick.C:
			case <-late:
				t.Fatalf("process %d goes on", pid)
			}
		}
	}
}
