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
	Boot    string `json:"boot"` // of the host, which starts its ids and times anew
	Network string `json:"network,omitempty"`
}

// readInit finds the init that the machine in dir has, or nil.
func readInit(host procfs, dir string) (*initProc, error) {
	i, err := recordedInit(host, dir)
	if err != nil || i == nil || !i.alive(host) {
		return nil, err
	}
	return i, nil
}

// recordedInit reads which process was the init of the machine in dir, the
// latest it had since the host was started, or nil.
func recordedInit(host procfs, dir string) (*initProc, error) {
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
	return &initProc{pid: r.PID, start: r.Start, uid: r.UID, network: r.Network}, nil
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
