// Package transcript is the content of conversations: an append-only tree of
// entries with a head.
//
//	db.Transcripts().Create(ctx, conversation)
//	turn.Commit(ctx, transcript.Change{Append: []transcript.NewEntry{question, answer}})
//	entries, err := db.Transcripts().Context(ctx, conversation, transcript.Position{}, 10_000)
//	messages := transcript.Project(entries)
//
// # The tree
//
// Every entry has one parent, or stands at a root; siblings are branches. The head
// is the entry after which the next one goes. Moving it back writes no entry and
// loses none: what comes next is a branch. Refs are named positions, labels are
// words on entries. A committed entry never changes; the calls of its tools are settled, once.
//
// # Who writes
//
// A turn is one runner's right to act on a conversation, by a lease with a
// fence. It is begun with a [Change], and from then on nothing of an older fence is written, by nobody, however late
// it comes. Whoever takes over ends the processes of older fences first, by [TurnsConfig].EndProcesses, which where turns run
// in sessions is session.Keeper.EndTurns; then settles what
// [Store.Unsettled] lists as interrupted. [Turns] does all of that, and keeps the lease:
//
//	turn, err := turns.Begin(ctx, conversation) // *session.HeldError: somebody else acts on it
//	defer turn.Close(ctx, nil)
//
// # What waits
//
// What is said while nobody listens, or while a turn is under way, waits in the [Inbox], under the id of
// the entry that it becomes. Whoever runs a turn asks [Deliver] between two steps, and at the
// end, what is to be said now, and commits it with [Change.Promote]: the entry and the input's end are one commit.
//
//	next, err := turn.Deliver(ctx, false) // between two steps
//	_, err = turn.Promote(ctx, next...)
//	waiting, err := turn.Finish(ctx) // it has ended, or these are to be said first
//
// A turn that ends like this, with [Change.EndIdle], has looked at everything: either [Inbox.Admit]
// says that a turn is under way, which then does not end, or that there is none. What needs preparing is
// claimed first; a claim ends with its turn, whatever that ends by. What waits longer than its Life expires, which is a
// fact as any other: by the turn that sees it, by what comes where no more may wait, or by [Turns.Recover]. Nothing is archived
// or deleted while inputs wait, unless the change takes them back. After a crash [Inbox.Waiting] and
// [Store.Unfinished] list the conversations that somebody has to look at, as [Turns.Recover] does.
//
// # Who may
//
// A [Store] and an [Inbox] do what they are told. What actors ask for goes by a [Service], which asks first who
// may see a conversation, who may write in it, and whether who pays would have something start:
//
//	talks, err := transcript.NewService(transcript.ServiceConfig{Store: store, Inbox: inbox, Conversations: sessions, Gate: till})
//	reading, err := talks.Read(ctx, actor, conversation)
//	admitted, err := talks.Admit(ctx, actor, conversation, transcript.NewInput{Entry: words, Lane: transcript.LaneSteer})
//
// # What a model is given
//
// [Project] makes of a path what every provider accepts: each call has exactly one result right behind it, a
// compaction stands for what was before it, and what is not for a model is left out.
//
// # Who listens
//
// [Store.Since] is the truth: every change is a fact with a number, and is read
// again from any number on. Notifications only say that it is worth asking: a [Hub]
// rings within a process, where the stores are [Ringing] and [RingingInbox]; a [Relay] connects hubs; and
// [Follow] puts the two together: what there is, a mark, what comes.
//
// # What is carried elsewhere
//
// [Export] writes a transcript as lines of JSON, with all its branches, and [Import] makes
// one of them, whole or not at all, and once where it is repeated. Drafts and inputs stay where they are. Package
// pijsonl makes one of a session of pi, another program.
//
// # What is looked for
//
// [Store.Search] finds entries by their words, of all branches or on one path. The words are
// an index that can be made again from the entries: an append writes nothing of it, and
// whoever searches, or calls [Store.Index], brings it up to date.
//
// # What is kept
//
// Entries stay until their transcript is deleted and purged. The other facts are dropped by [Store.Forget]
// once nobody asks for them any more, and [Store.Idle] lists what was left alone for so long that it may be
// archived or deleted. [Retention] does all of that, [Indexing] keeps the words, and [Turns.Recover] finds what was left
// unfinished; each is a chore for session.Keeper.Serve:
//
//	err := keeper.Serve(ctx, retention.Chore(time.Hour), indexing.Chore(time.Minute), turns.Chore(10*time.Second, run))
//
// Values of this package are safe for concurrent use as far as they are not written to.
package transcript
