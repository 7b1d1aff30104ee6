package access

// UseEnvironment decides whether the actor may see, open and rename the
// environments of project, and have new sessions borrow them: every member may.
// Whether code may run in one is asked when work opens, as ever. It needs WantRole.
func UseEnvironment(a Actor, project ProjectID, f Facts) Decision {
	return reach(&a, "", project, &f)
}

// DeleteEnvironment decides whether the actor may delete an environment of
// project, under whoever works in it: as who ends another's session. Who
// opened it has no right of its own. It needs WantRole, WantCode, and WantAgent where an agent asks.
func DeleteEnvironment(a Actor, project ProjectID, f Facts) Decision {
	return EndSession(a, SessionFacts{Project: project}, f)
}
