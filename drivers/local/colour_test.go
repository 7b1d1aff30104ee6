//go:build linux

package local

import (
	"slices"
	"testing"
)

// Of two sets of capabilities none is a part of the other, so that the
// processes of different handles can't look into each other.
func TestColoursAreIncomparable(t *testing.T) {
	seen := map[string]bool{}
	for n := range uint(sets) {
		set := subset(n)
		key := ""
		for _, c := range set {
			if !slices.Contains(harmless[:], c) {
				t.Fatalf("set %d has %s", n, c.name)
			}
			key += c.name + " "
		}
		if len(set) != len(harmless)/2 || seen[key] {
			t.Fatalf("set %d is %v", n, set)
		}
		seen[key] = true
	}
}

// The sets come round only after all have been had.
func TestColoursComeRound(t *testing.T) {
	c := newColours()
	first := c.take()
	for range sets - 1 {
		if slices.Equal(c.take(), first) {
			t.Fatal("a set was had again too early")
		}
	}
	if !slices.Equal(c.take(), first) {
		t.Fatal("the sets did not come round")
	}
}
