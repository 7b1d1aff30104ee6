package mount_test

import (
	"context"
	"testing"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// refreshed counts how often a folder was to forget what it has cached.
type refreshed struct {
	mount.Mounter
	n int
}

func (r *refreshed) Mount(ctx context.Context, s mount.Spec) (mount.Mount, error) {
	m, err := r.Mounter.Mount(ctx, s)
	return refreshedMount{m, r}, err
}

type refreshedMount struct {
	mount.Mount
	by *refreshed
}

func (m refreshedMount) Refresh(context.Context) error { m.by.n++; return nil }

// Traps 40, 42 and 58, in a sandbox that is warm and so carries nothing anew: what stands
// in the link's place by the next turn gives way to it, a directory's files
// move home first, and what others wrote meanwhile shows.
func TestFreshenRepairsAWarmSandbox(t *testing.T) {
	w, l := newWorld(t), newLocks()
	r := &refreshed{Mounter: w.mounter}
	m := w.inProcess(l, func(c *mount.Config) { c.Mounter = r })
	sb := w.open("m")
	d := w.workdir(m, sb, "one")
	c := w.carry(m, sb, request("reviewer"))
	folder := c.Outcomes[0].Path
	for _, stand := range []struct {
		rule string
		put  func()
	}{
		{"trap 42: the agent removed the link and wrote there", func() { w.write(sb, "agent-files/deep/note", "mine") }},
		{"trap 40: a store has made an empty file of it", func() { w.write(sb, "agent-files", "") }},
		{"it is gone", func() {}},
	} {
		if err := sb.FS().Remove(t.Context(), "agent-files", &sandbox.RemoveOptions{MissingOK: true}); err != nil {
			t.Fatal(err)
		}
		stand.put()
		before := r.n
		d.Freshen(t.Context())
		c.Freshen(t.Context())
		w.wantLink(sb, "/workspace-agent")
		if r.n != before+2 {
			t.Errorf("%s: refreshed %d times, want both folders", stand.rule, r.n-before)
		}
	}
	w.wantFile(sb, folder+"/deep/note", "mine")

	if err := sb.FS().Remove(t.Context(), folder+"/README.md", nil); err != nil {
		t.Fatal(err)
	}
	c.Freshen(t.Context())
	if _, err := sb.FS().Stat(t.Context(), folder+"/README.md"); err == nil {
		t.Error("a README that the agent has removed in this work is there again")
	}
	if err := c.Release(t.Context()); err != nil {
		t.Error(err)
	}
	w.release(d)
	mount.Carried{}.Freshen(t.Context()) // where there is no folder there is nothing to do
	mount.Workdir{}.Freshen(t.Context())
}
