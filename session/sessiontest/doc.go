// Package sessiontest proves that an implementation of session.Store or
// session.Leases keeps its contract. A driver's test calls [TestStore] and
// [TestLeases] with a function that opens a fresh, empty instance:
//
//	func TestSessions(t *testing.T) {
//		sessiontest.TestStore(t, func(_ *testing.T, clock *sessiontest.Clock) session.Store {
//			return memory.New(&memory.Options{Now: clock.Now}).Sessions()
//		}, nil)
//	}
//
// [TestTogether] takes both of one database, for what they promise of each
// other: that no machine is stopped as idle while a work lease names its sandbox.
//
// Every check is a subtest with a name and a rule; a failure shows both. A
// store is asked for what it promises and never for what it is.
//
// A [Clock] stands still until it is stepped, which is how hours pass in no
// time. A driver that takes a clock is given Clock.Now; a store that goes by
// a clock of its own, such as a database server's, says with Clock.OnStep how
// that one is shifted.
package sessiontest
