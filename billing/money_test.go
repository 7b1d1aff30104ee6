package billing_test

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

const hour = 3_600_000_000 // in microseconds, the unit of runtime

var (
	// runtimeRate is 0.0809375 an hour, one CPU and a quarter of a GB, with a markup of one half.
	runtimeRate = billing.Rate{Price: 12_140_625, Per: 360_000_000_000}
	// storageRate is 0.15 for a GB (1e9 bytes) kept 30 days, per KiB-second.
	storageRate = billing.Rate{Price: 150_000 * 1024, Per: 30 * 24 * 3600 * 1_000_000_000}
)

func TestMicrosString(t *testing.T) {
	for amount, want := range map[billing.Micros]string{
		0: "0", 1: "0.000001", -1: "-0.000001", 20_000: "0.02", billing.Unit: "1", 3 * billing.Unit: "3",
		-1_500_000: "-1.5", 1_000_001: "1.000001", 121_406: "0.121406", -999_999: "-0.999999",
		math.MaxInt64: "9223372036854.775807",
		math.MinInt64: "-9223372036854.775808",
	} {
		if got := amount.String(); got != want {
			t.Errorf("%d is %q, want %q", int64(amount), got, want)
		}
	}
}

// What is shown can be read back, to the micro.
func TestMicrosStringIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64().Draw(t, "amount")
		text := billing.Micros(amount).String()
		read, ok := new(big.Rat).SetString(text)
		if want := big.NewRat(amount, 1_000_000); !ok || read.Cmp(want) != 0 {
			t.Errorf("%d is shown as %q", amount, text)
		}
	})
}

func TestKnownPrices(t *testing.T) {
	for _, c := range []struct {
		what     string
		rate     billing.Rate
		quantity int64
		want     billing.Micros
	}{
		{"an hour of one CPU and a quarter of a GB, with half of it on top", runtimeRate, hour, 121_406},  // 0.12140625
		{"the remainder of four hours is what the first three left over", runtimeRate, 4 * hour, 485_625}, // 0.485625
		{"a million hours have no remainder", runtimeRate, 1_000_000 * hour, 121_406_250_000},             // 121,406.25
		{"a microsecond is not a micro", runtimeRate, 1, 0},
		{"a GB for 30 days", storageRate, 1_000_000_000 / 1024 * 30 * 24 * 3600, 149_999},    // the last KiB is a broken one
		{"1024 GB for 30 days", storageRate, 1_000_000_000 * 30 * 24 * 3600, 1024 * 150_000}, // 153.6
		{"a CPU hour, as the page says it", billing.Rate{Price: 70_000, Per: hour}, hour, 70_000},
		{"nothing costs nothing", runtimeRate, 0, 0},
		{"what has the price 0 is free", billing.Rate{Price: 0, Per: 1}, math.MaxInt64, 0},
		{"the most that can be told", billing.Rate{Price: 1, Per: 1}, math.MaxInt64, math.MaxInt64},
		{"of two large numbers", billing.Rate{Price: math.MaxInt64, Per: math.MaxInt64}, 1234, 1234},
		{"what is carried is not lost", billing.Rate{Price: math.MaxInt64, Per: math.MaxInt64 - 1}, 1000, 1000},
	} {
		if got, _, err := c.rate.Charge(c.quantity, billing.Remainder{}); err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", c.what, got, err, c.want)
		}
	}
}

// Thousands of tiny runs are neither free nor rounded up. (T-70)
func TestTinyRunsAddUp(t *testing.T) {
	const runs, each = 3_600, 1_000_000 // of a second: an hour together
	var sum billing.Micros
	var left billing.Remainder
	most := billing.Micros(0)
	for range runs {
		amount, next, err := runtimeRate.Charge(each, left)
		if err != nil {
			t.Fatal(err)
		}
		sum, left, most = sum+amount, next, max(most, amount)
	}
	whole, rest, err := runtimeRate.Charge(runs*each, billing.Remainder{})
	if err != nil || sum != whole || left != rest {
		t.Errorf("together %v and %v, at once %v and %v (%v)", sum, left, whole, rest, err)
	}
	if most > 34 { // a second costs 33.72 micros
		t.Errorf("one second was charged %v", most)
	}
	var micros billing.Micros
	left = billing.Remainder{}
	for range 100_000 {
		amount, next, err := runtimeRate.Charge(1, left)
		if err != nil {
			t.Fatal(err)
		}
		micros, left = micros+amount, next
	}
	if micros != 3 { // a tenth of a second costs 3.37
		t.Errorf("a hundred thousand microseconds cost %v", micros)
	}
}

// Parts sum to the whole, to the micro, however the whole is split.
func TestPartsSumToTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := billing.Rate{
			Price: billing.Micros(rapid.Int64Range(0, 1<<40).Draw(t, "price")),
			Per:   rapid.Int64Range(1, 1<<62).Draw(t, "per"),
		}
		parts := rapid.SliceOfN(rapid.Int64Range(0, 1<<20), 1, 50).Draw(t, "parts")
		var total int64
		var sum billing.Micros
		var left billing.Remainder
		for _, part := range parts {
			amount, next, err := rate.Charge(part, left)
			if err != nil {
				t.Fatal(err)
			}
			if amount < 0 || next.N < 0 || next.N > 0 && (next.N >= next.Per || next.Per != rate.Per) {
				t.Fatalf("charged %v and left %+v", amount, next)
			}
			total, sum, left = total+part, sum+amount, next
		}
		whole, rest, err := rate.Charge(total, billing.Remainder{})
		if err != nil || sum != whole || left != rest {
			t.Errorf("parts cost %v and leave %+v, the whole %v and %+v (%v)", sum, left, whole, rest, err)
		}
		exact := new(big.Int).Mul(big.NewInt(total), big.NewInt(int64(rate.Price)))
		if want := exact.Div(exact, big.NewInt(rate.Per)); want.Int64() != int64(whole) {
			t.Errorf("the whole costs %v, want %v", whole, want)
		}
	})
}

// What is left over is taken along to a new price, never more than it was, and less by under one of the new parts.
func TestRemainderSurvivesAChangeOfPrice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		was := billing.Remainder{Per: rapid.Int64Range(2, math.MaxInt64).Draw(t, "per")}
		was.N = rapid.Int64Range(1, was.Per-1).Draw(t, "n")
		next := billing.Rate{Price: 1, Per: rapid.Int64Range(1, math.MaxInt64).Draw(t, "next")}
		amount, left, err := next.Charge(0, was)
		if err != nil || amount != 0 {
			t.Fatalf("a change of price alone costs %v (%v)", amount, err)
		}
		before := big.NewRat(was.N, was.Per)
		after := big.NewRat(left.N, max(left.Per, 1))
		if after.Cmp(before) > 0 {
			t.Errorf("%v became more: %v", before, after)
		}
		if lost := new(big.Rat).Sub(before, after); lost.Cmp(big.NewRat(1, next.Per)) >= 0 {
			t.Errorf("%v became %v: too much was lost", before, after)
		}
	})
}

func TestChargeRefuses(t *testing.T) {
	one := billing.Rate{Price: 1, Per: 1}
	for _, c := range []struct {
		rule     string
		rate     billing.Rate
		quantity int64
		left     billing.Remainder
		field    string // empty: too much
	}{
		{"a price below 0", billing.Rate{Price: -1, Per: 1}, 1, billing.Remainder{}, "Rate"},
		{"a price for nothing", billing.Rate{Price: 1}, 1, billing.Remainder{}, "Rate"},
		{"a quantity below 0", one, -1, billing.Remainder{}, "Quantity"},
		{"a remainder below 0", one, 1, billing.Remainder{N: -1, Per: 2}, "Remainder"},
		{"a remainder of a whole micro", one, 1, billing.Remainder{N: 2, Per: 2}, "Remainder"},
		{"a remainder of nothing", one, 1, billing.Remainder{N: 1}, "Remainder"},
		{"more than 64 bits", billing.Rate{Price: math.MaxInt64, Per: 1}, math.MaxInt64, billing.Remainder{}, ""},
		{"more than 63 bits", billing.Rate{Price: 2, Per: 1}, 1 << 62, billing.Remainder{}, ""},
		{"the most that 63 bits hold", billing.Rate{Price: math.MaxInt64, Per: 1 << 62}, 1 << 62, billing.Remainder{}, "-"},
		{"the same, and half a micro that was carried", billing.Rate{Price: math.MaxInt64, Per: 2}, 2, billing.Remainder{N: 1, Per: 2}, "-"},
	} {
		amount, left, err := c.rate.Charge(c.quantity, c.left)
		if c.field == "-" {
			if err != nil || amount != math.MaxInt64 {
				t.Errorf("%s can be told: %v, %v", c.rule, amount, err)
			}
			continue
		}
		if amount != 0 || left != c.left {
			t.Errorf("%s: %v and %+v with an error, want nothing and what was", c.rule, amount, left)
		}
		var invalid *access.FieldError
		var over *billing.OverflowError
		switch {
		case c.field == "" && (!errors.As(err, &over) || over.What != "charge"):
			t.Errorf("%s: %v", c.rule, err)
		case c.field != "" && (!errors.As(err, &invalid) || invalid.Field != c.field):
			t.Errorf("%s: %v, want %s named", c.rule, err, c.field)
		}
	}
}
