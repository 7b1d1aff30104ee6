package policy

import (
	"slices"
	"strings"
	"time"
)

// Limits bounds one command. Zero is the default of each field.
type Limits struct {
	// Timeout is how long a command may take that asks for nothing; 0 means [DefaultTimeout].
	Timeout time.Duration
	// MaxTimeout is how long one may take that asks for more; 0 means [DefaultMaxTimeout].
	MaxTimeout time.Duration
	// Output is how many bytes of output are shown; 0 means [DefaultOutput].
	Output int
	// Env are the names of the variables that whoever asks for a command may set. None: none.
	Env []string
}

// The defaults of [Limits].
const (
	DefaultTimeout    = 2 * time.Minute
	DefaultMaxTimeout = 200 * time.Second
	MinTimeout        = time.Second // what takes a command of less time would end it before it has begun
	DefaultOutput     = 256 << 10
)

// Time is how long a command may take that asks for so long; 0: it does not say.
func (l Limits) Time(asked time.Duration) time.Duration {
	most := l.MaxTimeout
	if most == 0 {
		most = DefaultMaxTimeout
	}
	if asked == 0 {
		if asked = l.Timeout; asked == 0 {
			asked = DefaultTimeout
		}
	}
	return min(max(MinTimeout, asked), most)
}

// Bytes is how many bytes of output are shown.
func (l Limits) Bytes() int {
	if l.Output == 0 {
		return DefaultOutput
	}
	return l.Output
}

// Variables are those of env, each "NAME=value", that may be set, and the names of the others.
func (l Limits) Variables(env []string) (kept, dropped []string) {
	for _, v := range env {
		name, _, ok := strings.Cut(v, "=")
		if ok && slices.Contains(l.Env, name) {
			kept = append(kept, v)
			continue
		}
		dropped = append(dropped, name)
	}
	return kept, dropped
}
