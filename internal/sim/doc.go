// Package sim runs the real code of package session (session.Service,
// sandbox.Decide, the stores) against everything that can go wrong around it. It has
// no code: it is tests.
//
// A schedule is a few replicas over one store, one ledger and one provider, in a bubble of
// testing/synctest. Every call that leaves a replica (to the store, the
// leases, the ledger, the provider, a handle, the directory, what meter events are exported to)
// stops and waits for its turn. One
// scheduler, which is the only one to throw dice, decides which call goes on,
// and what befalls it: it fails, or is done and its reply is lost or late, or is done late or
// twice; or it lets time pass, starts what clients and keepers do, kills a
// replica, pauses it, or starts another. Two runs of one seed are the same, call by
// call, which the hash of their traces shows.
//
// A [world] is a kind of provider, with what it declares in sandbox.Caps; all that
// befalls a call stays within that. After every step the truth (the machines that
// there are, the rows, the outbox, leases, holds and processes) is compared
// with the rules. Then the faults stop, the keepers do their rounds, and everything
// has to come to agree.
//
// The money has a [bank], which knows none of the rules of package billing: it folds what
// every call was answered, and every entry, by its own, and compares balances, watermarks and
// holds with that; and every work with when it truly began, was last heard of, and ended.
//
// A violation prints its seed, the latest events, and the command that plays it
// again:
//
//	go test ./internal/sim -run TestReplay -sim.world=u -sim.seed=17
//
// and make sim N=100000 plays as many seeds as there is time for.
package sim
