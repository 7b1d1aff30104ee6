//go:build linux

package mount_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/files"
)

// simProcess is one process of the host.
type simProcess struct {
	*sim
	n         int
	host      *mount.Host // nil until it has started
	manager   *mount.Manager
	collector *mount.Collector
	purger    *mount.Purger
	folders   *mount.Folders
	files     *files.Files
	locks     []interface{ Close() error }
	machines  map[access.SessionID]*simMachine

	// Guarded by sim.mu.
	dead, drains bool
}

func (p *simProcess) String() string { return fmt.Sprintf("p%d", p.n) }

func (p *simProcess) newID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids++
	return fmt.Sprintf("%08x-0000-7000-8000-%012x", p.n, p.ids)
}

// process starts a process, which clears what dead ones have left before it works.
func (s *sim) process() *simProcess {
	s.born++
	p := &simProcess{sim: s, n: s.born, machines: map[access.SessionID]*simMachine{}}
	s.begin(p, "start", func(ctx context.Context) error {
		h, err := mount.NewHostIn(ctx, mount.HostConfig{Server: simServer{p}, Root: s.root},
			mount.Limits{Probe: 5 * time.Second, FirstDelay: time.Second, MaxDelay: 30 * time.Second}, simKernel{p})
		if err != nil {
			return err
		}
		return p.furnish(h)
	})
	return p
}

func (p *simProcess) furnish(h *mount.Host) error {
	store := simStore{p.store, p}
	manager, err := mount.New(mount.Config{Store: store, Mounter: simMounter{h, p}, NewID: p.newID})
	if err != nil {
		return err
	}
	all, err := files.New(files.Config{Bucket: p.bucket, SoleWriter: true, NewID: p.newID})
	if err != nil {
		return err
	}
	folders, err := mount.NewFolders(mount.FoldersConfig{Store: store, NewID: p.newID})
	if err != nil {
		return err
	}
	purger, err := mount.NewPurger(mount.PurgerConfig{Store: store, Remove: func(ctx context.Context, t mount.Tombstone) error {
		return p.remove(ctx, all, t)
	}})
	if err != nil {
		return err
	}
	collector, err := mount.NewCollector(mount.CollectorConfig{Store: store, Purger: purger, Grace: simGrace, Gone: p.gone, Now: p.clock})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.host, p.manager, p.collector, p.purger, p.folders, p.files = h, manager, collector, purger, folders, all
	return nil
}

// simMounter is a host whose references are released when the dice say so: one
// that is and another that is taken in the same moment meet in an order that is Go's.
type simMounter struct {
	*mount.Host
	p *simProcess
}

func (m simMounter) Mount(ctx context.Context, s mount.Spec) (mount.Mount, error) {
	one, err := m.Host.Mount(ctx, s)
	if err != nil {
		return nil, err
	}
	return &simMount{one.(simReference), m.p}, nil
}

// simReference is all that a host's mount can do.
type simReference interface {
	mount.Mount
	mount.Refresher
	mount.Reporter
	mount.Fencer
}

type simMount struct {
	simReference
	p *simProcess
}

func (m *simMount) Release(ctx context.Context) error {
	_, err := m.p.park(ctx, "release", filepath.Base(m.HostDir()))
	if err != nil && !errors.Is(err, errSimDead) { // at the very end everything goes home
		return err
	}
	return m.simReference.Release(ctx)
}

// ready are the processes that work.
func (s *sim) ready() []*simProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.processes), func(p *simProcess) bool { return p.dead || p.drains || p.manager == nil })
}

// kill ends a process as kill -9 does, and all that it served with it.
func (s *sim) kill(p *simProcess) {
	s.mu.Lock()
	p.dead = true
	s.add("%v DIES", p)
	for name, w := range s.works {
		if w.p == p {
			delete(s.works, name)
		}
	}
	for _, f := range p.locks {
		_ = f.Close() // one that was let go of already
	}
	p.locks = nil
	var mine []*simServing
	for _, v := range s.servings {
		if v.p == p {
			mine = append(mine, v)
		}
	}
	s.old = append(s.old, p)
	s.mu.Unlock()
	for _, v := range mine {
		v.die(errSimDead)
		go func() { _ = v.renewer.Stop(context.Background()) }()
	}
	s.wait()
}

// sendHome ends everything, so that nothing of the bubble is left.
func (s *sim) sendHome() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	close(s.over)
	synctest.Wait()
	for _, v := range s.servings {
		v.let(true)
		v.die(errSimDead)
		_ = v.renewer.Stop(context.Background())
	}
	for _, p := range slices.Concat(s.processes, s.old) {
		if p.host != nil {
			_ = p.host.Close(context.Background())
		}
	}
	time.Sleep(10 * time.Minute) // what retries or waits gives up before
}
