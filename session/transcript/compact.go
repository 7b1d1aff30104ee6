package transcript

import "slices"

// CompactionRule says when and how much to compact. Tokens are whatever the host counts.
type CompactionRule struct {
	// Above is how many tokens a context may have; at most that, there is nothing to do.
	Above int64
	// Keep is about how many tokens of the newest entries are kept as they are.
	Keep int64
	// Pinned reports which of the others are kept too; nil: none.
	Pinned func(Entry) bool
}

// CompactionPlan says what a compaction is to stand for. The caller has
// Summarise summarised, and appends the compaction with Expect being Head;
// where the head has moved on meanwhile, the plan is still good as long as Head is on the new head's path.
type CompactionPlan struct {
	Head         Position // the end of the path that was planned for
	Summarise    []Entry  // oldest first; the compaction before, if there is one, leads
	FirstKept    EntryID
	Pinned       []EntryID
	TokensBefore int64
}

// Compaction is the content of the entry to append.
func (p CompactionPlan) Compaction(summary string) *Compaction {
	return &Compaction{Summary: summary, FirstKept: p.FirstKept, Pinned: p.Pinned, TokensBefore: p.TokensBefore}
}

// PlanCompaction plans for a context, as [Store.Context] reads it; tokens
// counts those of an entry. It is pure. The cut is before an input of a user where
// that keeps no more than twice Keep, else between any two entries; a call is never parted from
// its result, and one that is not settled is never summarised. The newest entry
// is always kept: so nothing is lost that is appended after it meanwhile. What is kept of the entries that the compaction before had
// pinned stays pinned: were one of them the first kept, all that was summarised behind it would come back.
// False: there is nothing to do, or nothing that may be summarised.
func PlanCompaction(context []Entry, tokens func(Entry) int64, rule CompactionRule) (CompactionPlan, bool) {
	plan := CompactionPlan{}
	if len(context) == 0 {
		return plan, false
	}
	plan.Head = After(context[len(context)-1].ID)
	open := len(context) // the first entry that may not be summarised
	var before []Entry   // the compaction that stands for what is not here
	for i, e := range context {
		if e.Compaction != nil {
			before = context[i : i+1]
		}
		plan.TokensBefore += tokens(e)
		for _, p := range e.Parts {
			if p.Call != nil && !p.Call.Status.Settled() {
				open = min(open, i)
			}
		}
	}
	if plan.TokensBefore <= rule.Above {
		return plan, false
	}
	cut, kept := len(context), int64(0)
	for cut > 0 && kept+tokens(context[cut-1]) <= rule.Keep {
		cut--
		kept += tokens(context[cut])
	}
	for last := min(open, len(context)-1); cut > last; {
		cut--
		kept += tokens(context[cut])
	}
	for i, more := cut, kept; i > 0 && more <= 2*rule.Keep; i-- {
		if i < len(context) && context[i].Kind == KindUser {
			cut = i
			break
		}
		more += tokens(context[i-1])
	}
	plan.Summarise = slices.Clone(before)
	for _, e := range context[:cut] {
		if e.Compaction == nil {
			plan.Summarise = append(plan.Summarise, e)
		}
	}
	if len(plan.Summarise) == len(before) {
		return plan, false
	}
	for _, e := range plan.Summarise {
		if rule.Pinned != nil && e.Kind.Message() && rule.Pinned(e) && len(plan.Pinned) < MaxPinned {
			plan.Pinned = append(plan.Pinned, e.ID)
		}
	}
	tail := pinnedBefore(context, before)
	for i := cut; i < tail; i++ {
		plan.Pinned = append(plan.Pinned, context[i].ID)
	}
	plan.FirstKept = context[max(cut, tail)].ID
	return plan, true
}

// pinnedBefore is how many entries lead a context only because the newest compaction has pinned them.
func pinnedBefore(context, newest []Entry) int {
	if len(newest) == 0 {
		return 0
	}
	first := newest[0].Compaction.FirstKept
	if first == "" {
		first = newest[0].ID
	}
	return max(0, slices.IndexFunc(context, func(e Entry) bool { return e.ID == first }))
}
