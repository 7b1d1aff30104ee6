package transcripttest

import (
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/sessiontest"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// TestInbox checks an inbox, and what the store beside it does with inputs,
// against the contract of [transcript.Inbox]. open returns both of one place
// that is empty and dated by the clock, and cleans up with t.Cleanup.
func TestInbox(t *testing.T, open func(t *testing.T, clock *sessiontest.Clock) (transcript.Store, transcript.Inbox)) {
	t.Helper()
	for _, c := range inboxChecks() {
		t.Run(c.name, func(t *testing.T) {
			clock := sessiontest.NewClock()
			s, box := open(t, clock)
			c.run(&inboxBench{&bench{TB: t, rule: c.rule, store: s}, box, clock})
		})
	}
}

func inboxChecks() []inboxCheck {
	return slices.Concat(admitChecks(), changeInputChecks(), claimChecks(), promoteChecks(), deliveryChecks(), inboxListChecks(), expireChecks(), archiveInputChecks(), forgetChecks(), inboxRaceChecks())
}

// inboxCheck is one rule of the contract and what shows it.
type inboxCheck struct {
	name string
	rule string
	run  func(*inboxBench)
}

// inboxBench is what such a check works at.
type inboxBench struct {
	*bench
	box   transcript.Inbox
	clock *sessiontest.Clock
}

// most is a limit that is not reached.
const most = 1000

func input(lane transcript.Lane, id transcript.EntryID) transcript.NewInput {
	return transcript.NewInput{Entry: asks(id), Lane: lane}
}

func steer(id transcript.EntryID) transcript.NewInput { return input(transcript.LaneSteer, id) }

// admits admits what must be admitted, for the first time.
func (b *inboxBench) admits(ins ...transcript.NewInput) (last transcript.Admitted) {
	b.Helper()
	for _, in := range ins {
		var err error
		if last, err = b.box.Admit(b.Context(), talk, in, most); err != nil || !last.Created {
			b.Fatalf("Admit(%s): got %+v, %v", in.Entry.ID, last, err)
		}
	}
	return last
}

// changes does to an input what must be done.
func (b *inboxBench) changes(id transcript.EntryID, cmd transcript.InputCommand) transcript.Input {
	b.Helper()
	in, err := b.box.ChangeInput(b.Context(), talk, id, cmd)
	if err != nil {
		b.Fatalf("ChangeInput(%s, %+v): %v", id, cmd, err)
	}
	return in
}

// unchanged does to an input what must be refused, and expects nothing to be written.
func (b *inboxBench) unchanged(what string, id transcript.EntryID, cmd transcript.InputCommand, refusal func(error) bool) {
	b.Helper()
	before, inputs := b.picture(talk), b.inputs(states()...)
	in, err := b.box.ChangeInput(b.Context(), talk, id, cmd)
	if err == nil || !refusal(err) {
		b.Errorf("%s: got one that is %s in version %d, and error %v", what, in.State, in.Version, err)
		return
	}
	if !strings.Contains(err.Error(), string(id)) && !as[*access.FieldError](err) && !is(transcript.ErrArchived)(err) {
		b.Errorf("%s: error %q does not name its subject %s", what, err, id)
	}
	b.same(what+": after a refusal", b.picture(talk), before)
	b.same(what+": the inputs after a refusal", b.inputs(states()...), inputs)
}

// unwritten commits what must be refused, and expects nothing to be written, of inputs neither.
func (b *inboxBench) unwritten(what string, c transcript.Change, refusal func(error) bool, subjects ...string) {
	b.Helper()
	inputs := b.inputs(states()...)
	b.refuses(what, c, refusal, subjects...)
	b.same(what+": the inputs after a refusal", b.inputs(states()...), inputs)
}

// states are all that an input may be in.
func states() []transcript.InputState {
	return []transcript.InputState{
		transcript.InputPending, transcript.InputClaimed, transcript.InputPromoted, transcript.InputCancelled, transcript.InputExpired, transcript.InputDead,
	}
}

// inputs are all pages of the inputs of talk; of no states, those that wait.
func (b *inboxBench) inputs(states ...transcript.InputState) (all []transcript.Input) {
	b.Helper()
	after := transcript.EntryID("")
	for range 10_000 {
		page, err := b.box.Inputs(b.Context(), talk, after, 7, states...)
		if err != nil || len(page) > 7 {
			b.Fatalf("Inputs: %d, %v", len(page), err)
		}
		all = append(all, page...)
		if len(page) < 7 {
			return all
		}
		after = page[6].Entry.ID
	}
	b.Fatalf("Inputs: the pages don't end")
	return nil
}

// input is one of the inputs of talk, which must be there.
func (b *inboxBench) input(id transcript.EntryID) transcript.Input {
	b.Helper()
	for _, in := range b.inputs(states()...) {
		if in.Entry.ID == id {
			return in
		}
	}
	b.Fatalf("there is no input %s", id)
	return transcript.Input{}
}

// lined are the ids of inputs, in their order.
func lined(inputs []transcript.Input) []transcript.EntryID {
	out := []transcript.EntryID{}
	for _, in := range inputs {
		out = append(out, in.Entry.ID)
	}
	return out
}

// promotes is a change that makes entries of inputs as they came.
func promotes(ids ...transcript.EntryID) transcript.Change {
	c := transcript.Change{Promote: ids}
	for _, id := range ids {
		c.Append = append(c.Append, asks(id))
	}
	return c
}

// waiting are the conversations of which [transcript.Inbox.Waiting] says that something waits.
func (b *inboxBench) waiting() []access.ConversationID {
	b.Helper()
	ids, err := b.box.Waiting(b.Context(), "", most)
	if err != nil {
		b.Fatalf("Waiting: %v", err)
	}
	return ids
}

// news are the facts about inputs that are newer than a seq, as the state that each has then.
func (b *inboxBench) news(after int64) (out []string) {
	b.Helper()
	for _, f := range b.facts(talk, after, 0) {
		if f.Kind == transcript.FactInput {
			out = append(out, string(f.Entry)+" "+string(f.Input))
		}
	}
	return out
}
