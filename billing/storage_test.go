package billing_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/billing"
)

func TestStoredAt(t *testing.T) {
	for _, c := range []struct {
		rule   string
		stored billing.Stored
		now    time.Time
		want   int64
	}{
		{"nothing is known yet", billing.Stored{}, noon, 0},
		{"a KiB held a second is one", billing.Stored{Bytes: 1024, Since: noon}, noon.Add(time.Second), 1},
		{"a KiB that was begun counts as one", billing.Stored{Bytes: 1, Since: noon}, noon.Add(time.Second), 1},
		{"and a second one too", billing.Stored{Bytes: 1025, Since: noon}, noon.Add(time.Second), 2},
		{"a second counts when it is over", billing.Stored{Bytes: 1024, Since: noon}, noon.Add(time.Second - 1), 0},
		{"what was before is kept", billing.Stored{Used: 7, Bytes: 1024, Since: noon}, noon.Add(2 * time.Second), 9},
		{"an empty disk adds nothing", billing.Stored{Used: 7, Since: noon}, noon.Add(time.Hour), 7},
		{"a clock that steps back lowers nothing (T-65)", billing.Stored{Used: 7, Bytes: 1024, Since: noon}, noon.Add(-time.Hour), 7},
		{"it saturates", billing.Stored{Used: 7, Bytes: math.MaxInt64, Since: noon}, noon.Add(200 * 365 * 24 * time.Hour), math.MaxInt64},
		{"at the last bit too", billing.Stored{Used: math.MaxInt64 - 1, Bytes: 2048, Since: noon}, noon.Add(time.Second), math.MaxInt64},
		{"1 GB for a day", billing.Stored{Bytes: 1_000_000_000, Since: noon}, noon.Add(24 * time.Hour), 976_563 * 86_400},
	} {
		if got := c.stored.At(c.now); got != c.want {
			t.Errorf("%s: %d, want %d", c.rule, got, c.want)
		}
	}
}

func TestStorageCharge(t *testing.T) {
	key := billing.MarkKey{Resource: "sandbox-1", Meter: billing.MeterStorage}
	for _, c := range []struct {
		rule   string
		stored billing.Stored
		mark   billing.Mark
		now    time.Time
		want   int64
		ok     bool
	}{
		{"from the watermark on", billing.Stored{Bytes: 1024, Since: noon}, billing.Mark{Through: noon, Total: 0}, noon.Add(time.Minute), 60, true},
		{"what was charged is not again", billing.Stored{Bytes: 1024, Since: noon}, billing.Mark{Through: noon.Add(40 * time.Second), Total: 40}, noon.Add(time.Minute), 20, true},
		{"an empty disk is charged nothing", billing.Stored{Since: noon}, billing.Mark{Through: noon}, noon.Add(time.Hour), 0, false},
		{"nor is one that was never measured", billing.Stored{}, billing.Mark{Through: noon}, noon.Add(time.Hour), 0, false},
		{"one that has been emptied is charged what it held", billing.Stored{Used: 7, Since: noon}, billing.Mark{Through: noon}, noon.Add(time.Hour), 7, true},
		{"less than a second is posted, and charged 0 (T-64)", billing.Stored{Bytes: 1024, Since: noon}, billing.Mark{Through: noon}, noon.Add(time.Millisecond), 0, true},
		{"where the clock has not moved nothing is to be done (T-65)", billing.Stored{Bytes: 1024, Since: noon}, billing.Mark{Through: noon.Add(time.Hour), Total: 3600}, noon.Add(time.Hour), 0, false},
		{"nor where it stepped back (T-65)", billing.Stored{Bytes: 1024, Since: noon}, billing.Mark{Through: noon.Add(time.Hour), Total: 3600}, noon.Add(time.Minute), 0, false},
		{"more charged than was held is not given back", billing.Stored{Used: 5, Bytes: 1, Since: noon}, billing.Mark{Through: noon, Total: 9}, noon.Add(time.Second), 0, true},
	} {
		c.mark.MarkKey = key
		got, ok := billing.StorageCharge(c.stored, c.mark, c.now)
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %d, %v", c.rule, got, ok)
		}
	}
}

// A disk that was empty for a month and then grows is charged from when it grew. (T-64)
func TestGrowthIsNotChargedBackwards(t *testing.T) {
	mark := billing.Mark{Through: noon}
	stored := billing.Stored{}.Holding(0, noon)
	month := noon.Add(30 * 24 * time.Hour)
	for now := noon.Add(time.Hour); !now.After(month); now = now.Add(time.Hour) {
		quantity, ok := billing.StorageCharge(stored, mark, now)
		if quantity != 0 || ok {
			t.Fatalf("an empty disk is charged %d at %v (%v)", quantity, now, ok)
		}
	}
	stored = stored.Holding(1<<30, month)
	if quantity, ok := billing.StorageCharge(stored, mark, month.Add(time.Second)); quantity != 1<<20 || !ok {
		t.Errorf("a second of a GiB is %d (%v)", quantity, ok)
	}
}

// A size that shrinks counts from when it was measured, and takes nothing back; one that grows neither. (T-67)
func TestSizesThatChange(t *testing.T) {
	stored := billing.Stored{}.Holding(10<<10, noon).Holding(2<<10, noon.Add(time.Minute)).Holding(0, noon.Add(2*time.Minute))
	for after, want := range map[time.Duration]int64{
		2 * time.Minute: 60*10 + 60*2,
		3 * time.Minute: 60*10 + 60*2,
	} {
		if got := stored.At(noon.Add(after)); got != want {
			t.Errorf("after %v: %d, want %d", after, got, want)
		}
	}
	late := stored.Holding(5<<10, noon.Add(time.Minute)) // a measurement that comes late
	if late.Since.Before(stored.Since) || late.Used != stored.Used {
		t.Errorf("a late measurement went back: %+v after %+v", late, stored)
	}
}

// A DST change is no change: only instants count.
func TestStorageKnowsNoLocalTime(t *testing.T) { // T-58
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		berlin = time.FixedZone("CET", 3600)
	}
	before := time.Date(2026, 3, 29, 1, 30, 0, 0, berlin)
	after := before.Add(time.Hour) // 3:30, in the summer
	stored := billing.Stored{}.Holding(1024, before)
	if got := stored.At(after); got != 3600 {
		t.Errorf("over the change it held %d, want 3600", got)
	}
	if got := stored.At(after.UTC()); got != 3600 {
		t.Errorf("in UTC %d", got)
	}
}

// Whatever the clock does and whatever is measured: what was counted is never
// taken back, no charge is below 0, and charges sum to the most that was ever counted.
func TestStoredProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stored := billing.Stored{}.Holding(rapid.Int64Range(0, 1<<40).Draw(t, "bytes"), noon)
		mark := billing.Mark{Through: noon}
		now := noon
		var charged, most int64
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			was := now
			now = now.Add(time.Duration(rapid.Int64Range(-3_600_000, 7_200_000).Draw(t, "ms")) * time.Millisecond)
			if stored.At(now) < stored.At(was) && now.After(was) || stored.At(now) < stored.Used {
				t.Fatalf("%+v: %d at %v, %d at %v", stored, stored.At(was), was, stored.At(now), now)
			}
			if rapid.Bool().Draw(t, "measured") {
				next := stored.Holding(rapid.Int64Range(0, 1<<40).Draw(t, "bytes"), now)
				if next.Used < stored.Used || next.Since.Before(stored.Since) || next.At(now) != stored.At(now) {
					t.Fatalf("measuring at %v makes %+v of %+v", now, next, stored)
				}
				stored = next
			}
			quantity, ok := billing.StorageCharge(stored, mark, now)
			due := now.After(mark.Through) && (stored.Bytes > 0 || stored.At(now) > mark.Total)
			if quantity < 0 || ok != due || !ok && quantity != 0 {
				t.Fatalf("charged %d (%v) at %v of %+v", quantity, ok, now, mark)
			}
			if ok {
				charged += quantity
				most = max(most, stored.At(now))
				mark.Through, mark.Total = now, mark.Total+quantity
			}
			if charged != most {
				t.Fatalf("charged %d of %d", charged, most)
			}
		}
	})
}
