// Package sqlstore is the one implementation of session.Store,
// session.Leases, mount.Store and transcript.Store over database/sql. A driver (drivers/sqlite,
// drivers/postgres) opens a database, says in a [Dialect] how its SQL differs
// and offers the stores under its own name.
//
// The statements that requests wait for (load, commit, touch, leases, mounts)
// are fixed text with placeholders, prepared once for each connection. Lists and what is due
// are put together with bun, which quotes arguments into the text.
//
// Every write is one transaction, whose first statement takes locks and reads
// the clock. SQLite has one lock, that of the database: nothing changes but what
// the write itself changes. In Postgres many write at once, under READ
// COMMITTED. There a write has to itself what it counts and what it expects not
// to be there, each under an advisory lock; it locks the rows that it rests on as it
// looks at them, and those that it changes by changing them where they have
// the version it read; and it comes to all of them in one order (lock.go,
// commit_rows.go, commit_delete.go). Whatever it has found is still so when it commits.
//
// A context that ends stops a write until it is committed, never in between.
//
// Table names are written with the prefix "bunkroom_", which stands for the
// prefix in [Config].
package sqlstore
