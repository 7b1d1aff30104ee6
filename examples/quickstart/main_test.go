package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/internal/need"
)

// The program is run as its users run it: built, and in a process of its own.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// tell runs the program and returns its result and its story. Its temporary
// directory must be empty afterwards: nothing is left behind but the data directory.
func tell(t *testing.T, bin, path string, args ...string) (story, string) {
	t.Helper()
	tmp := t.TempDir()
	cmd := exec.Command(bin, append(args, "-json")...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "PATH="+path)
	var told strings.Builder
	cmd.Stderr = &told
	out, err := cmd.Output()
	var s story
	if jsonErr := json.Unmarshal(out, &s); err != nil || jsonErr != nil {
		t.Fatalf("%v, %v\n%s\n%s", err, jsonErr, out, told.String())
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v %v", left, err)
	}
	if !s.Kept || s.Made != 2 || s.Destroyed != 2 || s.Charged {
		t.Errorf("got %+v", s)
	}
	return s, told.String()
}

func confined(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		need.Missing(t, need.Bwrap, "bwrap is looked for on PATH")
	}
}

func TestFreshAndAgain(t *testing.T) {
	confined(t)
	bin, data, repo := build(t), t.TempDir(), "../.."
	for run, lines := range []string{"1 lines", "2 lines"} {
		s, _ := tell(t, bin, os.Getenv("PATH"), "-data", data, "-repo", repo)
		if !s.Confined {
			t.Error("bubblewrap is there and was not used")
		}
		if notes := s.Promises[5]; notes.Detail != lines {
			t.Errorf("run %d: the notes of all runs are kept: got %+v, want %s", run, notes, lines)
		}
	}
}

func TestForeignRepository(t *testing.T) {
	confined(t)
	if _, err := exec.LookPath("git"); err != nil {
		need.Missing(t, need.Git, "git is looked for on PATH")
	}
	repo := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q"},
		{"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "the first commit of all"},
	} {
		if out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(repo, "poem.txt"), []byte("roses\n"), 0o600),
		os.Symlink("poem.txt", filepath.Join(repo, "link")),
	); err != nil {
		t.Fatal(err)
	}
	_, told := tell(t, build(t), os.Getenv("PATH"), "-data", t.TempDir(), "-repo", repo)
	if !strings.Contains(told, "the first commit of all") {
		t.Errorf("git log did not run in the sandbox:\n%s", told)
	}
	if after, err := os.ReadFile(filepath.Join(repo, "poem.txt")); err != nil || string(after) != "roses\n" {
		t.Errorf("the sandbox works on a copy: the source reads %q, %v", after, err)
	}
}

// Without bubblewrap the program says so, first and last.
func TestUnconfinedSaysSo(t *testing.T) {
	path := t.TempDir() // every program this machine has, but for one
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.Name() != "bwrap" {
				os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(path, e.Name()))
			}
		}
	}
	s, told := tell(t, build(t), path, "-data", t.TempDir(), "-repo", "testdata")
	if s.Confined || !strings.HasPrefix(told, "UNCONFINED") {
		t.Errorf("confined %v, and the story begins %.40q", s.Confined, told)
	}
}

// A run that is killed leaves nothing that the next run does not see to.
func TestAfterAKill(t *testing.T) {
	confined(t)
	bin, data := build(t), t.TempDir()
	cmd := exec.Command(bin, "-data", data, "-repo", "testdata")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	for buf := make([]byte, 256); !strings.Contains(told.String(), "building for ever"); {
		n, err := out.Read(buf)
		told.Write(buf[:n])
		if err != nil {
			t.Fatalf("%v\n%s", err, told.String())
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	_, again := tell(t, bin, os.Getenv("PATH"), "-data", data, "-repo", "testdata")
	if !strings.Contains(again, "which an earlier run left open") {
		t.Errorf("the killed run's session was not seen to:\n%s", again)
	}
}
