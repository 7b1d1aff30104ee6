//go:build linux

package local

// numbers are those of this architecture, as the system's own list has them.
func numbers(c systemCall) int { return c.arm64 }

// onlyHere are the numbers of calls that not every architecture has.
var onlyHere = [...]numbered{}
