//go:build linux

package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func hostProc(t *testing.T) procfs {
	fs, err := openProcfs("/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fs.close() })
	return fs
}

// The name of a program may hold anything.
func TestParseStat(t *testing.T) {
	s, err := parseStat([]byte("42 (a) S 1 (b) Z 7 8 9 0 -1 4194368 1 2 3 4 5 6 7 8 20 0 1 0 777 0 0\n"))
	if err != nil || s.pid != 42 || s.state != 'Z' || s.ppid != 7 || s.pgrp != 8 || s.session != 9 || s.start != 777 {
		t.Fatalf("%+v, %v", s, err)
	}
	if !s.dead() || s.ran() {
		t.Fatalf("%+v: it is dead, and has not executed a program", s)
	}
	for _, bad := range []string{"", "42", "42 (a)", "42 (a) S 1 2 3", "(a) S"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// A process is signalled only while it is the one that was meant.
func TestSignalSparesAnother(t *testing.T) {
	fs := hostProc(t)
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	s, err := fs.stat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := s
	other.start++
	fs.signal(other, syscall.SIGKILL)
	if now, err := fs.stat(s.pid); err != nil || now.dead() {
		t.Fatalf("a process was killed that has only the id: %+v, %v", now, err)
	}
	fs.signal(s, syscall.SIGKILL)
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("wait: %v", err)
	}
}

// Processes are found by their mark, which must be the whole of a variable,
// and never by an empty one.
func TestMark(t *testing.T) {
	fs := hostProc(t)
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{"OTHER=1", "MARK=abc"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for deadline := time.Now().Add(10 * time.Second); !fs.carries(stat{pid: cmd.Process.Pid}, "OTHER=1"); {
		if time.Now().After(deadline) {
			t.Fatal("the environment is not seen")
		}
	}
	for mark, want := range map[string]bool{"MARK=abc": true, "MARK=ab": false, "ARK=abc": false, "MARK=": false, "": false} {
		if got := fs.carries(stat{pid: cmd.Process.Pid}, mark); got != want {
			t.Errorf("carries %q: %v", mark, got)
		}
	}
	if len((&tree{fs: fs, host: true}).living()) > 0 {
		t.Error("a tree without a process and a mark has members")
	}
	if _, err := fs.stat(os.Getpid()); err != nil {
		t.Error(err)
	}
}

// An id that has been given to another process since says nothing any more.
func TestTreeIgnoresAReusedID(t *testing.T) {
	fs := hostProc(t)
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for _, reaped := range []bool{false, true} {
		tr := &tree{fs: fs, host: true, mark: []string{"NOBODY=has this"}, pid: cmd.Process.Pid, birth: time.Now(), reaped: func() bool { return reaped }}
		if got := len(tr.living()); got != map[bool]int{false: 1, true: 0}[reaped] {
			t.Errorf("reaped %v: %d members", reaped, got)
		}
	}
}

// A process is never taken for one without a mark because it is just
// executing a program, when it has no environment for a moment.
func TestMarkedWhileItExecutes(t *testing.T) {
	program := filepath.Join(t.TempDir(), "again")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec \"$0\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = []string{processVar + "=again"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	p, err := openProcfs("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	executing := 0
	for range 20_000 {
		s, err := p.stat(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		has, err := p.marked(s, []string{processVar + "=again"})
		if !has && err == nil {
			t.Fatal("it has no mark")
		}
		if err != nil {
			executing++
		}
	}
	t.Logf("%d times it was executing", executing)
}

// One that was started with an empty environment surely has no mark.
func TestMarkOfWhatHasNoEnvironment(t *testing.T) {
	fs := hostProc(t)
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	eventually(t, "it is known to have no mark", func() bool {
		has, err := fs.marked(stat{pid: cmd.Process.Pid}, []string{"MARK=abc"})
		return !has && err == nil
	})
}
