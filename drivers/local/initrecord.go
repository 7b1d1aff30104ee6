//go:build linux

package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

// initRecord says, in the machine's directory, which process is its init. It is
// known by nothing that it could be robbed of from inside: what runs in the machine has its user id,
// and may write to its memory, where its environment is too.
type initRecord struct {
	PID     int    `json:"pid"`
	Start   uint64 `json:"start"`
	UID     int    `json:"uid,omitempty"`
	Host    int    `json:"host,omitempty"` // the process of the host that has started it, and when that was started itself
	Since   uint64 `json:"since,omitempty"`
	Boot    string `json:"boot"` // of the host, which starts its ids and times anew
	Network string `json:"network,omitempty"`
}

// readInit finds the init that the machine in dir has, or nil. One whose process of
// the host has died, and which was kept from ending with that, is ended.
func readInit(host procfs, dir string) (*initProc, error) {
	r, err := readInitRecord(host, dir)
	if err != nil || r == nil {
		return nil, err
	}
	i := r.proc()
	if !i.alive(host) {
		return nil, nil
	}
	if s, err := host.stat(r.Host); r.Host != 0 && (err != nil || s.start != r.Since || s.dead()) {
		return nil, i.kill(host)
	}
	return i, nil
}

// recordedInit reads which process was the init of the machine in dir, the
// latest it had since the host was started, or nil.
func recordedInit(host procfs, dir string) (*initProc, error) {
	r, err := readInitRecord(host, dir)
	if err != nil || r == nil {
		return nil, err
	}
	return r.proc(), nil
}

// proc is the process that r is of.
func (r *initRecord) proc() *initProc {
	return &initProc{pid: r.PID, start: r.Start, uid: r.UID, network: r.Network}
}

// readInitRecord reads the record of the machine in dir, nil where there is none since the host was started.
func readInitRecord(host procfs, dir string) (*initRecord, error) {
	b, err := os.ReadFile(filepath.Join(dir, initFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r initRecord
	if json.Unmarshal(b, &r) != nil || r.Boot != "" && r.Boot != host.boot() {
		return nil, nil
	}
	return &r, nil
}

// spareSize is what the record of an init may take at most.
const spareSize = 512

// spareInit makes room for the record of an init, so that one can be started on a full disk.
func spareInit(dir string) error {
	return os.WriteFile(filepath.Join(dir, spareFile), bytes.Repeat([]byte{' '}, spareSize), 0o600)
}

// recordInit stores which process is the init of the machine in dir, instead
// of the last one, which has ended. The machine is locked. It need not last longer than the host runs.
func recordInit(dir string, r initRecord) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	text = append(text, bytes.Repeat([]byte{' '}, max(spareSize-len(text), 0))...)
	endRecord(dir)
	f, err := os.OpenFile(filepath.Join(dir, spareFile), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil { // so that nobody reads half of it
		err = os.Rename(filepath.Join(dir, spareFile), filepath.Join(dir, initFile))
	}
	return err
}

// endRecord takes back which process was the machine's init, if one was, and keeps the room.
func endRecord(dir string) {
	os.Rename(filepath.Join(dir, initFile), filepath.Join(dir, spareFile))
}
