package sim

// mutations are the rules, and what their absence looks like. Rules that a second guard covers for are left out, for
// without one of the two nothing goes wrong:
//   - a post begins at its watermark: two that begin at the same time have one id, and nobody begins at another;
//   - a closed meter takes nothing more: nor does the hold, which was settled with it;
//   - a machine that comes to be live is not one that the outbox names: its row has another version by then;
//   - a sweep rests on the row that it has read: a machine that is not the row's own then never becomes it.
//
// So are those whose absence 2,000 schedules do not surely meet with, though it would do harm: that an end rests on there
// being nothing to tear down, that nothing is proven before not_before, what a
// slot waits for, and that who pays is asked again. The packages' own tests show them.
var mutations = []mutation{
	{rule: "2: a generation is never used twice", file: "sandbox/decide.go",
		old: "next.Generation++", new: "next.Generation += 0"},
	{rule: "4: destroying is never used again", file: "sandbox/decide.go",
		old: "	case Live:\n		return Step{Then: EffectAttach}, nil", new: "	case Live, Destroying:\n		row.State = Live\n		step := write(row)\n		step.Then = EffectAttach\n		return step, nil"},
	{rule: "4: a dying machine moves to the outbox when the next generation begins", file: "sandbox/decide.go",
		old: "step.Bury = []Tombstone{t}\n	}\n	return step, nil\n}\n\n// window", new: "_ = t\n	}\n	return step, nil\n}\n\n// window"},
	{rule: "6: absence is proven by two answers, not by one", file: "sandbox/decide.go",
		old: "case absentSince.IsZero():\n		return proofFirst", new: "case false:\n		return proofFirst"},
	{rule: "6: a machine is lost only when missed twice", file: "sandbox/decide.go",
		old: "	case row.AbsentSince.IsZero():\n		step := write(row)", new: "	case false:\n		step := write(row)", within: 2000},
	{rule: "6: a lost machine goes to the outbox", file: "sandbox/decide.go",
		old: "step.Bury = []Tombstone{dead}", new: "_ = dead"},
	{rule: "6: an observation that somebody else has overtaken is worth nothing", file: "session/machines_create.go",
		old: "if _, observed := event.(sandbox.Observed); observed {", new: "if _, observed := event.(sandbox.Observed); observed && false {", within: 2000},
	{rule: "7: machines are counted in the commit", file: "sandbox/decide.go",
		old: "step.CountMachine = true", new: "step.CountMachine = false"},
	{rule: "14: others wait on the row while one creates", file: "sandbox/decide.go",
		old: "case mine(row, e.Nonce): //", new: "case true: //"},
	{rule: "4: a tombstone never kills the live machine", file: "sandbox/tombstone.go",
		old: "kill(found, t.Incarnation, live)", new: "kill(found, t.Incarnation, \"\")"},
	{rule: "idea 2: a machine rests on its session not being ended", file: "session/decide.go",
		old: "d.Change.Expect = append(d.Change.Expect, Guard{Session: s.Session.ID, Version: s.Session.Version})", new: "", within: 2000},
	{rule: "13: a machine rests on its environment not being deleted", file: "session/decide.go",
		old: "d.Change.Expect = append(d.Change.Expect, Guard{Environment: e.ID, Version: e.Version})", new: "", within: 2000},
	{rule: "2, leases: a work measures its lease from before it asked, and stops before that is over", file: "session/work.go",
		old: "w.until = asked.Add(w.runner.lease)", new: "w.until = asked.Add(2 * w.runner.lease)"},
	{rule: "3, money: the same span again is one span", file: "billing/book_post.go",
		old: "	if !ok {\n		return Posted{}, false, nil\n	}", new: "	if !ok || ok {\n		return Posted{}, false, nil\n	}"},
	{rule: "3, money: a hold goes on only where its account may", file: "billing/book_post.go",
		old: "h.ID), terms); !d.Allow {", new: "h.ID), terms); false && !d.Allow {"},
	{rule: "3, money: work stops before its hold expires", file: "session/decide_bill.go",
		old: "return b.until.Add(-2 * grace), true", new: "return b.until.Add(time.Hour), true", within: 2000},
	{rule: "3, money: that work begins is noted at once", file: "session/decide_bill.go",
		old: "case b.failing || !b.noted || ", new: "case b.failing || "},
	{rule: "3, money: no time is charged after the stop", file: "session/decide_bill.go",
		old: "at = earlier(at, b.stopped)", new: "_ = b.stopped"},
	{rule: "3, money: what could not be accounted for when it was closed is later, by its own process", file: "session/settle.go",
		old: "if len(works) == 0 {", new: "if len(works) >= 0 {", within: 2000},
	{rule: "3, money: also where another took it for one that never began", file: "billing/till.go",
		old: "case errors.Is(err, ErrClosed) && held && u.Last:", new: "case false && u.Last:", within: 2000},
	{rule: "3, money: the account of a work that has died is closed", file: "session/abandon.go",
		old: "return struct{}{}, a.gate.Abandon(ctx, left)", new: "_ = left; return struct{}{}, nil"},
	{rule: "3, money: a crash costs one interval more, and not a lease", file: "session/abandon.go",
		old: "l.Until.Add(a.lease/3 - a.lease)", new: "l.Until"},
	{rule: "3, money: the lease of what could not be accounted for is kept", file: "session/work.go",
		old: "case settled == nil: // else", new: "case settled == nil || true: // else"},
	{rule: "3, money: what is tried again is the span that was tried", file: "session/decide_bill.go",
		old: "b.unsure = &u", new: "_ = u"},
	{rule: "3, money: a grant pays only what was used while it counted", file: "billing/burn.go",
		old: "if !g.counts(at) || g.Remaining <= 0 {", new: "if g.Remaining <= 0 {"},
	{rule: "11: what is stopped for being idle is worked in by nobody", file: "drivers/memory/commit.go",
		old: "if c.Idle != \"\" && tx", new: "if false && tx", within: 2000},
}
