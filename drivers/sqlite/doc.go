// Package sqlite keeps sessions, leases and mounts in a SQLite database file
// (modernc.org/sqlite, no cgo).
//
//	db, err := sqlite.Open(ctx, "bunkroom.db", nil)
//	if err != nil { … }
//	defer db.Close()
//	if err := db.Migrate(ctx); err != nil { … }
//	service, err := session.New(session.Config{Store: db.Sessions(), Leases: db.Leases(), …})
//
// A host that has a database of its own passes it to [New] instead, and its
// transactions to [DB.In], so that its rows and ours are written together.
//
// The file may be used by several processes of one host at the same time;
// each write waits its turn, at most the busy timeout, and is then refused
// with a [*BusyError]. A file on a network file system is refused. By default
// a power failure, but not a crash of the process, may undo the latest
// commits; see [Full].
//
// The database holds titles, names and ids, and no secrets. New files get
// the permissions that the process's umask leaves: keep them in a folder that is the host's alone.
package sqlite
