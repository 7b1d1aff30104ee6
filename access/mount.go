package access

// MountFacts is what the deciders need to know of a durable folder. A
// session's folder has the session's owner and project. Whether it is a
// session's, an agent's or made by hand makes no difference to who may.
type MountFacts struct {
	Owner     UserID    // whose, where Project is empty; else of no account
	Project   ProjectID // empty = personal, and so never shared
	Protected bool      // the service's own: had through what made it, never by its id
}

// ViewMount decides whether the actor may know of a folder, list, read and
// export its files: every member of its project may. It needs WantRole where
// the folder has a project.
func ViewMount(a Actor, m MountFacts, f Facts) Decision {
	return view(&a, &m, &f)
}

func view(a *Actor, m *MountFacts, f *Facts) Decision {
	if d := reach(a, m.Owner, m.Project, f); !d.Allow {
		return d
	}
	if m.Protected {
		return hide(ReasonProtected)
	}
	return allow()
}

// EditMount decides whether the actor may make, rename, archive or fill a
// folder, or delete in it. What is written there is run by whoever works in
// it, so that a member must be one who may run code; an owner or admin of the
// project, and the owner of what is personal, may without: who pays for files
// must be able to clear them out. An agent that asks must have the right
// itself. It needs WantRole and WantCode where the folder has a project, and
// WantAgent where an agent asks.
func EditMount(a Actor, m MountFacts, f Facts) Decision {
	if d := view(&a, &m, &f); !d.Allow {
		return d
	}
	switch {
	case m.Project != "" && !f.Role.manages() && f.Code != Yes:
		return refuse(ReasonViewOnly)
	case a.Agent != "" && (m.Project == "" || f.AgentCode != Yes):
		return refuse(ReasonAgentNoCode)
	}
	return allow()
}

// UseMount decides whether the actor may have a folder carried into a
// machine, or credentials signed that reach its files from there. It is as
// [RunCode] is for the machine itself, and both are asked. It needs WantRole
// where the folder has a project, WantCode, and WantAgent where an agent asks.
func UseMount(a Actor, m MountFacts, f Facts) Decision {
	if d := view(&a, &m, &f); !d.Allow {
		return d
	}
	return running(&a, m.Project, "", &f)
}
