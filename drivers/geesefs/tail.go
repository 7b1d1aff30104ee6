package geesefs

import (
	"bytes"
	"sync"
)

// tailBytes is how much is kept of what a program says.
const tailBytes = 4 << 10

// mountedText is what the program says once it has mounted.
const mountedText = "successfully mounted"

// tail keeps the end of what the program says, and whether it said that it has mounted.
type tail struct {
	mu      sync.Mutex
	text    []byte
	mounted bool
}

// hasMounted reports whether it said so.
func (t *tail) hasMounted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mounted
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.mounted = t.mounted || bytes.Contains(t.text, []byte(mountedText))
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
