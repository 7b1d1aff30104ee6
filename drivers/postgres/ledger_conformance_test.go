package postgres_test

import (
	"testing"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/billing/billingtest"
	"github.com/bunkroom/bunkroom/session/sessiontest"
)

func TestLedger(t *testing.T) {
	billingtest.TestLedger(t, func(t *testing.T, c *billingtest.Clock) billing.Ledger {
		var shift sessiontest.Clock
		c.OnStep(shift.Step)
		return fresh(t, &shift).Ledger()
	}, &billingtest.Options{Operations: 100, Callers: 32})
}
