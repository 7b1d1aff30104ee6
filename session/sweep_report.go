package session

import "github.com/bunkroom/bunkroom/sandbox"

// SweepReport says what a sweep found and did.
type SweepReport struct {
	// Providers are those that were listed, by name. What can't list its machines is left out.
	Providers []ProviderSweep
	// Items are the machines that matter: those that nobody names. What became
	// of orphans comes first.
	Items []SweepItem
	// Capped: there were more items than are listed here, which are at most
	// [MaxSweepItems]. The counts of Providers are whole.
	Capped bool
	// Budget is how many orphans the sweep was allowed to bury, and Orphans
	// how many it found: buried or spared.
	Budget, Orphans int
	// Tripped: there were more than the budget allows, and none was buried.
	// That stays so until somebody sweeps with a larger Budget.
	Tripped bool
	// Incomplete: a list or the rows could not be read to the end.
	Incomplete bool
}

// MaxSweepItems is the most items of a report.
const MaxSweepItems = 1000

// ProviderSweep counts what a sweep made of one provider's machines. Each that
// is Listed is counted once more, as exactly one of the others.
type ProviderSweep struct {
	Provider  string
	Listed    int
	Foreign   int // another deployment's, or not labelled as ours are
	Named     int // a row or the outbox names it
	Suspected int // nobody names it, for less than the grace
	Young     int // nobody names it, and its maker may not have said so yet
	Buried    int // an orphan, in the outbox now
	Spared    int // an orphan that was left alone: see DryRun, Tripped
	Skipped   int // as good as an orphan, but it has changed meanwhile, or is not there
	Failed    int // it could not be found out, or not be buried
	// Err is why its list could not be read to the end; nil = it was.
	Err error
}

// SweepItem is what a sweep made of one machine.
type SweepItem struct {
	Provider string
	Machine  sandbox.TombstoneKey
	Name     string // with its provider
	Action   SweepAction
	Reason   string // a sentence for the operator
	Err      error  // of SweepFailed: why
}

// SweepAction says what a sweep did with a machine.
type SweepAction string

// The actions; [ProviderSweep] says what each means.
const (
	SweepSuspected SweepAction = "suspected"
	SweepYoung     SweepAction = "young"
	SweepBuried    SweepAction = "buried"
	SweepSpared    SweepAction = "spared"
	SweepSkipped   SweepAction = "skipped"
	SweepFailed    SweepAction = "failed"
)

// keep adds an item to a list that has no more than a report may have.
func (s *sweep) keep(items *[]SweepItem, item SweepItem, action SweepAction, reason string, err error) {
	if len(*items) == MaxSweepItems {
		s.rest = true
		return
	}
	item.Action, item.Reason, item.Err = action, reason, err
	*items = append(*items, item)
}

// report is the sweep so far, for those who asked for it.
func (s *sweep) report() SweepReport {
	rep := SweepReport{Providers: s.sources, Capped: s.rest, Budget: s.budget(), Tripped: s.tripped, Incomplete: s.fault != nil}
	for _, p := range s.sources {
		rep.Orphans += p.Buried + p.Spared
	}
	rep.Items = append(s.done, s.waiting...)
	if len(rep.Items) > MaxSweepItems {
		rep.Items, rep.Capped = rep.Items[:MaxSweepItems], true
	}
	return rep
}
