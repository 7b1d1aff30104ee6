package geesefs

import (
	"context"
	"fmt"
	"os"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// Server serves folders on this host, each by a child process of its own. When
// this process ends, however it does, the children write out what was written, and end.
type Server struct {
	c     Config
	house *house
	cat   string
}

var _ mount.Server = (*Server)(nil)

// New returns a server. It makes a directory for this process below c.Dir, and
// removes what processes that have died have left there; what it can't remove
// it logs. The error is a [*access.FieldError]: "Dir" also where the directory
// can't be made.
//
// That the program is installed, and the host has FUSE, is looked at for each
// folder: a host without them can't have such mounts, and everything else works.
func New(c Config) (*Server, error) {
	c, err := c.checked()
	if err != nil {
		return nil, err
	}
	house, leftovers, err := openHouse(c.Dir)
	if err != nil {
		return nil, &access.FieldError{Field: "Dir", Rule: fmt.Sprintf("must be a directory of this user's own, or a place for one: %v", reason(err))}
	}
	if leftovers != nil {
		c.Log.Warn("files of a process that has died not removed", "cause", leftovers)
	}
	return &Server{c: c, house: house, cat: catPath()}, nil
}

// Close removes the directory of this process. It comes after every [mount.Serving] was stopped.
func (s *Server) Close() error { return s.house.remove() }

// catPath is the program that prints the credentials.
func catPath() string {
	for _, path := range []string{"/bin/cat", "/usr/bin/cat"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return "cat" // wherever the program's own PATH has it
}

// prepared is what a run of the program needs: its place, and who renews what is in it.
type prepared struct {
	place   *place
	renewer *mount.Renewer
	first   mount.Credentials
}

// prepare has the first credentials put into a new place, and keeps them renewed.
func (s *Server) prepare(ctx context.Context, spec mount.Spec, prefix mount.Prefix) (_ prepared, err error) {
	id := spec.Row.ID
	p, err := newPlace(s.house.dir)
	if err != nil {
		return prepared{}, failed(id, "directory for credentials", reason(err))
	}
	renewer, err := mount.NewRenewer(mount.RenewerConfig{
		Signer:  s.c.Signer,
		Grant:   mount.Grant{Prefix: prefix, Audience: mount.InNetwork, Run: spec.Run, TTL: s.c.TTL},
		Install: p.install, Log: s.c.Log.With("mount", id),
	})
	if err != nil {
		return prepared{}, failed(id, "credentials", err)
	}
	ready := prepared{place: p, renewer: renewer}
	defer func() {
		if err != nil {
			s.discard(ctx, id, ready)
		}
	}()
	if ready.first, err = renewer.Start(ctx); err != nil {
		return prepared{}, failed(id, "credentials", err)
	}
	if err = mount.CheckReach(ready.first, mount.InNetwork); err != nil {
		return prepared{}, failed(id, "storage", err)
	}
	if err = writePrivate(p.path(configFile), configText(s.cat, p.path(leaseFile))); err != nil {
		return prepared{}, failed(id, "configuration", reason(err))
	}
	return ready, nil
}

// discard ends the renewing and removes the credentials, whether or not ctx has ended.
func (s *Server) discard(ctx context.Context, id mount.ID, r prepared) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	if err := r.renewer.Stop(ctx); err != nil {
		s.c.Log.ErrorContext(ctx, "credentials are still being renewed", "mount", id, "cause", err)
	}
	if err := r.place.remove(); err != nil {
		s.c.Log.ErrorContext(ctx, "credentials not removed", "mount", id, "cause", err)
	}
}
