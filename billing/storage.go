package billing

import (
	"math/bits"
	"time"
)

// Stored is what a sandbox's disk has held, as a counter that only ever
// grows: KiB-seconds up to Since, and Bytes from then on.
type Stored struct {
	Used  int64 // KiB-seconds before Since
	Bytes int64 // held since then; 0 = nothing, or nothing known
	Since time.Time
}

// At is the counter as of a time. A time before Since counts as Since: no
// clock that steps back ever lowers it. It saturates.
func (s Stored) At(now time.Time) int64 {
	if s.Since.IsZero() || s.Bytes <= 0 || !now.After(s.Since) {
		return s.Used
	}
	kib := uint64(s.Bytes)/1024 + uint64(b2i(s.Bytes%1024 > 0))
	hi, lo := bits.Mul64(kib, uint64(now.Sub(s.Since)/time.Second))
	if hi > 0 || lo > uint64(1<<63-1-s.Used) {
		return 1<<63 - 1
	}
	return s.Used + int64(lo)
}

// Holding is the counter once it is known that the disk holds bytes from now
// on. What passed of a second goes to the new size.
func (s Stored) Holding(bytes int64, now time.Time) Stored {
	if s.Since.IsZero() {
		return Stored{Used: s.Used, Bytes: bytes, Since: now}
	}
	passed := max(now.Sub(s.Since), 0).Truncate(time.Second)
	return Stored{Used: s.At(now), Bytes: bytes, Since: s.Since.Add(passed)}
}

// StorageCharge is what is to be charged of storage since it was charged last:
// the quantity of [MeterStorage] from the watermark on. There is nothing to
// post where ok is false: the clock has not moved on, or nothing is held and nothing was. What is
// stored later is charged from when it is stored all the same, for it is the counter that is charged and not the span.
func StorageCharge(s Stored, m Mark, now time.Time) (quantity int64, ok bool) {
	if !now.After(m.Through) {
		return 0, false
	}
	quantity = max(s.At(now)-m.Total, 0)
	return quantity, quantity > 0 || s.Bytes > 0
}
