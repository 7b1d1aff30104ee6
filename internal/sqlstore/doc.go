// Package sqlstore is the one implementation of session.Store,
// session.Leases and mount.Store over database/sql. A driver such as
// drivers/sqlite opens a database, says in a [Dialect] how its SQL differs and offers the stores under its own name.
//
// The statements that requests wait for (load, commit, touch, leases, mounts)
// are fixed text with placeholders, prepared once for each connection. Lists and what is due
// are put together with bun, which quotes arguments into the text.
//
// Every write is one transaction, begun with a statement that takes the
// database's write lock, so that what is counted in it can't change before it
// commits; the clock is read under that lock. A context that ends stops a
// write until the lock is had and before it is committed, never in between.
//
// Table names are written with the prefix "bunkroom_", which stands for the
// prefix in [Config].
package sqlstore
