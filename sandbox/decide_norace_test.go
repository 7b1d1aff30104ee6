//go:build !race

package sandbox_test

// raceEnabled: the race detector makes everything some ten times slower.
const raceEnabled = false
