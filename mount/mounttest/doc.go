// Package mounttest proves that an implementation of mount.Store or
// mount.Mounter keeps its contract. A driver's test calls [TestStore] or
// [TestMounter] with a function that opens a fresh, empty instance:
//
//	func TestMounts(t *testing.T) {
//		mounttest.TestStore(t, func(*testing.T) mount.Store { return memory.New(nil).Mounts() })
//	}
//
// Every check is a subtest with a name and a rule; a failure shows both.
package mounttest
