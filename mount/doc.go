// Package mount gives agents folders that outlive every sandbox.
//
// A mount is a row ([Row]) that names a durable folder; it holds nothing of the
// folder's content. An agent's mount belongs to one agent and one scope, the
// project or, where there is none, the owner (see [ScopeOf]), and is carried
// into whatever session the agent works in.
//
// [Folders] keeps the rows: it gets or makes an agent's, and looks one up
// without ever making one. A [Mounter] makes a folder available on this host as
// a directory. [Manager] does the whole way: row, directory, bind into the
// sandbox, link, README, the variable and the words for the agent.
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
// Nothing in this package deletes a folder's content. Who may see or use a
// mount is for the caller to decide first, with package access.
//
// Values of this package are safe for concurrent use.
package mount
