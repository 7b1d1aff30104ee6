package billing

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/bunkroom/bunkroom/access"
)

// Micros is an amount of money in millionths of the host's unit of currency.
// There are no fractions of it: what a charge leaves over is carried to the
// next one, see [Rate.Charge].
type Micros int64

// Unit is one whole unit of currency.
const Unit Micros = 1_000_000

// String is the amount in whole units, with as many decimals as it takes: "0.02", "-1.5", "3".
func (m Micros) String() string {
	sign, abs := "", uint64(m)
	if m < 0 {
		sign, abs = "-", -abs
	}
	whole, rest := abs/uint64(Unit), abs%uint64(Unit)
	text := sign + strconv.FormatUint(whole, 10)
	if rest == 0 {
		return text
	}
	decimals := fmt.Sprintf("%06d", rest)
	for decimals[len(decimals)-1] == '0' {
		decimals = decimals[:len(decimals)-1]
	}
	return text + "." + decimals
}

// plus adds, and reports whether the sum can be told.
func (m Micros) plus(n Micros) (Micros, bool) {
	sum := m + n
	return sum, (sum > m) == (n > 0)
}

// less subtracts n, which is at least 0, and stops at the least that can be told.
func (m Micros) less(n Micros) Micros {
	if diff := m - n; diff <= m {
		return diff
	}
	return math.MinInt64
}

// Rate is the price of a quantity: Price for every Per of it, both integers,
// so that no price needs rounding. 0.07 a CPU hour, where the quantity is
// microseconds, is Rate{Price: 70_000, Per: 3_600_000_000}.
type Rate struct {
	Price Micros // at least 0
	Per   int64  // at least 1
}

// Remainder is the part of a micro that was used and not charged yet: N of
// Per, less than one. The zero value is none.
type Remainder struct {
	N, Per int64
}

// Charge is what quantity costs, and what of it is left for the next charge.
// Charges of parts, each with the remainder of the one before, sum to the charge
// of the whole, to the micro, as long as Per stays the same. Where it changes, what was
// left over is taken along rounded down to the new part of a micro: a change of
// price never costs anybody anything.
//
// A *access.FieldError names what is out of range; [*OverflowError]: the amount is more than can be told.
func (r Rate) Charge(quantity int64, left Remainder) (Micros, Remainder, error) {
	switch {
	case r.Price < 0 || r.Per < 1:
		return 0, left, &access.FieldError{Field: "Rate", Rule: "must have a price of at least 0 for at least 1"}
	case quantity < 0:
		return 0, left, &access.FieldError{Field: "Quantity", Rule: "must not be negative"}
	case left.N < 0 || left.N > 0 && left.N >= left.Per:
		return 0, left, &access.FieldError{Field: "Remainder", Rule: "must be less than one micro"}
	}
	carried := uint64(left.N)
	if left.N > 0 && left.Per != r.Per {
		hi, lo := bits.Mul64(uint64(left.N), uint64(r.Per))
		carried, _ = bits.Div64(hi, lo, uint64(left.Per)) // less than r.Per, for left.N is less than left.Per
	}
	hi, lo := bits.Mul64(uint64(quantity), uint64(r.Price))
	lo, carry := bits.Add64(lo, carried, 0)
	hi += carry
	if hi >= uint64(r.Per) {
		return 0, left, &OverflowError{What: "charge"}
	}
	whole, rest := bits.Div64(hi, lo, uint64(r.Per))
	if whole > 1<<63-1 {
		return 0, left, &OverflowError{What: "charge"}
	}
	if rest == 0 {
		return Micros(whole), Remainder{}, nil
	}
	return Micros(whole), Remainder{N: int64(rest), Per: r.Per}, nil
}
