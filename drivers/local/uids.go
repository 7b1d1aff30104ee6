//go:build linux

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// uidsDir holds, below the root, one file for each user id that a machine
// has, by its number. What is in it is the machine's incarnation.
const uidsDir = "uids"

// checkUIDs refuses a range that no sandbox could have ids of.
func (c *Config) checkUIDs() error {
	rule := ""
	switch last := c.UIDs.First + c.UIDs.Count - 1; {
	case c.UIDs == (UIDRange{}):
		return nil
	case c.UIDs.First <= 0 || c.UIDs.Count <= 0 || int64(last) > 1<<32-2 || last < c.UIDs.First:
		rule = "must be ids other than root's, of which there is one at least, and all below 4294967295"
	case c.Unconfined:
		rule = "must be empty where sandboxes are unconfined"
	case os.Geteuid() != 0:
		rule = "must be empty where the host doesn't run as root"
	default:
		return nil
	}
	return &access.FieldError{Field: "UIDs", Rule: rule}
}

// uidOf returns the user id that the machine in dir has for as long as it
// lasts, 0 where it is the host's own. The machine is locked.
func (p *Provider) uidOf(dir string, incarnation sandbox.Incarnation) (int, error) {
	if p.uids == (UIDRange{}) {
		return 0, nil
	}
	own := filepath.Join(dir, uidFile)
	if b, err := os.ReadFile(own); err == nil {
		if uid, err := strconv.Atoi(string(b)); err == nil && uid >= p.uids.First && uid-p.uids.First < p.uids.Count {
			return uid, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	uid, err := p.takeUID(incarnation)
	if err == nil {
		err = os.WriteFile(own, []byte(strconv.Itoa(uid)), 0o600)
	}
	return uid, err
}

// takeUID takes an id that no other machine has.
func (p *Provider) takeUID(incarnation sandbox.Incarnation) (int, error) {
	taken := map[string]bool{}
	for _, e := range list(filepath.Join(p.root, uidsDir)) {
		taken[e.Name()] = true
	}
	for uid := p.uids.First; uid < p.uids.First+p.uids.Count; uid++ {
		name := strconv.Itoa(uid)
		if taken[name] {
			continue
		}
		f, err := os.OpenFile(filepath.Join(p.root, uidsDir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue // somebody was faster
		}
		if err != nil {
			return 0, err
		}
		_, err = f.WriteString(string(incarnation))
		return uid, errors.Join(err, f.Close())
	}
	return 0, fmt.Errorf("local: all %d ids of Config.UIDs are taken by machines", p.uids.Count)
}

// giveBack frees the ids of a machine of which nothing runs any more.
func (p *Provider) giveBack(incarnation sandbox.Incarnation) {
	for _, e := range list(filepath.Join(p.root, uidsDir)) {
		path := filepath.Join(p.root, uidsDir, e.Name())
		if b, err := os.ReadFile(path); err == nil && sandbox.Incarnation(b) == incarnation {
			os.Remove(path)
		}
	}
}

// sweepUIDs frees the ids of machines that are not there any more, because
// who removed them, or tried them out, died before it could give them back.
func (p *Provider) sweepUIDs() {
	there := map[string]bool{}
	for _, dir := range []string{machinesDir, trashDir, newDir} {
		for _, e := range list(filepath.Join(p.root, dir)) {
			if rec, err := readRecord(filepath.Join(p.root, dir, e.Name())); err == nil {
				there[string(rec.Incarnation)] = true
			} else if !errors.Is(err, fs.ErrNotExist) {
				return // it may have one
			}
		}
	}
	for _, e := range list(filepath.Join(p.root, uidsDir)) {
		path := filepath.Join(p.root, uidsDir, e.Name())
		info, err := e.Info()
		if b, e := os.ReadFile(path); e == nil && err == nil && !there[string(b)] && time.Since(info.ModTime()) > time.Minute {
			os.Remove(path)
		}
	}
}
