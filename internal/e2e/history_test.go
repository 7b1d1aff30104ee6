package e2e

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// history is what clients asked for and were answered, by one clock: that of
// the test's process, read before each call is sent and after its answer came.
type history struct {
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
	names int
}

func newHistory() *history { return &history{began: time.Now()} }

// client is a number that no other client has. One whose process was killed
// gets a new one: its last call goes on for ever.
func (h *history) client() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names++
	return h.names
}

func (h *history) now() int64 { return time.Since(h.began).Nanoseconds() }

// never is when a call ends of which nobody will ever hear: it may have been done at any time, or never.
const never = math.MaxInt64

func (h *history) add(client int, input any, call int64, output any, ended int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: input, Call: call, Output: output, Return: ended})
}

// size is how many calls were made.
func (h *history) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}

// of are those operations that which picks.
func (h *history) of(which func(input any) bool) (picked []porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range h.ops {
		if which(op.Input) {
			picked = append(picked, op)
		}
	}
	return picked
}

// checkLimit bounds the search for an order of one history.
const checkLimit = 20 * time.Second

// judge looks for an order in which the model would have given the same answers.
func judge(t testing.TB, m porcupine.Model, ops []porcupine.Operation) porcupine.CheckResult {
	t.Helper()
	return porcupine.CheckOperationsTimeout(m, ops, checkLimit)
}

// wantLinearizable fails the test, and shows the history, unless there is such an order.
func wantLinearizable(t testing.TB, what string, m porcupine.Model, ops []porcupine.Operation) {
	t.Helper()
	if got := judge(t, m, ops); got != porcupine.Ok {
		t.Errorf("%s: %s", what, got)
		for _, op := range ops {
			t.Logf("%d: %d to %d: %+v -> %+v", op.ClientId, op.Call, op.Return, op.Input, op.Output)
		}
	}
}

// tally counts what histories hold, by what was asked and answered, so that a
// workload in which nothing happens does not pass.
type tally map[string]int

func (n tally) count(ops []porcupine.Operation) {
	for _, op := range ops {
		switch in := op.Input.(type) {
		case sessionOp:
			out := op.Output.(sessionOut)
			n[answered(in.Op, out.Lost, out.Code)]++
			if out.Ended {
				n["End of an open one"]++
			}
		case leaseOp:
			out := op.Output.(leaseOut)
			n[answered(in.Op, out.Lost, out.Answer.Code)]++
			if len(out.Expired) > 0 {
				n["Expired, and there are"]++
			}
		}
	}
}

func answered(op string, lost bool, code string) string {
	switch {
	case lost:
		return "never answered"
	case code == "":
		return op
	}
	return op + ": " + code
}

// want fails the test where one of these never happened.
func (n tally) want(t testing.TB, things ...string) {
	t.Helper()
	for _, thing := range things {
		if n[thing] == 0 {
			t.Errorf("%q never happened: %v", thing, n)
		}
	}
	t.Logf("what happened: %v", n)
}
