package memory_test

import (
	"testing"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/billing/billingtest"
	"github.com/bunkroom/bunkroom/drivers/memory"
)

// S-36: the ledger that hosts test with keeps the contract that production keeps.
func TestLedger(t *testing.T) {
	billingtest.TestLedger(t, func(_ *testing.T, clock *billingtest.Clock) billing.Ledger {
		return memory.New(&memory.Options{Now: clock.Now}).Ledger()
	}, &billingtest.Options{Operations: 1500})
}
