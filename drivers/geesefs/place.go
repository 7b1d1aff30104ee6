package geesefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// The modes of what holds credentials.
const (
	privateDir  = 0o700
	privateFile = 0o600
)

// The files of a place.
const (
	configFile = "config"
	leaseFile  = "lease.json"
	leaseTemp  = "lease.json.new"
)

// place is the directory in which one run of the program finds its
// configuration and its credentials. It is the program's home, too.
type place struct {
	dir string

	mu      sync.Mutex
	at      location // of the first credentials; zero before
	secrets []string // of the latest ones, for what the program says
}

// newPlace makes a place below the directory of this process.
func newPlace(below string) (*place, error) {
	dir, err := os.MkdirTemp(below, "run-") // with mode 0700
	if err != nil {
		return nil, err
	}
	return &place{dir: dir}, nil
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

// install puts credentials into the place of those before, if they lead to
// where those did: the program goes on where it began.
func (p *place) install(_ context.Context, c mount.Credentials, report time.Time) error {
	if err := p.admit(c); err != nil {
		return err
	}
	text, err := leaseText(c, report)
	if err != nil {
		return err
	}
	if err := writePrivate(p.path(leaseTemp), text); err != nil {
		return err
	}
	return os.Rename(p.path(leaseTemp), p.path(leaseFile))
}

// admit refuses credentials that lead elsewhere than the first ones, and knows from now on what is secret in them.
func (p *place) admit(c mount.Credentials) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == (location{}) {
		p.at = locationOf(c)
	} else if p.at != locationOf(c) {
		return errors.New("geesefs: the storage of a folder has moved: it must be mounted anew")
	}
	p.secrets = append(p.secrets, c.SecretKey)
	if c.SessionToken != "" {
		p.secrets = append(p.secrets, c.SessionToken)
	}
	p.secrets = p.secrets[max(0, len(p.secrets)-4):] // what is in use now, and what was just before
	return nil
}

// writePrivate writes a file that nobody else can have put there or be waiting for.
func writePrivate(name string, text []byte) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, privateFile) // which follows no link
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// censored is what the program said, without what nobody may read.
func (p *place) censored(said string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, secret := range p.secrets {
		said = strings.ReplaceAll(said, secret, "…")
	}
	return said
}

// remove removes the place's files and then the place, never anything else.
func (p *place) remove() error { return removePlace(p.dir) }

func removePlace(dir string) error {
	var all error
	for _, name := range []string{leaseFile, leaseTemp, configFile, ""} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	if all != nil {
		return fmt.Errorf("geesefs: files with credentials: %w", all)
	}
	return nil
}
