//go:build linux

package mount_test

import (
	"context"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"

	"github.com/bunkroom/bunkroom/mount"
)

// check compares what there is with the rules, after every step.
func (s *sim) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := map[string]*simMounted{}
	for _, m := range s.table {
		if m.serving == nil {
			continue
		}
		if other := at[m.dir]; other != nil {
			s.violate("one owner", "%v and %v are mounted at one directory", other.serving, m.serving)
		}
		at[m.dir] = m
	}
}

// run plays the schedule.
func (s *sim) run(steps int) {
	defer s.sendHome()
	s.calm = true
	for range 2 {
		s.processes = append(s.processes, s.process())
	}
	s.finish(time.Minute)
	s.calm = false
	for range steps {
		if s.failed() {
			return
		}
		s.step()
	}
	s.converge()
}

// converge ends the faults, lets everybody finish, and looks at what is left.
func (s *sim) converge() {
	s.log("--- faults stop")
	s.mu.Lock()
	s.calm, s.outage, s.tableBroken, s.noMinter = true, time.Time{}, time.Time{}, time.Time{}
	s.mu.Unlock()
	s.finish(4 * time.Hour)
	for range 240 { // what nobody holds is tried again
		s.finish(time.Hour)
		s.advance(time.Second)
	}
	if s.failed() {
		return
	}
	s.idle()
	for _, p := range slices.Clone(s.processes) {
		if p.host != nil {
			s.shutDown(p)
			s.finish(4 * time.Hour)
		}
	}
	if s.failed() { // then what takes their place has not begun
		return
	}
	last := s.processes[0]
	s.mu.Lock()
	closing := slices.Sorted(maps.Keys(s.closing))
	s.mu.Unlock()
	for _, project := range closing {
		s.purge(last, project)
		s.finish(time.Hour)
	}
	for range 3 {
		s.begin(last, "collect", func(ctx context.Context) error {
			_, err := last.collector.Collect(ctx, mount.CollectOptions{})
			return err
		})
		s.finish(time.Hour)
		s.advance(simGrace + time.Minute)
	}
	for _, p := range slices.Clone(s.processes) {
		s.shutDown(p)
		s.finish(time.Hour)
	}
	if s.failed() {
		return
	}
	for _, p := range s.processes {
		s.begin(p, "close", p.closes)
		s.finish(time.Hour)
	}
	if !s.failed() {
		s.rest()
	}
}

func (p *simProcess) closes(ctx context.Context) error { return p.host.Close(ctx) }

// idle: where nobody works nothing is mounted, but for what dead processes have left.
func (s *sim) idle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.servings {
		if !v.over {
			s.violate("nothing stays mounted", "%v goes on, and nobody works in it", v)
		}
	}
	for _, m := range s.table {
		if m.serving != nil && !m.serving.p.dead {
			s.violate("nothing stays mounted", "%v stays mounted, and nobody works in it", m.serving)
		}
	}
	if len(s.works) > 0 {
		s.violate("progress", "%d works go on", len(s.works))
	}
}

// rest is what must hold once all processes have ended in good order.
func (s *sim) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx := context.Background()
	for _, m := range s.table {
		s.violate("nothing stays mounted", "%v is left at %s", m.serving, filepath.Base(m.dir))
	}
	for id, names := range s.kept {
		row, err := s.store.Get(ctx, id)
		if err != nil {
			s.violate("no file lost", "%s has no row: %v", simTip(id), err)
			continue
		}
		prefix, err := mount.PrefixOf("", row)
		if err != nil {
			s.Fatal(err)
		}
		for name := range names {
			if there, err := s.bucket.Exists(ctx, string(prefix)+name); err != nil || !there {
				s.violate("no file lost", "%s of %s is gone (%v)", name, simTip(id), err)
			}
		}
	}
	for id, prefix := range s.purged {
		if o, err := s.bucket.List(&blob.ListOptions{Prefix: string(prefix)}).Next(ctx); err == nil {
			s.violate("purge leaves nothing", "%s of %s is left", o.Key, simTip(id))
		}
	}
	if left, err := s.store.Tombstones(ctx, mount.Target{}, "", mount.MaxListed); err != nil || len(left) > 0 {
		s.violate("purge leaves nothing", "the tombstones %v (%v)", left, err)
	}
	found := map[string]bool{}
	err := filepath.WalkDir(s.root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !strings.HasSuffix(path, ".lock") {
			found[e.Name()] = true
		}
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	if !maps.Equal(found, s.strays) {
		s.violate("no file lost", "below the root there are %v, and %v were written where nothing was mounted", found, s.strays)
	}
	dirs, err := filepath.Glob(filepath.Join(s.root, "*", "*"))
	if err != nil {
		s.Fatal(err)
	}
	for _, dir := range dirs {
		if !strings.Contains(dir, "-stray-") && len(s.strays) == 0 {
			s.violate("nothing stays", "the directory %s", filepath.Base(dir))
		}
	}
}
