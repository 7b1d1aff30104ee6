package billing

import (
	"fmt"
	"strings"

	"github.com/bunkroom/bunkroom/access"
)

// Meter names what is measured. A host may have meters of its own; a name holds no slash.
type Meter string

// The meters of Bunkroom, and the unit of their quantities.
const (
	// MeterRuntime is the time a session's sandbox is worked in, in
	// microseconds. Each work counts: two at once are two.
	MeterRuntime Meter = "runtime"
	// MeterStorage is what a sandbox's disk holds over time, in KiB-seconds; a
	// KiB that was begun counts as one.
	MeterStorage Meter = "storage"
)

// Class is a size of machines, in the host's own words. Empty where there is one size only.
type Class string

// Priced is one line of a price list.
type Priced struct {
	Meter Meter
	Class Class // empty: of every class that has no line of its own
	Rate  Rate
}

// Tariffs is a price list. The zero value prices nothing. It may be used
// concurrently. A line stays on the list, at whatever price, for as long as
// work of its class runs or is not settled: what is used can't be charged without.
type Tariffs struct {
	rates map[priced]Rate
}

type priced struct {
	meter Meter
	class Class
}

// NewTariffs returns the price list of these lines. A *access.FieldError names a line that is there twice, or no price.
func NewTariffs(lines ...Priced) (Tariffs, error) {
	t := Tariffs{rates: make(map[priced]Rate, len(lines))}
	for i, l := range lines {
		field := fmt.Sprintf("Tariffs[%d]", i)
		key := priced{l.Meter, l.Class}
		switch _, twice := t.rates[key]; {
		case l.Meter == "" || strings.Contains(string(l.Meter), "/"):
			return Tariffs{}, &access.FieldError{Field: field, Rule: "must name a meter, without a slash"}
		case l.Rate.Price < 0 || l.Rate.Per < 1:
			return Tariffs{}, &access.FieldError{Field: field, Rule: "must have a price of at least 0 for at least 1"}
		case twice:
			return Tariffs{}, &access.FieldError{Field: field, Rule: "must be the only one of its meter and class"}
		}
		t.rates[key] = l.Rate
	}
	return t, nil
}

// Rate is the price of a meter for a class of machines. [*NoTariffError]: the
// list has none, and then nothing of it may be used: what has no price is not free.
func (t Tariffs) Rate(m Meter, c Class) (Rate, error) {
	r, ok := t.rates[priced{m, c}]
	if !ok {
		r, ok = t.rates[priced{m, ""}]
	}
	if !ok {
		return Rate{}, &NoTariffError{Meter: m, Class: c}
	}
	return r, nil
}
