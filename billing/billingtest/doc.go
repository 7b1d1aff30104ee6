// Package billingtest proves that an implementation of billing.Ledger keeps
// its contract. A driver's test calls [TestLedger] with a function that opens
// a fresh, empty ledger:
//
//	func TestLedger(t *testing.T) {
//		billingtest.TestLedger(t, func(_ *testing.T, clock *billingtest.Clock) billing.Ledger {
//			return memory.New(&memory.Options{Now: clock.Now}).Ledger()
//		}, nil)
//	}
//
// Every check is a subtest with a name and a rule; a failure shows both. One
// of them plays random operations to the ledger and to a billing.Book, which
// must come to the same.
//
// A [Clock] stands still until it is stepped. A driver that takes a clock is
// given Clock.Now; a ledger that goes by a clock of its own, such as a
// database server's, says with Clock.OnStep how that one is shifted. Checks read the
// time from the ledger, and allow for its clock to run.
//
// [Faulty] makes a ledger's calls fail, or their replies get lost.
package billingtest
