package billing_test

import (
	"errors"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

func TestTariffs(t *testing.T) {
	one, two, three := billing.Rate{Price: 1, Per: 1}, billing.Rate{Price: 2, Per: 1}, billing.Rate{Price: 0, Per: 1}
	tariffs, err := billing.NewTariffs(
		billing.Priced{Meter: "runtime", Rate: one},
		billing.Priced{Meter: "runtime", Class: "large", Rate: two},
		billing.Priced{Meter: "gpu", Class: "large", Rate: three},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule  string
		list  billing.Tariffs
		meter billing.Meter
		class billing.Class
		want  billing.Rate // none: nothing of it may be used
	}{
		{"a class has its own line", tariffs, "runtime", "large", two},
		{"a class without a line has the meter's", tariffs, "runtime", "small", one},
		{"so has no class", tariffs, "runtime", "", one},
		{"a price of 0 is a price", tariffs, "gpu", "large", three},
		{"a line for a class is for no other", tariffs, "gpu", "small", billing.Rate{}},
		{"nor for none", tariffs, "gpu", "", billing.Rate{}},
		{"a meter without a line has no price", tariffs, "storage", "", billing.Rate{}},
		{"the zero list prices nothing", billing.Tariffs{}, "runtime", "", billing.Rate{}},
	} {
		got, err := c.list.Rate(c.meter, c.class)
		if c.want != (billing.Rate{}) {
			if err != nil || got != c.want {
				t.Errorf("%s: %+v, %v", c.rule, got, err)
			}
			continue
		}
		var none *billing.NoTariffError
		if !errors.As(err, &none) || none.Meter != c.meter || none.Class != c.class || got != c.want {
			t.Errorf("%s: %+v, %v", c.rule, got, err)
		}
	}
}

func TestNewTariffsRefuses(t *testing.T) {
	good := billing.Priced{Meter: "runtime", Class: "large", Rate: billing.Rate{Price: 1, Per: 1}}
	for _, c := range []struct {
		rule  string
		lines []billing.Priced
		field string
	}{
		{"a line without a meter", []billing.Priced{good, {Rate: good.Rate}}, "Tariffs[1]"},
		{"a meter that can't be posted to", []billing.Priced{{Meter: "a/b", Rate: good.Rate}}, "Tariffs[0]"},
		{"a price below 0", []billing.Priced{{Meter: "m", Rate: billing.Rate{Price: -1, Per: 1}}}, "Tariffs[0]"},
		{"a price for nothing", []billing.Priced{{Meter: "m", Rate: billing.Rate{Price: 1}}}, "Tariffs[0]"},
		{"two lines for one", []billing.Priced{good, {Meter: "m", Rate: good.Rate}, good}, "Tariffs[2]"},
	} {
		list, err := billing.NewTariffs(c.lines...)
		var invalid *access.FieldError
		if !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("%s: %v, want %s named", c.rule, err, c.field)
		}
		if _, err := list.Rate(good.Meter, good.Class); err == nil {
			t.Errorf("%s: the list that was refused has prices", c.rule)
		}
	}
	if _, err := billing.NewTariffs(); err != nil {
		t.Errorf("an empty list prices nothing, and is one: %v", err)
	}
}
