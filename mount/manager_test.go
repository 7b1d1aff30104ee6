package mount_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

func TestNewNamesTheBadField(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		field  string
		config mount.Config
	}{
		{"Store", mount.Config{Mounter: w.mounter}},
		{"Mounter", mount.Config{Store: w.store}},
		{"Policy", mount.Config{Store: w.store, Mounter: w.mounter, Policy: 2}},
		{"Timeout", mount.Config{Store: w.store, Mounter: w.mounter, Timeout: -time.Second}},
	} {
		m, err := mount.New(c.config)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != c.field || m != nil {
			t.Errorf("got %v, %v; want a FieldError of %s", m, err, c.field)
		}
	}
	if _, err := mount.New(mount.Config{Store: w.store, Mounter: w.mounter}); err != nil {
		t.Errorf("store and mounter are all that is required: %v", err)
	}
}

// The first row of the best-effort contract: without an agent nothing is
// attempted and nothing is said.
func TestTheAssistantHasNoFolder(t *testing.T) {
	w := newWorld(t)
	for _, policy := range []mount.Policy{mount.BestEffort, mount.Required} {
		sb := w.open("m")
		c, err := w.manager(func(c *mount.Config) { c.Policy = policy }).Carry(t.Context(), sb, request(""))
		if err != nil || c.Outcomes != nil || c.Env != nil || c.Guidance != "" {
			t.Errorf("Carry for the assistant = %+v, %v; want nothing", c, err)
		}
		if err := c.Release(t.Context()); err != nil {
			t.Errorf("Release of nothing: %v", err)
		}
		if w.mounter.called() != 0 || len(sb.steps()) != 0 || w.log.String() != "" {
			t.Errorf("something was attempted: %v %s", sb.steps(), w.log)
		}
	}
}

func TestABadRequestIsRefusedWhateverThePolicy(t *testing.T) {
	w := newWorld(t)
	sb := w.open("m")
	for field, r := range map[string]mount.Request{
		"agent":   {Project: "web", Agent: "\xff"},
		"owner":   {Agent: "reviewer"},
		"project": {Project: "a\x00", Agent: "reviewer"},
	} {
		_, err := w.manager(nil).Carry(t.Context(), sb, r)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != field {
			t.Errorf("got %v, want a FieldError of %s", err, field)
		}
	}
	if w.mounter.called() != 0 || len(sb.steps()) != 0 {
		t.Errorf("something was attempted: %v", sb.steps())
	}
}

// Two agents work at once in one session, and each process finds its own notes
// by the variable of its work; the link in the working directory is one for both.
func TestTwoAgentsAtOnceFindTheirOwnNotes(t *testing.T) {
	w := newWorld(t)
	w.boxes.Handle("recall", func(ctx context.Context, c *memory.Command) int {
		note, err := sandbox.ReadFile(ctx, c.FS, c.Getenv(mount.EnvAgentDir)+"/note")
		if err != nil {
			c.Stderr.Write([]byte(err.Error()))
			return 1
		}
		c.Stdout.Write(note)
		return 0
	})
	m := w.manager(nil)
	agents := []access.AgentID{"reviewer", "writer"}
	boxes := []*rigged{w.open("session"), w.open("session")}
	paths := make([]string, len(agents))
	work := func(i int) error {
		c, err := m.Carry(t.Context(), boxes[i], request(agents[i]))
		if err != nil || c.Outcomes[0].State != mount.Mounted {
			return fmt.Errorf("Carry = %+v, %v", c, err)
		}
		paths[i] = c.Outcomes[0].Path
		w.write(boxes[i], paths[i]+"/note", "of "+string(agents[i]))
		var out strings.Builder
		exit, err := sandbox.Run(t.Context(), boxes[i], sandbox.Cmd{Argv: []string{"recall"}, Env: c.Env}, &out, &out)
		if err != nil || exit.Code != 0 || out.String() != "of "+string(agents[i]) {
			return fmt.Errorf("it recalls %q, %+v, %v", out.String(), exit, err)
		}
		return c.Release(t.Context())
	}
	var all sync.WaitGroup
	for i := range agents {
		all.Go(func() {
			if err := work(i); err != nil {
				t.Errorf("%s: %v", agents[i], err)
			}
			w.wantLink(boxes[i], "/workspace-agent")
		})
	}
	all.Wait()
	if paths[0] == paths[1] {
		t.Errorf("two agents have one path: %v", paths)
	}
	w.wantNothingHeld()
}

// The folder is at <BindRoot>/<slug of the agent's name>-<last 8 digits of the
// mount's id>, where the name is a label and no more.
func TestWhereAFolderIs(t *testing.T) {
	w := newWorld(t)
	m := w.manager(nil)
	for _, c := range []struct{ rule, agent, name, want string }{
		{"the name's slug", "a1", "Code Reviewer", "code-reviewer"},
		{"without a name the agent's id", "a2", "", "a2"},
		{"a name without a slug counts as none", "a3", "日本", "a3"},
		{"where neither has one there is a word for it", "日本", "??", "agent"},
		{"a long label is cut, and ends in no dash", "a5", strings.Repeat("abc ", 100), strings.TrimSuffix(strings.Repeat("abc-", 16), "-")},
	} {
		r := request(access.AgentID(c.agent))
		r.AgentName = c.name
		got := w.carry(m, w.open("m"), r).Outcomes[0]
		id := strings.ReplaceAll(string(got.Row.ID), "-", "")
		if want := "/workspace-agent/" + c.want + "-" + id[24:]; got.Path != want {
			t.Errorf("%s: %s, want %s", c.rule, got.Path, want)
		}
	}
}

// Two mounts whose ids end alike, of agents with one name, never share a path
// in one machine; alone each has the short one.
func TestIDsThatEndAlikeDoNotCollide(t *testing.T) {
	w := newWorld(t)
	ids := []string{"0192f0c1-2ab4-7cde-8f01-2345cafecafe", "0192f0c1-2ab4-7cde-8f02-2345cafecafe"}
	next := make(chan string, 4)
	m := w.manager(func(c *mount.Config) { c.NewID = func() string { return <-next } })
	carry := func(machine, agent, id string) (mount.Carried, sandbox.Sandbox) {
		next <- id
		sb := w.open(machine)
		r := request(access.AgentID(agent))
		r.AgentName = "Twin"
		return w.carry(m, sb, r), sb
	}
	first, sb1 := carry("session", "one", ids[0])
	second, sb2 := carry("session", "two", ids[1])
	if got := first.Outcomes[0].Path; got != "/workspace-agent/twin-cafecafe" {
		t.Errorf("the first is at %s", got)
	}
	if got := second.Outcomes[0].Path; got != "/workspace-agent/twin-0192f0c12ab47cde8f022345cafecafe" {
		t.Errorf("the second is at %s", got)
	}
	w.write(sb1, first.Outcomes[0].Path+"/note", "of one")
	w.write(sb2, second.Outcomes[0].Path+"/note", "of two")
	w.wantFile(sb1, first.Outcomes[0].Path+"/note", "of one")

	again, _ := carry("session", "two", "0192f0c1-2ab4-7cde-8f03-234500000000")
	if again.Outcomes[0].Path != second.Outcomes[0].Path {
		t.Errorf("two works of one agent are at %s and %s", second.Outcomes[0].Path, again.Outcomes[0].Path)
	}
	elsewhere, _ := carry("another session", "two", "0192f0c1-2ab4-7cde-8f04-234500000000")
	if got := elsewhere.Outcomes[0].Path; got != "/workspace-agent/twin-cafecafe" {
		t.Errorf("in another machine the second is at %s", got)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	third, _ := carry("session", "two", "0192f0c1-2ab4-7cde-8f05-234500000000")
	if third.Outcomes[0].Path != "/workspace-agent/twin-cafecafe" {
		t.Errorf("the path that was left was not given again: %s", third.Outcomes[0].Path)
	}
}

// What an agent kept is there in another session, after the machines it was
// written in are gone; and not for the same agent in another project.
func TestTheFolderOutlivesTheMachine(t *testing.T) {
	w := newWorld(t)
	m := w.manager(nil)
	sb := w.open("first")
	c := w.carry(m, sb, request("reviewer"))
	w.write(sb, c.Outcomes[0].Path+"/note", "kept")
	if err := c.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.boxes.Destroy(t.Context(), sb.Ref()); err != nil {
		t.Fatal(err)
	}

	sb = w.open("second")
	again := w.carry(m, sb, request("reviewer"))
	if again.Outcomes[0].Path != c.Outcomes[0].Path || again.Outcomes[0].Row.ID != c.Outcomes[0].Row.ID {
		t.Errorf("first %+v, then %+v", c.Outcomes[0], again.Outcomes[0])
	}
	w.wantFile(sb, again.Outcomes[0].Path+"/note", "kept")

	sb = w.open("third")
	r := request("reviewer")
	r.Project = "app"
	other := w.carry(m, sb, r)
	if _, err := sb.FS().Stat(t.Context(), other.Outcomes[0].Path+"/note"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another project's agent sees the note: %v", err)
	}
}

// Two works of one agent share its folder; when one ends the other goes on.
func TestTwoWorksOfOneAgentShare(t *testing.T) {
	w := newWorld(t)
	m := w.manager(nil)
	sb1, sb2 := w.open("session"), w.open("session")
	c1, c2 := w.carry(m, sb1, request("reviewer")), w.carry(m, sb2, request("reviewer"))
	at := c2.Outcomes[0].Path
	w.write(sb1, c1.Outcomes[0].Path+"/note", "shared")
	if err := c1.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantFile(sb2, at+"/note", "shared")
	w.write(sb2, at+"/note", "still here")
	if _, err := sb1.FS().Stat(t.Context(), at+"/note"); err == nil {
		t.Error("the released handle still sees the folder")
	}
	if n := w.mounter.references(); n != 1 {
		t.Errorf("%d references are held, want the second's", n)
	}
}

// Traps 53 and 80: the agent is told where its folder is, or that it can't be
// reached and nothing was deleted; never the variable's name, which tools do not expand.
func TestGuidance(t *testing.T) {
	w := newWorld(t)
	m := w.manager(nil)
	there := w.carry(m, w.open("m"), request("reviewer"))
	unable := w.open("m")
	unable.noBinder = true
	gone, err := m.Carry(t.Context(), unable, request("reviewer"))
	if err != nil {
		t.Fatal(err)
	}
	at := there.Outcomes[0].Path
	for _, c := range []struct{ text, what string }{
		{there.Guidance, "durable folder of your own at " + at},
		{there.Guidance, "stays when this session"},
		{there.Guidance, "look there"},
		{there.Guidance, "same time"},
		{there.Guidance, "last one stays"},
		{gone.Guidance, "(" + at + ") can't be reached"},
		{gone.Guidance, "Nothing in it was deleted"},
		{gone.Guidance, "Do not search"},
		{gone.Guidance, "do not report its files as missing or deleted"},
	} {
		if !strings.Contains(c.text, c.what) {
			t.Errorf("not said: %q in %q", c.what, c.text)
		}
	}
	for _, text := range []string{there.Guidance, gone.Guidance} {
		if strings.Contains(text, mount.EnvAgentDir) || regexp.MustCompile(`[$\n]`).MatchString(text) {
			t.Errorf("a variable or more than a paragraph: %q", text)
		}
	}
}

// Releasing undoes everything, twice is once, and an ended context does not stop it.
func TestRelease(t *testing.T) {
	w := newWorld(t)
	sb := w.open("m")
	c := w.carry(w.manager(nil), sb, request("reviewer"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := c.Release(ended); err != nil {
				t.Errorf("Release: %v", err)
			}
		})
	}
	all.Wait()
	w.wantNothingHeld()
	unbound := 0
	for _, step := range sb.steps() {
		if step == "unbind "+c.Outcomes[0].Path {
			unbound++
		}
	}
	if unbound != 1 {
		t.Errorf("unbound %d times, want once: %v", unbound, sb.steps())
	}
	if _, err := sb.FS().Stat(t.Context(), path.Join(c.Outcomes[0].Path, "README.md")); err == nil {
		t.Error("the folder is still there")
	}
}

// A bind that can't be undone keeps the directory below it; the next Release
// goes on where the first stopped. With the handle or the machine gone the bind is gone.
func TestReleaseGoesOnWhereItStopped(t *testing.T) {
	w := newWorld(t)
	busy := errors.New("busy")
	for _, second := range []error{nil, sandbox.ErrClosed, sandbox.ErrGone, sandbox.ErrStale} {
		sb := w.open("m")
		c := w.carry(w.manager(nil), sb, request("reviewer"))
		answer := busy
		sb.before = func(op, _ string) error {
			if op == "unbind" {
				return answer
			}
			return nil
		}
		if err := c.Release(t.Context()); !errors.Is(err, busy) {
			t.Errorf("Release = %v, want the unbind's error", err)
		}
		if n := w.mounter.references(); n != 1 {
			t.Errorf("%d references are held below a bind that may still be there, want 1", n)
		}
		answer = second
		if err := c.Release(t.Context()); err != nil {
			t.Errorf("Release after %v = %v", second, err)
		}
		w.wantNothingHeld()
	}
}
