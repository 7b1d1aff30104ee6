// Package mount gives agents folders that outlive every sandbox.
//
// A mount is a row ([Row]) that names a durable folder; it holds nothing of the
// folder's content. It belongs to one scope: the project or, where there is
// none, the owner (see [ScopeOf]). An agent's is carried into whatever session
// the agent works in; a session's is gone with the session; others are made by hand.
// A row has its id for good, and its id is where its files are: to put it away
// in the archive and to use it again, to rename it, or to lose a race for making
// it never moves a file. Kind, purpose, agent and session are the service's own
// columns; nothing reads them out of a slug, and no caller writes one.
//
// [Folders] keeps the rows of agents and sessions: it gets or makes one, and
// looks one up without ever making one. [Catalog] is what users do with
// mounts, each under a right of package access: make by hand, look, edit, put
// away, list. [Purger] deletes them for good, with what they held, and a
// [Collector] those whose owner is gone. A [Mounter]
// makes a folder available on this host as a directory; [Host] is one over a
// [Server], which serves a folder by a process or a goroutine of its own, and
// sees to that it lives, is stopped for certain and leaves nothing. [Manager] does the
// whole way: row, directory, bind into the sandbox, link, README, the variable
// and the words for the agent.
//
//	manager, err := mount.New(mount.Config{Store: store, Mounter: mounter})
//	if err != nil { … }
//	carried, err := manager.Carry(ctx, sb, mount.Request{
//		Session: s.ID, Project: s.Project, Owner: s.Owner,
//		Agent: c.Agent, AgentName: "Code reviewer",
//	})
//	if err != nil { … }
//	defer carried.Release(ctx)
//	cmd.Env = append(cmd.Env, carried.Env...)             // BUNKROOM_AGENT_DIR, where the folder is there
//	prompt = append(prompt, carried.Guidance)             // what the agent must know, also where it is not
//
// Several agents work in one session at once, and each finds its own folder:
//
//	/workspace                                the session's working directory
//	/workspace/agent-files -> /workspace-agent
//	/workspace-agent/code-reviewer-5e0c3f1a   one agent's folder
//	/workspace-agent/writer-90b2d77c          another's
//
// Whether an agent can reach the folder of another that works in the same
// sandbox at the same time is the provider's (sandbox.Caps.BindsPerProcess).
// Concurrent runs of one agent share its folder: per file the last writer wins.
//
// A session's folder may be its working directory itself
// ([Manager.CarryWorkdir]), carried in before the agents'. Those are [Shared]; this one is
// [Exclusive]: a [Locker] lets one process at a time have it, from before it is
// mounted until nothing is mounted any more. Whether what was written under a lock that was
// lost can land late is the driver's to know, and the [Outcome] tells.
//
// Only a Purger deletes a folder's content, by the function it is given, and
// only once the row is gone. What is left of a deleted row, a [Tombstone],
// stands until the content is removed, so that no crash leaves files that
// nobody knows of. Attachments have a protected mount: it answers to no id and
// is in no list. Except for Catalog, who may do something has been decided before.
//
// Credentials can't be taken back before they expire. With a [KeptSigner] nothing is minted any
// more for a folder that was put away or deleted, and the access to it ends with the last of them.
//
// What can't be given up while somebody waits, because what serves a folder needs
// longer to write out, is given up later, by itself: after a release, after a mount that failed, and after one that came too late.
//
// Values of this package are safe for concurrent use.
package mount
