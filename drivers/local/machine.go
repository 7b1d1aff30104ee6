//go:build linux

package local

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// The directories below the root.
const (
	machinesDir = "machines" // one directory for each machine, by its name
	newDir      = "new"      // machines that are being made
	trashDir    = "trash"    // machines that are being removed
)

// What a machine's directory holds.
const (
	recordFile = "machine.json" // written before the directory gets its name, and never changed
	lockFile   = "lock"         // held by whoever starts an init, or destroys
	useFile    = "use"          // held, shared, by each process of the host that uses the init
	initFile   = "init.json"    // the running init
	spareFile  = "init.spare"   // room for its record, while there is none
	uidFile    = "uid"          // the user id that the machine has, where that is its own
	workDir    = "workspace"
	bindDir    = workDir + "-agent" // unconfined, links to what is bound
	tempDir    = "tmp"
)

// record is what is stored of a machine.
type record struct {
	Incarnation sandbox.Incarnation `json:"incarnation"`
	Spec        sandbox.Spec        `json:"spec"`
	Labels      map[string]string   `json:"labels,omitempty"`
	Created     time.Time           `json:"created"`
}

// readRecord reads the record of the machine in dir; fs.ErrNotExist where there is none.
func readRecord(dir string) (record, error) {
	var r record
	b, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil || r.Incarnation == "" {
		return r, fmt.Errorf("local: %s: no machine's record (%w)", filepath.Join(dir, recordFile), err)
	}
	return r, nil
}

// machine is a machine that this process uses. It is shared by all handles.
type machine struct {
	name   string
	dir    string
	rec    record
	log    *slog.Logger
	opened *os.File // the directory, held so that its inode is not another's
	ino    uint64
	dev    uint64

	// gate is held, shared, while a process is being started.
	gate   sync.RWMutex
	ended  bool // it was destroyed; guarded by gate
	closed bool // the provider was closed; guarded by gate

	mu      sync.Mutex
	users   int // handles and processes
	procs   map[*process]struct{}
	idle    *time.Timer    // until the machine is put down
	lingers bool           // idle runs
	since   time.Time      // when somebody last left it unused, or nothing running in it
	put     func()         // ends its init and gives it up, as far as it is not used
	past    func(*process) // keeps what has ended; nil where nothing is kept

	colours colours         // guarded by mu
	tags    map[string]bool // those that admitTag has noted; guarded by mu
	links   links
	watches watches
	initMu  sync.Mutex
	init    *initProc // confined only, from the first process on; guarded by initMu
}

func openMachine(dir, name string, rec record, log *slog.Logger) (*machine, error) {
	opened, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(int(opened.Fd()), &st); err != nil {
		opened.Close()
		return nil, err
	}
	return &machine{
		name: name, dir: dir, rec: rec, log: log, opened: opened, ino: st.Ino, dev: st.Dev,
		procs: map[*process]struct{}{}, colours: newColours(), tags: map[string]bool{},
	}, nil
}

// standing reports ErrGone or ErrStale where the machine's name is no longer its own.
func (m *machine) standing() error {
	var now syscall.Stat_t
	switch err := syscall.Lstat(m.dir, &now); {
	case err == syscall.ENOENT:
		return fmt.Errorf("%w: %s", sandbox.ErrGone, m.name)
	case err != nil:
		return &fs.PathError{Op: "lstat", Path: m.dir, Err: err}
	case now.Ino != m.ino || now.Dev != m.dev:
		return fmt.Errorf("%w: %s", sandbox.ErrStale, m.name)
	}
	return nil
}

// lingering is how long a machine is kept ready that nobody uses, or in which nothing runs.
const lingering = 30 * time.Second

func (m *machine) enter() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users++
}

func (m *machine) exit() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exitLocked()
}

func (m *machine) exitLocked() {
	m.users--
	if m.users == 0 {
		m.linger()
	}
}

// linger has the machine put down once it has been as it is for a while. A
// timer that runs is left to run, for to set one at the end of each process would wake a
// thread of the runtime every time. m.mu is held.
func (m *machine) linger() {
	m.since = time.Now()
	switch {
	case m.lingers:
		return
	case m.idle == nil:
		m.idle = time.AfterFunc(lingering, m.lingered)
	default:
		m.idle.Reset(lingering)
	}
	m.lingers = true
}

// lingered puts the machine down, if it was a while ago that it was last used.
func (m *machine) lingered() {
	m.mu.Lock()
	left := lingering - time.Since(m.since)
	if m.lingers = left > 0; m.lingers {
		m.idle.Reset(left)
	}
	put := m.put
	m.mu.Unlock()
	if left <= 0 {
		put()
	}
}

// colour returns what no other handle's processes have.
func (m *machine) colour() []capability {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.colours.take()
}

// join makes p one of the machine's processes.
func (m *machine) join(p *process) {
	m.enter()
	m.mu.Lock()
	m.procs[p] = struct{}{}
	m.mu.Unlock()
}

func (m *machine) leave(p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.procs, p)
	if len(m.procs) == 0 {
		m.linger()
	}
	m.exitLocked()
}

// hasStarted says that p runs, and can be shown.
func (m *machine) hasStarted(p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.shown = true
}

// hasEnded says that p, which is still one of the machine's processes, has ended.
func (m *machine) hasEnded(p *process) {
	if p.detached {
		os.Remove(m.ofProcess(p.id, recordSuffix))
	}
	if m.past != nil {
		m.past(p)
	}
}

// shown lists those of the machine's processes that have been started.
func (m *machine) shown() []*process {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*process
	for p := range m.procs {
		if p.shown {
			list = append(list, p)
		}
	}
	return list
}

// running lists the machine's processes that this process started.
func (m *machine) running() []*process {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]*process, 0, len(m.procs))
	for p := range m.procs {
		list = append(list, p)
	}
	return list
}

// usable reports why the machine is of no use to this process any more, if so.
func (m *machine) usable() error {
	m.gate.RLock()
	defer m.gate.RUnlock()
	switch {
	case m.closed:
		return fmt.Errorf("%w: the provider was closed", sandbox.ErrClosed)
	case m.ended:
		return fmt.Errorf("%w: %s", sandbox.ErrGone, m.name)
	}
	return nil
}

// end says that the machine was destroyed. It begins to end its processes, and returns them.
func (m *machine) end() []*process {
	m.gate.Lock()
	m.ended = true
	m.gate.Unlock()
	list := m.running()
	for _, p := range list {
		p.hurried.Do(func() { close(p.hurry) })
		p.stop(sandbox.SandboxEnded)
	}
	return list
}

// stopAll ends processes, all at the same time, and waits for that.
func stopAll(list []*process, why sandbox.ExitReason) {
	for _, p := range list {
		p.stop(why)
	}
	for _, p := range list {
		<-p.stop(why)
		select {
		case <-p.done:
		case <-time.After(2 * lastBytes):
		}
	}
}

// lock holds a lock file of the machine in dir, against other processes of the host too.
// fs.ErrNotExist: the machine is not there any more.
func lock(dir, file string, how int) (unlock func(), err error) {
	return lockFileAt(filepath.Join(dir, file), how)
}

// lockFileAt is lock for any file.
func lockFileAt(path string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() {
		syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // a child that is just being started may have f too
		f.Close()
	}, nil
}
