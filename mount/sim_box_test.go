//go:build linux

package mount_test

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/files"
	"github.com/bunkroom/bunkroom/sandbox"
)

// simMachine is the machine of one session on one host: everybody who works in it sees all binds.
type simMachine struct {
	p     *simProcess
	name  string
	binds []*simBind // guarded by sim.mu
}

type simBind struct {
	box     *simBox
	dir, at string
}

// simBox is a handle on a machine. Its FS knows what was bound.
type simBox struct {
	m      *simMachine
	closed bool // guarded by sim.mu
}

func (p *simProcess) open(session access.SessionID) *simBox {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.machines[session]
	if m == nil {
		m = &simMachine{p: p, name: string(session)}
		p.machines[session] = m
	}
	return &simBox{m: m}
}

func (b *simBox) Ref() sandbox.Ref {
	return sandbox.Ref{Provider: "sim", Name: b.m.name, Incarnation: "1", Host: b.m.p.String()}
}
func (b *simBox) Workdir() string { return "/workspace" }
func (b *simBox) FS() sandbox.FS  { return simFiles{box: b} }
func (b *simBox) Start(context.Context, sandbox.Cmd) (sandbox.Process, error) {
	return nil, sandbox.ErrNotStarted
}

// Close undoes the binds that were made through the handle.
func (b *simBox) Close() error {
	b.m.p.mu.Lock()
	defer b.m.p.mu.Unlock()
	b.closed = true
	b.m.binds = slices.DeleteFunc(b.m.binds, func(one *simBind) bool { return one.box == b })
	return nil
}

func (b *simBox) Bind(ctx context.Context, dir, at string) (func(context.Context) error, error) {
	v, err := b.m.p.park(ctx, "bind", at)
	if err == nil {
		err = v.fail
	}
	if err != nil {
		return nil, err
	}
	b.m.p.mu.Lock()
	defer b.m.p.mu.Unlock()
	for _, other := range b.m.binds {
		if other.at == at && other.dir != dir {
			return nil, fs.ErrExist
		}
	}
	one := &simBind{b, dir, at}
	b.m.binds = append(b.m.binds, one)
	return func(ctx context.Context) error {
		v, err := b.m.p.park(ctx, "unbind", at)
		switch {
		case errors.Is(err, errSimDead): // at the very end
			return sandbox.ErrGone
		case err == nil:
			err = v.fail
		}
		if err != nil {
			return err
		}
		b.m.p.mu.Lock()
		defer b.m.p.mu.Unlock()
		if b.closed {
			return sandbox.ErrClosed
		}
		b.m.binds = slices.DeleteFunc(b.m.binds, func(other *simBind) bool { return other == one })
		return nil
	}, nil
}

// dir is what is bound at a path.
func (b *simBox) dir(at string) (string, error) {
	b.m.p.mu.Lock()
	defer b.m.p.mu.Unlock()
	for _, one := range b.m.binds {
		if one.at == at {
			return one.dir, nil
		}
	}
	return "", &fs.PathError{Op: "open", Path: at, Err: fs.ErrNotExist}
}

// The link to the folders is there already.
func (b *simBox) Symlink(context.Context, string, string) error { return fs.ErrExist }
func (b *simBox) Readlink(context.Context, string) (string, error) {
	return sandbox.BindRoot(b), nil
}

type simFiles struct {
	sandbox.FS
	box *simBox
}

func (f simFiles) ReadDir(ctx context.Context, path string) iter.Seq2[sandbox.FileInfo, error] {
	return func(yield func(sandbox.FileInfo, error) bool) {
		if path == sandbox.BindRoot(f.box) { // where nothing of ours is bound any more nothing shows
			return
		}
		dir, err := f.box.dir(path)
		if err == nil {
			_, err = f.box.m.p.list(ctx, dir)
		}
		if err != nil {
			yield(sandbox.FileInfo{}, err)
		}
	}
}

// Create: the README is there already.
func (f simFiles) Create(context.Context, string, *sandbox.CreateOptions) (sandbox.Writer, error) {
	return nil, fs.ErrExist
}

// simStore is the store as one process asks it.
type simStore struct {
	mount.Store
	p *simProcess
}

// simAsk waits for the turn of a call, and makes it.
func simAsk[T any](ctx context.Context, p *simProcess, method, what string, do func(context.Context) (T, error)) (T, error) {
	var none T
	v, err := p.park(ctx, method, what)
	if err == nil {
		err = v.fail
	}
	if err != nil {
		return none, err
	}
	got, err := do(context.WithoutCancel(ctx))
	if err == nil && v.lose {
		return none, errSimLost
	}
	return got, err
}

func (x simStore) GetOrCreate(ctx context.Context, r mount.Row) (mount.Row, error) {
	return simAsk(ctx, x.p, "GetOrCreate", string(r.Agent), func(ctx context.Context) (mount.Row, error) { return x.Store.GetOrCreate(ctx, r) })
}

func (x simStore) Update(ctx context.Context, id mount.ID, c mount.Change) (mount.Row, error) {
	return simAsk(ctx, x.p, "Update", simTip(id), func(ctx context.Context) (mount.Row, error) { return x.Store.Update(ctx, id, c) })
}

func (x simStore) Get(ctx context.Context, id mount.ID) (mount.Row, error) {
	return simAsk(ctx, x.p, "Get", simTip(id), func(ctx context.Context) (mount.Row, error) { return x.Store.Get(ctx, id) })
}

func (x simStore) Scan(ctx context.Context, after mount.ID, limit int) ([]mount.Row, error) {
	return simAsk(ctx, x.p, "Scan", "", func(ctx context.Context) ([]mount.Row, error) { return x.Store.Scan(ctx, after, limit) })
}

func (x simStore) Tombstones(ctx context.Context, t mount.Target, after mount.ID, limit int) ([]mount.Tombstone, error) {
	return simAsk(ctx, x.p, "Tombstones", "", func(ctx context.Context) ([]mount.Tombstone, error) { return x.Store.Tombstones(ctx, t, after, limit) })
}

func (x simStore) Forget(ctx context.Context, ids []mount.ID) error {
	_, err := simAsk(ctx, x.p, "Forget", "", func(ctx context.Context) (struct{}, error) { return struct{}{}, x.Store.Forget(ctx, ids) })
	return err
}

// Delete: nothing is deleted but by a purge of all of its project, or where its
// owner has been gone for as long as it waits, and still was when the deletion was asked for.
func (x simStore) Delete(ctx context.Context, t mount.Target, limit int) ([]mount.Row, error) {
	s := x.p.sim
	back := map[access.AgentID]bool{}
	s.mu.Lock()
	for agent, o := range s.owners {
		back[agent] = !o.gone
	}
	s.mu.Unlock()
	return simAsk(ctx, x.p, "Delete", simTipOf(t), func(ctx context.Context) ([]mount.Row, error) {
		rows, err := x.Store.Delete(ctx, t, limit)
		for _, r := range rows {
			prefix, bad := mount.PrefixOf("", r)
			if bad != nil {
				return rows, bad
			}
			s.mu.Lock()
			s.purged[r.ID] = prefix
			delete(s.kept, r.ID)
			s.note("  deleted %s of %s", simTip(r.ID), r.Agent)
			switch {
			case t.Scope != "":
				s.tally["purged"]++
			case back[r.Agent]:
				s.violate("no file lost", "%v deletes the folder of %s, who was back before", x.p, r.Agent)
			case r.ArchivedBy != mount.ArchivedByCollector || s.clock().Sub(r.ArchivedAt) < simGrace:
				s.violate("no file lost", "%v deletes the folder of %s, put away by %q %v ago", x.p, r.Agent, r.ArchivedBy, s.clock().Sub(r.ArchivedAt))
			default:
				s.tally["collected"]++
			}
			for name, w := range s.works {
				if w.mount == r.ID {
					s.violate("no file lost", "%v deletes a folder in which %s works", x.p, name)
				}
			}
			s.mu.Unlock()
		}
		return rows, err
	})
}

func simTipOf(t mount.Target) string {
	if t.ID != "" {
		return simTip(t.ID)
	}
	return t.Scope
}

// gone is what the host says of an owner: what is true when it is asked.
func (p *simProcess) gone(ctx context.Context, who mount.Owner) (access.Tri, error) {
	return simAsk(ctx, p, "Gone", string(who.Agent), func(context.Context) (access.Tri, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.owners[who.Agent].gone {
			return access.Yes, nil
		}
		return access.No, nil
	})
}

// remove removes what a deleted mount held: nothing else may go.
func (p *simProcess) remove(ctx context.Context, all *files.Files, t mount.Tombstone) error {
	_, err := simAsk(ctx, p, "remove", simTip(t.ID), func(ctx context.Context) (struct{}, error) {
		p.mu.Lock()
		if _, deleted := p.purged[t.ID]; !deleted {
			p.violate("no file lost", "%v removes the content of %s, whose row is there", p, simTip(t.ID))
		}
		p.mu.Unlock()
		return struct{}{}, all.Purge(ctx, t)
	})
	return err
}

func writeNew(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// nap waits, unless the process is dead, which does nothing more.
func (p *simProcess) nap(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-p.over:
		return errSimDead
	}
	return p.alive()
}
