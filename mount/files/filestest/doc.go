// Package filestest proves that a bucket is fit for package files: that it
// keeps the conditions it claims to keep, lists in order, streams, copies by
// itself and says what is not there. A driver's test calls [TestBucket] with a
// function that opens an empty one:
//
//	func TestFiles(t *testing.T) {
//		filestest.TestBucket(t, files.Caps{IfAbsent: files.Native}, func(t *testing.T) files.Config {
//			return files.Config{Bucket: …}
//		})
//	}
//
// Every check is a subtest with a name and a rule; a failure shows both.
package filestest
