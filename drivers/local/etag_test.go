//go:build linux

package local

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestVersionTells(t *testing.T) {
	const tick, at = int64(4 * time.Millisecond), int64(1_700_000_000_123_456_789)
	second := at - at%int64(time.Second)
	for name, c := range map[string]struct {
		mtime, ctime, now int64
		want              telling
	}{
		"older than a tick":                        {at, at, at + 1, tellsNow},
		"written in this tick":                     {at, at, at, tellsSoon},
		"stamped finer than the clock":             {at + 1, at + 1, at, tellsSoon},
		"set exactly in this tick":                 {at + 1234, at, at, tellsNow},
		"set exactly, and moved in the next":       {at + 1234, at + tick, at + tick, tellsNow},
		"given an old time in this tick":           {at - int64(time.Hour), at, at, tellsSoon},
		"given an old time before":                 {at - int64(time.Hour), at, at + tick, tellsNow},
		"given a time to come":                     {at + int64(time.Hour), at, at, tellsSoon},
		"the clock was set back":                   {at, at, at - int64(time.Minute), tellsLate},
		"kept to the second, and written just now": {second, second, second + int64(time.Second), tellsLate},
		"kept to the second, and written before":   {second, second, second + int64(coarsest), tellsNow},
	} {
		v := version{mtime: c.mtime, ctime: c.ctime}
		if got := v.tells(c.now, tick); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// kernelFile is a file of a file system that stamps by a clock of ticks, and
// gives the number of a file that was replaced to the next that is made.
type kernelFile struct {
	tick, now int64
	at        version
	free      uint64 // the number that is given next
}

func (k *kernelFile) stamp() int64 { return k.now - k.now%k.tick }

func (k *kernelFile) inPlace() { k.at.mtime, k.at.ctime = k.stamp(), k.stamp() }

// replace puts a new file in its place. Its time is set where a Writer has written it.
func (k *kernelFile) replace(set bool) {
	old := k.at.ino
	k.at = version{ino: k.free, mtime: k.stamp(), ctime: k.stamp()}
	if set {
		k.at.mtime = k.now
	}
	k.free = old
}

// Whatever is written, by whom and how fast, no two contents have one version that tells.
func TestVersionsNeverRepeat(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		k := &kernelFile{tick: 4, now: 1_000_001, at: version{ino: 1}, free: 2}
		k.inPlace()
		content := 0
		seen := map[version]int{}
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			k.now += rapid.Int64Range(1, 5).Draw(r, "pause")
			switch rapid.SampledFrom([]string{"look", "look", "in place", "replace", "write"}).Draw(r, "do") {
			case "look":
				if k.at.tells(k.stamp(), k.tick) != tellsNow {
					continue
				}
				if was, ok := seen[k.at]; ok && was != content {
					r.Fatalf("contents %d and %d have the version %+v", was, content, k.at)
				}
				seen[k.at] = content
				continue
			case "in place":
				k.inPlace()
			case "replace":
				k.replace(false)
			case "write":
				k.replace(true)
			}
			content++
		}
		if len(seen) > 0 && fmt.Sprint(k.at.etag()) == (version{}).etag() {
			r.Fatal("an ETag of nothing")
		}
	})
}
