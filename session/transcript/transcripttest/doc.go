// Package transcripttest proves that an implementation of transcript.Store
// keeps its contract. A driver's test calls [TestStore] with a function that
// opens a fresh, empty store:
//
//	func TestTranscripts(t *testing.T) {
//		transcripttest.TestStore(t, func(*testing.T) transcript.Store { return memory.New(nil).Transcripts() })
//	}
//
// Every check is a subtest with a name and a rule; a failure shows both. A
// store is asked for what it promises and never for what it is.
//
// What is compared is mostly a picture: what every query answers about a
// transcript, at every place of it. A refusal has to leave it as it was, and
// a fork that reads its source's rows has to show the one that a copy shows.
package transcripttest
