package session

import (
	"context"
	"errors"

	"github.com/bunkroom/bunkroom/access"
)

// muteAfter is how many calls of one kind in a row a provider may leave unanswered.
const muteAfter = 3

var errMute = access.NewSentinel("session: provider does not answer", 503, "unavailable", "The sandboxes can't be reached right now. Try again shortly.")

// The kinds of calls of a provider that a pass makes. That one of them is
// answered says nothing of another: a provider may show its machines at once,
// and hang when it is to destroy one.
const (
	callInspect = "inspect"
	callDestroy = "destroy"
	callReap    = "reap"
)

// mutes counts of one pass, by provider and kind of call, how many calls in a
// row were not answered in time.
type mutes map[[2]string]int

// has reports whether a provider is not to be asked any more in this pass.
func (m mutes) has(provider string) bool {
	for _, kind := range []string{callInspect, callDestroy, callReap} {
		if m[[2]string{provider, kind}] >= muteAfter {
			return true
		}
	}
	return false
}

// answered counts what became of one call.
func (m mutes) answered(ctx context.Context, provider, kind string, err error) {
	switch key := [2]string{provider, kind}; {
	case ctx.Err() == nil && timedOut(err):
		m[key]++
	case err == nil:
		delete(m, key)
	}
}

// timedOut reports whether a call was not answered in time.
func timedOut(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
