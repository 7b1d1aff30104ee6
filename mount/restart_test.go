package mount_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/dir"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// life is one process of a host, from its start to its end: it carries an agent's
// folder and a session's into a machine, writes and reads there, and says what it handed out.
func (w *world) life(root, machine, name, text, want string) (out string, agent, work mount.Outcome) {
	w.t.Helper()
	folders, err := dir.New(root)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mounter = &watched{Mounter: folders}
	m := w.manager(func(c *mount.Config) { c.Locker = folders })
	sb, q := w.open(machine), request("reviewer")
	q.AgentName = name
	d := w.workdir(m, sb, "holder")
	c, err := m.Carry(w.t.Context(), sb, q)
	if err != nil || c.Outcomes[0].State != mount.Mounted {
		w.t.Fatalf("Carry = %+v, %v", c, err)
	}
	agent, work = c.Outcomes[0], d.Outcome
	for _, dir := range []string{agent.Path, work.Path} {
		if want != "" {
			w.wantFile(sb, dir+"/note", want)
		}
		w.write(sb, dir+"/note", text)
	}
	w.wantLink(sb, sandbox.BindRoot(sb))
	if err := c.Release(w.t.Context()); err != nil {
		w.t.Error(err)
	}
	w.release(d)
	return fmt.Sprint(agent.Path, work.Path, c.Env, c.Guidance, d.Guidance), agent, work
}

// After a restart absolute paths that had been handed out led nowhere, for they
// held the host's own. Here they are made of what is the same in every process: the next one hands out the
// same paths, in another machine too, while what the host calls its directories has changed; and
// nothing that is handed out names one of these.
func TestPathsAfterARestart(t *testing.T) {
	w, base := newWorld(t), t.TempDir()
	first, second := filepath.Join(base, "first"), filepath.Join(base, "second")
	if err := os.Mkdir(first, 0o700); err != nil {
		t.Fatal(err)
	}
	said, agent, work := w.life(first, "m", "Code reviewer", "one", "")
	if err := os.Rename(first, second); err != nil {
		t.Fatal(err)
	}
	again, later, laterWork := w.life(second, "m", "Code reviewer", "two", "one")
	if again != said || later.Path != agent.Path || later.Row.ID != agent.Row.ID || laterWork.Path != work.Path {
		t.Errorf("handed out\n%s\nand then\n%s", said, again)
	}
	if other, _, _ := w.life(second, "another machine", "Code reviewer", "three", "two"); other != said {
		t.Errorf("in another machine\n%s\nand before\n%s", other, said)
	}
	for _, text := range []string{said, again} {
		if strings.Contains(text, base) {
			t.Errorf("it names a directory of this host: %s", text)
		}
	}

	// A path that was stored is no promise: with another name the folder is elsewhere. What
	// stays is the mount, the path below it, and that its last digits end the name.
	_, renamed, _ := w.life(second, "m", "Chief reviewer", "four", "three")
	if renamed.Path == agent.Path || renamed.Row.ID != agent.Row.ID {
		t.Errorf("%s of %s, then %s of %s", agent.Path, agent.Row.ID, renamed.Path, renamed.Row.ID)
	}
	digits := string(agent.Row.ID[len(agent.Row.ID)-8:])
	for _, o := range []mount.Outcome{agent, renamed} {
		if !strings.HasSuffix(path.Base(o.Path), "-"+digits) {
			t.Errorf("%s does not end with the digits of %s", o.Path, o.Row.ID)
		}
	}
}
