package sim

import (
	"fmt"
	"hash"
	"hash/fnv"
	"time"
)

// trace is what has happened, in order. It keeps the latest lines and the hash of all.
type trace struct {
	began time.Time
	lines []string
	count int
	sum   hash.Hash64
	keep  int
}

func newTrace(keep int) *trace {
	return &trace{began: time.Now(), sum: fnv.New64a(), keep: keep}
}

func (t *trace) add(format string, args ...any) {
	line := fmt.Sprintf("%9.3f  ", time.Since(t.began).Seconds()) + fmt.Sprintf(format, args...)
	t.sum.Write([]byte(line))
	t.count++
	if len(t.lines) >= 2*t.keep {
		t.lines = append(t.lines[:0], t.lines[len(t.lines)-t.keep:]...)
	}
	t.lines = append(t.lines, line)
}

func (t *trace) hash() string { return fmt.Sprintf("%016x", t.sum.Sum64()) }

// latest are the lines that are kept.
func (t *trace) latest() []string { return t.lines[max(0, len(t.lines)-t.keep):] }
