//go:build linux

package crash

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// place is where in a story to die.
type place struct{ story, at string }

// cut parts a place into the call, the how manieth of its name it is, and where about it.
func (p place) cut() (call string, n int, where string) {
	words := strings.Fields(p.at)
	for i, word := range words {
		if n, err := strconv.Atoi(word); err == nil {
			return strings.Join(words[:i], " "), n, strings.Join(words[i+1:], " ")
		}
	}
	return p.at, 0, ""
}

// Calls by what they are about.
var (
	moneyCalls = []string{"hold", "post", "unhold", "grant", "marks", "holds", "expire", "unexported", "export", "exported", "stored", "note"}
	openCalls  = []string{"acquire", "attach", "start", "touch", "close", "release"}
)

// ofMoney reports whether the place is about money, or its story is.
func (p place) ofMoney() bool {
	call, _, _ := p.cut()
	_, told := certain[p.story]
	return told || slices.Contains(moneyCalls, call)
}

// certain are the calls that are surely made in stories where how many there
// are of some depends on the time that passes, or on which chore is first;
// with how many there are at least, where that is what differs. (What runs out
// of credit is closed twice at the same time.)
var certain = map[string]map[string]int{
	"beats":                   surely(map[string]int{"post": 4, "renew": 2}, moneyCalls, openCalls),
	"out of credit":           surely(map[string]int{"post": 3, "renew": 1, "close": 0}, moneyCalls, openCalls),
	"abandoned":               surely(nil, moneyCalls, []string{"reap"}),
	"expired, then abandoned": surely(nil, moneyCalls, []string{"reap"}),
}

const unlimited = 1 << 30

func surely(some map[string]int, calls ...[]string) map[string]int {
	all := map[string]int{}
	for _, call := range slices.Concat(calls...) {
		all[call] = unlimited
	}
	for call, n := range some {
		all[call] = n
	}
	return all
}

// sure reports whether the place is passed whenever its story is played.
func (p place) sure() bool {
	calls, told := certain[p.story]
	call, n, _ := p.cut()
	return !told || n <= calls[call]
}

// Calls of the provider, which take a while.
var longCalls = []string{"create", "attach", "inspect", "destroy", "start", "write", "close", "reap"}

// begins reports whether something begins there in which to die at any moment:
// a call of the provider, or the time that a work takes.
func (p place) begins() bool {
	call, n, where := p.cut()
	if certain[p.story]["renew"] > 0 {
		return call == "post" && n == 1 && where == "after"
	}
	return where == "before" && slices.Contains(longCalls, call)
}

// lasts is about how long that takes: what starts no process is soon done.
func (p place) lasts() time.Duration {
	switch call, _, _ := p.cut(); call {
	case "post":
		return 2500 * time.Millisecond
	case "create", "inspect", "write":
		return time.Millisecond
	}
	return 20 * time.Millisecond
}

// drawn are n of the places at most: one of each kind first, so that none is left out as long as n allows.
func drawn(draw *rand.Rand, places []place, n int) []place {
	draw.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	type kind struct{ call, where string }
	seen := map[kind]bool{}
	var first, rest []place
	for _, p := range places {
		call, _, where := p.cut()
		if k := (kind{call, where}); !seen[k] {
			seen[k] = true
			first = append(first, p)
		} else {
			rest = append(rest, p)
		}
	}
	all := append(first, rest...)
	return all[:min(n, len(all))]
}
