// Package postgres keeps sessions, leases and mounts in a Postgres database
// (pgx, through database/sql).
//
//	db, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), nil)
//	if err != nil { … }
//	defer db.Close()
//	if err := db.Migrate(ctx); err != nil { … }
//	service, err := session.New(session.Config{Store: db.Sessions(), Leases: db.Leases(), …})
//
// A host that has a database of its own passes it to [New] instead, and its
// transactions to [DB.In], so that its rows and ours are written together.
//
// Any number of replicas may share the database. It is the server's clock that
// dates everything and decides when a lease has expired: the clocks of the
// replicas don't matter. Transactions are READ COMMITTED. What a limit counts,
// and what a change expects not to be there, is had to itself under an
// advisory lock (pg_advisory_xact_lock, of a hash of its name); rows that a
// change rests on are locked FOR SHARE. What the database refuses so that
// transactions don't wait for each other in a circle is session.ErrStale:
// nothing was written, and whoever decides decides anew.
//
// The tables are made in, and looked for on, the search path of the
// connections. A sandbox that is deleted, by whomever, leaves its machine in
// the outbox by a trigger, which TRUNCATE would skip and therefore is refused.
// Who disables triggers, or restores with session_replication_role = replica,
// skips it all the same.
//
// [DB.Listen] tells the readers of this process at once what other replicas
// have written to transcripts, by NOTIFY; without it they find it as they poll.
//
// The database holds titles, names and ids, and no secrets. It needs Postgres
// 12 or later, with the encoding UTF8.
package postgres
