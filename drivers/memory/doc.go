// Package memory keeps everything in the memory of one process: it is what a
// host's unit tests use in place of a database, a provider of machines and
// the host's own directory of users.
//
// [New] opens an empty [DB], which has every store. It is a fake that
// implements the whole contract, not a stub. Versions, limits, stamps, the
// outbox and the order of every list are those of the database drivers, and
// the same suites prove it (billingtest, mounttest, sessiontest, transcripttest), so that what passes on it
// does not rest on a fiction. Moments are kept as databases keep them: in UTC,
// in whole microseconds. The clock can be the test's own:
//
//	clock := sessiontest.NewClock()
//	db := memory.New(&memory.Options{Now: clock.Now})
//	boxes := memory.NewSandboxes(nil)
//	service, err := session.New(session.Config{
//		Store: db.Sessions(), Leases: db.Leases(), Sandboxes: []sandbox.Provider{boxes}, …
//	})
//
// [Sandboxes] is a provider whose commands are Go functions and whose faults
// are scripted; [Directory] answers for users, projects and agents.
//
// One lock guards a DB, so that it serves any number of goroutines and is
// quick for thousands of rows, not for millions. Values are copied on the way
// in and on the way out: nobody shares memory with it. Nothing survives the
// process, and nothing has to be closed. Only transactions of the host's own
// are missing: there is nothing for them to span.
package memory
