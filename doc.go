// Package bunkroom is the map of the module. It holds no code: import the
// rooms you need.
//
// Bunkroom gives a Go backend what it needs to host the working contexts of AI
// agents. The picture is a bunkroom: many agents and people work in one room and
// share its one workbench; each keeps a diary of its own; every agent has a
// locker that is carried into whatever room it works in and outlives them all.
//
// # Words
//
//   - A session is the room: a working context of a project, or of one person.
//     It has an id of its own, and one sandbox.
//   - A conversation is one thread with one agent. It is bound to one session
//     when it is opened, for good, or to none. Many conversations share a
//     session; neither id is ever made from the other, or compared with it.
//   - A transcript is the content of a conversation: an append-only tree of
//     entries with a head. Its inbox has the inputs that wait. A turn is one
//     runner's right to act on the conversation; what it has started in a
//     sandbox is ended before the next one begins.
//   - A sandbox is the session's isolated place with files and processes. It is
//     a row. A machine is what a provider runs for it: a sandbox may have had
//     several, one generation after the other, and often has none.
//   - Work is one admitted use of a session's sandbox, from Open to Close. A
//     live sandbox is had in no other way.
//   - A mount is a row that names a durable folder of an agent. Wherever that
//     agent works, the folder is there.
//   - The payer is the account that work is charged to: the owner of the
//     project or, where there is none, of the session.
//   - The host is the application that embeds the library. Users, projects and
//     agents are the host's, and opaque ids here.
//
// # Rooms
//
//	access           may this actor do that? ids, facts, decisions
//	billing          who pays, may it start, what did it cost? gate and ledger
//	sandbox          files and processes; the life of one machine
//	sandbox/policy   what commands may ask for, and how what they said is shown
//	mount            durable folders, and how they get into a sandbox
//	session          sessions and conversations: rows, work, upkeep
//	session/transcript what is said in a conversation, and what waits to be said: a tree of entries, turns, an inbox
//	session/transcript/pijsonl conversations that were had in pi, a coding agent, from its session files
//	mount/files      the files of durable folders, in their bucket
//	drivers/memory   every store in memory, and a scripted provider of sandboxes
//	drivers/sqlite   every store in a SQLite file
//	drivers/postgres every store in a Postgres database, for several replicas
//	drivers/local    sandboxes as confined processes of this host
//	drivers/dir      mounts as plain directories
//	drivers/s3       buckets, and credentials that open one folder of them
//	drivers/geesefs  mounts served by the geesefs program, on this host or inside a sandbox
//	drivers/cloudevents meter events over HTTP
//
// A room imports only those above it in this list, and no driver another. What
// others implement is a small interface with a suite beside it that proves an
// implementation: sandbox/sandboxtest, mount/mounttest, session/sessiontest,
// session/transcript/transcripttest, billing/billingtest.
//
// # One way
//
// A request travels in one direction. The host says who asks (access.Actor).
// session loads a snapshot of rows (session.Store), asks the host once what
// it knows of the actor (access.Directory), and hands both to deciders: pure
// functions, without a clock, that answer with a refusal, or with a change to
// commit and the effect that follows it (session.Decide, sandbox.Decide).
// The change is committed first. Only then is a provider called
// (sandbox.Provider), and what it answers is the next command to decide. So
// whatever dies in between leaves a row that says what was about to happen, and
// session.Keeper finishes it.
//
// Opening work (session.Runner.Open) goes through these, in this order: the
// right to run code, the billing gate, a slot of the payer, the machine, the
// agent's folder. If one fails, those before it are undone. From then on what
// was used is always accounted for.
//
// Every refusal, of any package, has a method Problem: an HTTP status, a stable
// code and one fixed sentence that a client may see.
//
// # Where to start
//
// session.New makes everything from a session.Config; its example is the
// smallest program. The program in examples/quickstart does the whole job on
// a SQLite file, local processes and directories:
//
//	go run ./examples/quickstart
//
// A host implements access.Directory. Where work is to be charged it opens a
// billing.Till on the ledger of its database. Its own unit tests run on drivers/memory.
package bunkroom
