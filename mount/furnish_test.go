package mount_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Trap 39: what is written before the bind is hidden by it. The link and the
// README come after the folder has been bound and listed.
func TestLinkAndReadmeComeAfterTheBind(t *testing.T) {
	w := newWorld(t)
	sb := w.open("m")
	at := w.carry(w.manager(nil), sb, request("reviewer")).Outcomes[0].Path
	want := []string{"bind " + at, "list " + at, "readlink /workspace/agent-files", "symlink /workspace/agent-files", "create " + at + "/README.md"}
	if got := sb.steps(); !slices.Equal(got, want) {
		t.Errorf("the steps were %q, want %q", got, want)
	}
}

// Traps 40 and 43, and what else stands where the link belongs: what is no
// good gives way, what is right or has content stays. Never does the work fail for it.
func TestLinkAtEachAttach(t *testing.T) {
	for _, c := range []struct {
		rule  string
		stand func(*world, *rigged) // what stands there before
		link  string                // what the link reads afterwards; empty = it is none
		state string
		asked []string // of the link, beside reading it first
	}{
		{"nothing there: made", func(*world, *rigged) {}, "/workspace-agent", "linked",
			[]string{"symlink /workspace/agent-files"}},
		{"trap 43: the right text is kept, though it dangles", symlink("/workspace-agent"), "/workspace-agent", "kept", nil},
		{"another text is replaced", symlink("/workspace-agent/other"), "/workspace-agent", "linked",
			[]string{"remove /workspace/agent-files", "symlink /workspace/agent-files"}},
		{"a link to a file is replaced, and the file stays", symlink("kept.txt"), "/workspace-agent", "linked",
			[]string{"remove /workspace/agent-files", "symlink /workspace/agent-files"}},
		{"trap 40: an empty file is what a store made of a link", file(""), "/workspace-agent", "linked",
			[]string{"remove /workspace/agent-files", "symlink /workspace/agent-files"}},
		{"an empty directory holds nothing", func(w *world, sb *rigged) {
			if err := sb.FS().Mkdir(w.t.Context(), "agent-files"); err != nil {
				w.t.Fatal(err)
			}
		}, "/workspace-agent", "linked", []string{"remove /workspace/agent-files", "symlink /workspace/agent-files"}},
		{"a file with content is somebody's", file("mine"), "", "failed", []string{"symlink /workspace/agent-files"}},
		{"trap 42: from a directory with content it moves home first", func(w *world, sb *rigged) { w.write(sb, "agent-files/mine", "mine") },
			"/workspace-agent", "linked",
			[]string{"remove /workspace/agent-files", "list /workspace/agent-files", "remove /workspace/agent-files", "symlink /workspace/agent-files"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWorld(t)
			sb := w.open("m")
			w.write(sb, "kept.txt", "kept")
			c.stand(w, sb)
			before := len(sb.steps())
			w.carry(w.manager(debug(w)), sb, request("reviewer"))

			var asked []string
			for _, step := range sb.steps()[before:] {
				if strings.HasSuffix(step, " /workspace/agent-files") {
					asked = append(asked, step)
				}
			}
			asked = slices.DeleteFunc(asked, func(s string) bool { return s == "readlink /workspace/agent-files" })
			if !slices.Equal(asked, c.asked) {
				t.Errorf("asked %q, want %q", asked, c.asked)
			}
			if c.link != "" {
				w.wantLink(sb, c.link)
			}
			w.wantFile(sb, "kept.txt", "kept")
			w.wantLogged("link to agents' folders", "state="+c.state)
			if c.state == "failed" {
				w.wantLogged("level=WARN", "link to agents' folders")
			}
		})
	}
}

func symlink(target string) func(*world, *rigged) {
	return func(w *world, sb *rigged) {
		links, ok := sandbox.As[sandbox.Symlinker](sb)
		if !ok {
			w.t.Fatal("no links")
		}
		if err := links.Symlink(w.t.Context(), target, "agent-files"); err != nil {
			w.t.Fatal(err)
		}
	}
}

func file(text string) func(*world, *rigged) {
	return func(w *world, sb *rigged) { w.write(sb, "agent-files", text) }
}

// The files with content are not touched by the failure.
func TestLinkNeverCostsContent(t *testing.T) {
	w := newWorld(t)
	sb := w.open("m")
	file("mine")(w, sb)
	w.carry(w.manager(nil), sb, request("reviewer"))
	w.wantFile(sb, "agent-files", "mine")

	sb = w.open("n")
	w.write(sb, "agent-files/deep/mine", "mine")
	c := w.carry(w.manager(nil), sb, request("reviewer"))
	w.wantFile(sb, c.Outcomes[0].Path+"/deep/mine", "mine")
}

// Trap 41: "exists" after a removal that failed was reported as success. It is
// a failure, unless the link that exists is the right one.
func TestExistsAfterAFailedRemovalIsFailure(t *testing.T) {
	w := newWorld(t)
	sb := w.open("m")
	symlink("elsewhere")(w, sb)
	sb.before = func(op, _ string) error {
		if op == "remove" {
			return fs.ErrPermission
		}
		return nil
	}
	w.carry(w.manager(debug(w)), sb, request("reviewer"))
	w.wantLink(sb, "elsewhere")
	w.wantLogged("state=failed", "cause=\""+fs.ErrPermission.Error())
}

// A creator at the same instant is no failure where it made the same link, and one where it did not.
func TestLinkMadeBySomebodyElseJustNow(t *testing.T) {
	for text, state := range map[string]string{"/workspace-agent": "kept", "elsewhere": "failed"} {
		w := newWorld(t)
		sb := w.open("m")
		var once sync.Once
		sb.before = func(op, _ string) error {
			if op == "symlink" {
				once.Do(func() { symlink(text)(w, &rigged{Sandbox: sb.Sandbox}) })
			}
			return nil
		}
		w.carry(w.manager(debug(w)), sb, request("reviewer"))
		w.wantLink(sb, text)
		w.wantLogged("link to agents' folders", "state="+state)
	}
}

// Any failure of the link or the README is logged and leaves the folder mounted.
func TestFurnishingNeverFailsTheWork(t *testing.T) {
	broken := errors.New("broken")
	for _, op := range []string{"readlink", "symlink", "create"} {
		w := newWorld(t)
		sb := w.open("m")
		sb.before = func(asked, _ string) error {
			if asked == op {
				return broken
			}
			return nil
		}
		c := w.carry(w.manager(func(c *mount.Config) { c.Policy = mount.Required }), sb, request("reviewer"))
		if len(c.Env) != 1 {
			t.Errorf("%s: Env = %v", op, c.Env)
		}
		w.wantLogged("level=WARN", "cause=broken")
	}
	w := newWorld(t)
	sb := w.open("m")
	sb.noLinks = true
	w.carry(w.manager(nil), sb, request("reviewer"))
	if w.log.String() != "" {
		t.Errorf("a sandbox without links is nothing to warn of: %s", w.log)
	}
}

// Trap 44: the README was written again over the agent's own edits. It is made
// once, and that it exists is not worth a word.
func TestReadmeIsTheAgentsOnceWritten(t *testing.T) {
	w := newWorld(t)
	m := w.manager(nil)
	sb := w.open("m")
	c := w.carry(m, sb, request("reviewer"))
	readme := c.Outcomes[0].Path + "/README.md"
	first, err := sandbox.ReadFile(t.Context(), sb.FS(), readme)
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{"lasts", "working directory", "the last one stays"} {
		if !strings.Contains(strings.ReplaceAll(string(first), "\n", " "), said) {
			t.Errorf("the README does not say %q:\n%s", said, first)
		}
	}
	if strings.Contains(string(first), mount.EnvAgentDir) {
		t.Error("the README names the variable")
	}
	w.write(sb, readme, "my own words")
	if err := c.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := w.open("m")
	w.carry(m, again, request("reviewer"))
	w.wantFile(again, readme, "my own words")
	if w.log.String() != "" {
		t.Errorf("logged: %s", w.log)
	}
}
