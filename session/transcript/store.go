package transcript

import (
	"context"
	"io"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Store keeps trees of entries. All methods may be called concurrently, from
// many processes. Errors other than those named are the database's own; then nothing was written.
//
// What a query can't be is a *access.FieldError, and of a transcript that is not there
// every method but Create and Fork says ErrNotFound. What is over [InlineBytes] is
// returned as its [Blob], but by those pages that were asked for blobs, and of a draft.
//
// Whatever a method returns is the caller's. Nothing but the length of what is
// asked for makes a call slower: an append, a page, a fork by reference cost the same in
// a tree of ten entries and in one of a million.
type Store interface {
	// Create makes an empty transcript, whose head is before the root; see [Empty]. One
	// that is there already, and is not deleted, is returned as it is. What was deleted under
	// that name is another, none of whose rows it has.
	Create(ctx context.Context, conversation access.ConversationID) (Transcript, error)

	// Load reads the row of a transcript. ErrNotFound: there is none, or it was deleted.
	Load(ctx context.Context, conversation access.ConversationID) (Transcript, error)

	// LoadMany is Load for a list of conversations, such as the ones that a page of
	// sessions has: one query, whatever their number. They come in the order asked for; those that are not there
	// are left out. At most [MaxListed].
	LoadMany(ctx context.Context, conversations ...access.ConversationID) ([]Transcript, error)

	// Commit writes a change that [Change.Check] lets pass. A commit that was
	// begun is finished or rolled back whatever becomes of ctx. The refusals, of
	// which nothing is written: ErrNotFound, ErrArchived, ErrFenced, ErrInTurn,
	// *HeadError, *VersionError, *EntryConflictError, *SettledError,
	// *PathError, *LimitError; of inputs ErrWaiting, ErrHeld, *TooLateError, *InputConflictError. ErrUnknown: the reply was lost; repeat it.
	Commit(ctx context.Context, c Change) (Committed, error)

	// Fork makes a transcript that begins with a path of another; see [Fork].
	// ErrNotFound: no such source, or committed entry. *PathError: what Before is to leave out is
	// not a user's. ErrExists: there is one that is not this fork of this source; one that is is returned as it is.
	Fork(ctx context.Context, f Fork) (Transcript, error)

	// Get reads entries by their ids, in the order asked for, committed or
	// aborted; those that are not there are left out. At most [MaxListed].
	Get(ctx context.Context, conversation access.ConversationID, ids ...EntryID) ([]Entry, error)

	// Path reads a page of a path. ErrNotFound: no transcript, or no such committed entry.
	Path(ctx context.Context, q PathQuery) (PathPage, error)

	// Spans tells of what stretches the path to a position consists, root first:
	// as many as there are branches on the way. Zero is the head.
	Spans(ctx context.Context, conversation access.ConversationID, to Position) ([]Span, error)

	// Context reads what a model is to be given at a position, oldest first:
	// what the newest compaction on its path has pinned, and the path from that compaction's
	// first kept entry on, the compaction itself where it keeps none; see [Project]. Without a compaction it is
	// the whole path. Zero is the head. *LimitError: these are more than limit entries, which is at least 1.
	Context(ctx context.Context, conversation access.ConversationID, at Position, limit int) ([]Entry, error)

	// State folds the state changes on the path to a position. Zero is the head.
	State(ctx context.Context, conversation access.ConversationID, at Position) (State, error)

	// PathUsage is the sum of Usage over the path to a position, inherited or not. Zero is the head.
	PathUsage(ctx context.Context, conversation access.ConversationID, at Position) (Usage, error)

	// Timeline reads a page of all entries.
	Timeline(ctx context.Context, q TimelineQuery) (TimelinePage, error)

	// Headers reads a page of headers.
	Headers(ctx context.Context, q HeaderQuery) (HeaderPage, error)

	// Search reads a page of the committed entries that have all the words of a text.
	// What has been said since the last search is read and its words are kept before it answers, some
	// entries in a transaction: a long history that was never searched takes its time
	// once, and what was done stays done if ctx ends. ErrBusy, ErrUnknown: try again.
	Search(ctx context.Context, q SearchQuery) (SearchPage, error)

	// Index does some of that beforehand: it keeps the words of at most limit
	// entries, from 1 to [MaxListed], and returns how many; 0: there are none left.
	Index(ctx context.Context, conversation access.ConversationID, limit int) (indexed int, err error)

	// FindCall reads the entries that have a call of that id, in the order of Seq.
	FindCall(ctx context.Context, conversation access.ConversationID, call CallID) ([]Entry, error)

	// Refs lists all refs, by name.
	Refs(ctx context.Context, conversation access.ConversationID) ([]Ref, error)

	// Since reads the facts that are newer than a Seq, oldest first. Limit as everywhere.
	Since(ctx context.Context, conversation access.ConversationID, after int64, limit int) (FactPage, error)

	// Unsettled reads what was left unfinished in a transcript.
	Unsettled(ctx context.Context, conversation access.ConversationID) (Open, error)

	// Unfinished lists at most limit transcripts that have something
	// unfinished, or are in a turn, in the order of their ids: those after the one
	// given; empty begins.
	Unfinished(ctx context.Context, after access.ConversationID, limit int) ([]access.ConversationID, error)

	// OpenBlob reads content by its hash. ErrNotFound. The caller closes it.
	OpenBlob(ctx context.Context, conversation access.ConversationID, hash string) (io.ReadCloser, error)

	// Purge removes rows of transcripts that were deleted, at most limit, in
	// one transaction, and returns how many; 0: there are none left. A fork by
	// reference of what is to be removed is first given rows of its own, and counts with them.
	Purge(ctx context.Context, limit int) (removed int, err error)

	// Forget removes at most limit facts, from 1 to [MaxListed], that are older than that: the oldest of a
	// transcript, as far as they are not entries, of which none is. Whoever asks [Store.Since] from before them on finds a
	// [FactForgotten] instead, and has to look at what there is now. With the fact that an input was promoted, taken back or
	// lost goes the input; then the inbox knows it by its entry alone. Everything else stays as it is.
	Forget(ctx context.Context, conversation access.ConversationID, older time.Duration, limit int) (Forgotten, error)

	// Idle reads a page of the transcripts to which nothing was committed for some time.
	Idle(ctx context.Context, q IdleQuery) (IdlePage, error)

	// Verify recomputes the sums of a transcript from its rows, and names what differs.
	Verify(ctx context.Context, conversation access.ConversationID) (faults []string, err error)
}

// Fork is a new transcript that begins with the path to an entry of another:
// with just those entries, of the same ids, seqs and content, and their labels.
// Calls that are not settled there are interrupted in the fork. It never writes to its source, and
// shares nothing with it that can change. Its own sums begin at zero, and its head is at the end of the path.
type Fork struct {
	To   access.ConversationID // the new one
	From access.ConversationID
	At   Position // of From; zero: its head
	// Before leaves the entry of At out, which must be a user's: what was asked there can be asked anew.
	Before bool
	// ByReference reads the rows of the source for as long as they are there,
	// instead of copying them. Every query answers the same.
	ByReference bool
	// Refs takes along the refs that are on the path, or before the root, at version 1.
	Refs bool
}
