// Package weedtest starts a SeaweedFS server of a test program's own: S3 and
// STS at a free port of the loopback interface, with its data in a temporary
// folder, gone when the program ends. It calls nobody outside.
//
//	var server = weedtest.Server{PublicKeys: keySet}
//
//	func TestMain(m *testing.M) {
//		code := m.Run()
//		server.Stop()
//		os.Exit(code)
//	}
//
//	func TestSomething(t *testing.T) {
//		at := server.Start(t)
//		…
//	}
//
// The program is built by "make deps", into .cache/bin at the root of the module.
package weedtest
