// Package session is the room that the others serve: sessions, the
// conversations in them, and the one sandbox that all conversations of a session share.
//
// A [Service], made by [New], is three parts under one name. [Catalog] reads
// and writes rows, at once and for free. [Runner] lets work into a session's
// sandbox, and ends sessions. [Keeper] finishes what a crash left unfinished.
//
//	service, err := session.New(session.Config{Store: db.Sessions(), Leases: db.Leases(), Directory: people, …})
//	if err != nil { … }
//	s, talk, err := service.Spawn(ctx, actor, session.Spawn{Project: "shop", Agent: "coder"})
//	if err != nil { … }
//	report, err := service.Run(ctx, actor, session.WorkRequest{Conversation: talk.ID, Ensure: true},
//		func(ctx context.Context, w *session.Work) error {
//			_, err := sandbox.Run(ctx, w.Sandbox(), sandbox.Cmd{Argv: []string{"make"}}, os.Stdout, os.Stderr)
//			return err
//		})
//	end, err := service.End(ctx, actor, s.ID)
//
// A session is not a conversation: each has an id of its own, and many
// conversations work in one session. A conversation is bound to its session
// when it is opened, for good, or to none. Who has opened it closes it, and says
// whether the members of its project may read it.
//
// An environment is a sandbox that outlives sessions: sessions of its project
// borrow it when they are spawned, for good, and work in one machine. The end
// of such a session kills nothing. [Runner.DeleteEnvironment] deletes the row
// first and then destroys the machine; its sessions stay, and work in them is
// refused with [ErrEnvironmentGone], never given another sandbox instead.
//
// What is in a session's working directory is gone with its machine, unless
// the session was spawned with a durable one ([Spawn].DurableWorkdir): then it is a folder of the
// session's own, which every machine of it has at that place and which one process at a
// time works in. Config.Mounts needs a Locker for it; work whose lock is lost is stopped.
//
// A live sandbox is had from [Runner.Open] alone. It asks for the right to run
// code, has the payer's account admit the work, takes a slot, gets the machine
// and binds the agent's folder, in this order; what fails undoes what came
// before it. [Work] is what is had: it renews its lease and accounts for its
// time until it is closed, and its context ends, with a cause, when it must stop.
//
// Underneath, [Decide] is a pure function from a [Snapshot] and a [Command] to
// a [Change] and the effect that follows it. A [Store] writes the change, or
// nothing where somebody else was first; no provider is called before that. Who
// writes a store needs to know [Store], [Leases] and [Change], and
// package sessiontest proves the result.
//
// A process that dies leaves rows that say what it intended, machines, and
// leases that run out. [Keeper.Serve], in any process that can reach the
// machines, carries on what it began ([Keeper.Reclaim]), finds what nobody knows of
// ([Keeper.Sweep]), and frees its slots once what it had running is ended: a
// slot counts for as long as something may run in it. Where machines are bound to a
// host, each host needs such a process, others answer with an [ElsewhereError] that
// names it, and of a host that never comes back an operator says so ([Keeper.HostGone]).
//
// Work may be opened for a turn of a conversation ([WorkRequest].Turn), while that is had and not later. What such
// work has started, whoever takes the conversation over ends first, in whichever
// machine and process it was: [Keeper.EndTurns], which is made for package transcript.
//
// Refusals are the named errors, wrapped with their subject, and each has a
// method Problem with what a client may see; what a database says of itself is
// passed on as it is. What is absent and what is not the actor's to know of are
// the same [ErrNotFound].
package session
