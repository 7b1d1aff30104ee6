package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/internal/need"
)

// asProgram makes this test binary the program itself.
const asProgram = "BUNKROOM_QUICKSTART"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program is the path of the program, which is run as its users run it: in a
// process of its own.
func program(t *testing.T) string {
	t.Helper()
	t.Setenv(asProgram, "1")
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
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
	if !s.Kept || s.Made != 2 || s.Destroyed != 2 || len(s.Bill.Lines) == 0 || s.Bill.After >= s.Bill.Before {
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
	bin, data, repo := program(t), t.TempDir(), "../.."
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
	_, told := tell(t, program(t), os.Getenv("PATH"), "-data", t.TempDir(), "-repo", repo)
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
	s, told := tell(t, program(t), path, "-data", t.TempDir(), "-repo", "testdata")
	if s.Confined || !strings.HasPrefix(told, "UNCONFINED") {
		t.Errorf("confined %v, and the story begins %.40q", s.Confined, told)
	}
}

// midway starts the program and returns, with the rest of its output, once
// its machine is working.
func midway(t *testing.T, cmd *exec.Cmd) io.Reader {
	t.Helper()
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
	return out
}

// A run that is killed leaves nothing that the next run does not see to.
func TestAfterAKill(t *testing.T) {
	confined(t)
	bin, data := program(t), t.TempDir()
	cmd := exec.Command(bin, "-data", data, "-repo", "testdata")
	midway(t, cmd)
	cmd.Process.Kill()
	cmd.Wait()
	_, again := tell(t, bin, os.Getenv("PATH"), "-data", data, "-repo", "testdata")
	if !strings.Contains(again, "which an earlier run left open") {
		t.Errorf("the killed run's session was not seen to:\n%s", again)
	}
}

// What can't be done is said in a sentence, with exit code 1, before anything is
// made; what was asked wrongly is exit code 2.
func TestRefuses(t *testing.T) {
	bin, dir := program(t), t.TempDir()
	file, empty, link := filepath.Join(dir, "file"), filepath.Join(dir, "empty"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(empty, 0o700), os.Symlink("empty", link)); err != nil {
		t.Fatal(err)
	}
	data := func(t *testing.T) string { return filepath.Join(t.TempDir(), "data") }
	for _, c := range []struct {
		name string
		args func(t *testing.T) []string
		says string
		code int
	}{
		{"an argument", func(t *testing.T) []string { return []string{"-data", data(t), "more"} }, "Usage", 2},
		{"no data directory", func(t *testing.T) []string { return []string{"-data", ""} }, "Usage", 2},
		{"the data directory is a file", func(t *testing.T) []string { return []string{"-data", file, "-repo", "testdata"} }, "not a directory", 1},
		{"the tree does not exist", func(t *testing.T) []string { return []string{"-data", data(t), "-repo", dir + "/absent"} }, "no such file or directory", 1},
		{"the tree is a file", func(t *testing.T) []string { return []string{"-data", data(t), "-repo", file} }, "is not a directory", 1},
		{"the tree is empty, behind a link", func(t *testing.T) []string { return []string{"-data", data(t), "-repo", link} }, "has no files", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(bin, c.args(t)...)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != c.code || !strings.Contains(string(out), c.says) {
				t.Errorf("%v, want exit code %d and %q:\n%s", err, c.code, c.says, out)
			}
			if strings.Contains(string(out), "all of your rights") && !strings.Contains(string(out), "UNCONFINED") {
				t.Errorf("says that something ran unconfined:\n%s", out)
			}
		})
	}
}

// The data directory may lie in the tree that is copied, also behind a link,
// and the tree may hold names that no sandbox can have.
func TestOddTree(t *testing.T) {
	confined(t)
	dir := t.TempDir()
	tree, link := filepath.Join(dir, "tree"), filepath.Join(dir, "link")
	if err := errors.Join(
		os.Mkdir(tree, 0o700), os.Symlink("tree", link),
		os.WriteFile(filepath.Join(tree, "-n"), []byte("one\n"), 0o600),
		os.WriteFile(filepath.Join(tree, "bad\xff"), nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	s, told := tell(t, program(t), os.Getenv("PATH"), "-data", filepath.Join(link, "data"), "-repo", tree)
	if s.Files != 1 || !strings.Contains(told, "Left out") || !strings.Contains(told, "-n\n") {
		t.Errorf("%d files copied:\n%s", s.Files, told)
	}
}

// A second run on a data directory in use refuses, and the first one is not disturbed.
func TestTwoAtOnce(t *testing.T) {
	confined(t)
	bin, data := program(t), t.TempDir()
	first := exec.Command(bin, "-data", data, "-repo", "testdata")
	out := midway(t, first)
	second, err := exec.Command(bin, "-data", data, "-repo", "testdata").CombinedOutput()
	if err == nil || !strings.Contains(string(second), "another run uses") {
		t.Errorf("the second run: %v\n%s", err, second)
	}
	rest, _ := io.ReadAll(out)
	if err := first.Wait(); err != nil {
		t.Errorf("the first run: %v\n…%s", err, rest)
	}
}
