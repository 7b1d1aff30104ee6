// Package pgtest starts a Postgres server of a test program's own: a cluster
// in a temporary folder, reached through a Unix socket in it, gone when the
// program ends. A server that runs on the machine already is left alone.
//
//	var server pgtest.Server
//
//	func TestMain(m *testing.M) {
//		code := m.Run()
//		server.Stop()
//		os.Exit(code)
//	}
//
//	func TestSomething(t *testing.T) {
//		db, err := sql.Open("pgx", server.DSN(t))
//		…
//	}
package pgtest
