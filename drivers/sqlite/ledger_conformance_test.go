package sqlite_test

import (
	"testing"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/billing/billingtest"
)

func TestLedger(t *testing.T) {
	billingtest.TestLedger(t, func(t *testing.T, c *billingtest.Clock) billing.Ledger { return fresh(t, c.Now).Ledger() }, nil)
}
