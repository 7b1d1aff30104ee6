package transcripttest

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session/sessiontest"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// pair is a store and its inbox, of which some methods are replaced.
type pair struct {
	transcript.Store
	transcript.Inbox
	commit  func(context.Context, transcript.Change) (transcript.Committed, error)
	admit   func(context.Context, access.ConversationID, transcript.NewInput, int) (transcript.Admitted, error)
	inputs  func(context.Context, access.ConversationID, transcript.EntryID, int, ...transcript.InputState) ([]transcript.Input, error)
	change  func(context.Context, access.ConversationID, transcript.EntryID, transcript.InputCommand) (transcript.Input, error)
	waiting func(context.Context, access.ConversationID, int) ([]access.ConversationID, error)
	input   func(context.Context, access.ConversationID, transcript.EntryID) (transcript.Input, error)
	expire  func(context.Context, access.ConversationID, int) (int, error)
	expired func(context.Context, access.ConversationID, int) ([]access.ConversationID, error)
}

func (p *pair) Commit(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
	return p.commit(ctx, c)
}

func (p *pair) Admit(ctx context.Context, c access.ConversationID, in transcript.NewInput, max int) (transcript.Admitted, error) {
	return p.admit(ctx, c, in, max)
}

func (p *pair) Inputs(ctx context.Context, c access.ConversationID, after transcript.EntryID, limit int, states ...transcript.InputState) ([]transcript.Input, error) {
	return p.inputs(ctx, c, after, limit, states...)
}

func (p *pair) ChangeInput(ctx context.Context, c access.ConversationID, id transcript.EntryID, cmd transcript.InputCommand) (transcript.Input, error) {
	return p.change(ctx, c, id, cmd)
}

func (p *pair) Waiting(ctx context.Context, after access.ConversationID, limit int) ([]access.ConversationID, error) {
	return p.waiting(ctx, after, limit)
}

func (p *pair) Input(ctx context.Context, c access.ConversationID, id transcript.EntryID) (transcript.Input, error) {
	return p.input(ctx, c, id)
}

func (p *pair) Expire(ctx context.Context, c access.ConversationID, limit int) (int, error) {
	return p.expire(ctx, c, limit)
}

func (p *pair) Expired(ctx context.Context, after access.ConversationID, limit int) ([]access.ConversationID, error) {
	return p.expired(ctx, after, limit)
}

// brokenInbox breaks a rule.
type brokenInbox struct {
	name  string
	spoil func(sound pair, broken *pair)
	fails string // the checks that must fail, separated by spaces
}

// command is an inbox that does another command.
func command(spoil func(*transcript.InputCommand)) func(pair, *pair) {
	return func(sound pair, broken *pair) {
		broken.change = func(ctx context.Context, c access.ConversationID, id transcript.EntryID, cmd transcript.InputCommand) (transcript.Input, error) {
			spoil(&cmd)
			return sound.change(ctx, c, id, cmd)
		}
	}
}

// forgiven is an inbox that answers some errors as if all had been done.
func forgiven(which func(error) bool) func(pair, *pair) {
	return func(sound pair, broken *pair) {
		broken.admit = func(ctx context.Context, c access.ConversationID, in transcript.NewInput, max int) (transcript.Admitted, error) {
			got, err := sound.admit(ctx, c, in, max)
			if err != nil && which(err) {
				err = nil
			}
			return got, err
		}
		broken.change = func(ctx context.Context, c access.ConversationID, id transcript.EntryID, cmd transcript.InputCommand) (transcript.Input, error) {
			got, err := sound.change(ctx, c, id, cmd)
			if err != nil && which(err) {
				err = nil
			}
			return got, err
		}
		broken.inputs = func(ctx context.Context, c access.ConversationID, after transcript.EntryID, limit int, states ...transcript.InputState) ([]transcript.Input, error) {
			got, err := sound.inputs(ctx, c, after, limit, states...)
			if err != nil && which(err) {
				err = nil
			}
			return got, err
		}
		broken.commit = func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
			done, err := sound.commit(ctx, c)
			if err != nil && which(err) {
				err = nil
			}
			return done, err
		}
	}
}

// admitting is an inbox that admits something else, or answers otherwise.
func admitting(spoil func(*transcript.NewInput, *int), answer func(*transcript.Admitted)) func(pair, *pair) {
	return func(sound pair, broken *pair) {
		broken.admit = func(ctx context.Context, c access.ConversationID, in transcript.NewInput, max int) (transcript.Admitted, error) {
			spoil(&in, &max)
			got, err := sound.admit(ctx, c, in, max)
			answer(&got)
			return got, err
		}
	}
}

// committed is a store that commits something else.
func committed(spoil func(*transcript.Change)) func(pair, *pair) {
	return func(sound pair, broken *pair) {
		broken.commit = func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
			spoil(&c)
			return sound.commit(ctx, c)
		}
	}
}

// listed is an inbox that lists something else.
func listed(spoil func([]transcript.Input) []transcript.Input) func(pair, *pair) {
	return func(sound pair, broken *pair) {
		broken.inputs = func(ctx context.Context, c access.ConversationID, after transcript.EntryID, limit int, states ...transcript.InputState) ([]transcript.Input, error) {
			got, err := sound.inputs(ctx, c, after, limit, states...)
			return spoil(got), err
		}
	}
}

func brokenInboxes() []brokenInbox {
	asIs := func(*transcript.Admitted) {}
	none := func(*transcript.NewInput, *int) {}
	return []brokenInbox{
		{"forgets whose bill it is", admitting(func(in *transcript.NewInput, _ *int) { in.Billing = "" }, asIs), "admit"},
		{"has made what was there", admitting(none, func(a *transcript.Admitted) { a.Created = true }), "admit-retry admit-once"},
		{"sees no turn", admitting(none, func(a *transcript.Admitted) { a.InTurn = false }), "admit-any-time no-third-outcome"},
		{"has room for all", admitting(func(_ *transcript.NewInput, max *int) { *max = most }, asIs), "admit-limit admit-expires"},
		{"takes other content", forgiven(as[*transcript.InputConflictError]), "admit-conflict promote-refused"},
		{"takes what is an entry", forgiven(as[*transcript.PromotedError]), "admit-entry"},
		{"takes what can't be", forgiven(as[*access.FieldError]), "admit-refused change-refused list-refused"},
		{"changes whatever the version", command(func(cmd *transcript.InputCommand) { cmd.Version = 0 }), "change"},
		{"puts away what is not too late", command(func(cmd *transcript.InputCommand) {
			if cmd.Expire {
				*cmd = transcript.InputCommand{Cancel: true}
			}
		}), "expire"},
		{"moves to the other side", command(func(cmd *transcript.InputCommand) {
			if cmd.Move != nil {
				cmd.Move = &transcript.Move{Before: cmd.Move.After, After: cmd.Move.Before}
			}
		}), "move list"},
		{"releases what has failed", command(func(cmd *transcript.InputCommand) {
			if cmd.Fail != nil {
				*cmd = transcript.InputCommand{Release: cmd.Fail.Fence}
			}
		}), "claim-failed final"},
		{"lets others claim", forgiven(is(transcript.ErrFenced)), "claim-fenced"},
		{"changes what is too late", forgiven(as[*transcript.TooLateError]), "claim final expire claim-cancelled"},
		{"leaves claims to the dead", listed(func(all []transcript.Input) []transcript.Input {
			for i := range all {
				if all[i].State == transcript.InputPending && all[i].Version > 2 {
					all[i].State = transcript.InputClaimed
				}
			}
			return all
		}), "claims-end"},
		{"turns the order round", listed(func(all []transcript.Input) []transcript.Input {
			slices.Reverse(all)
			return all
		}), "list move"},
		{"promotes nothing", committed(func(c *transcript.Change) { c.Promote = nil }), "promote promote-retry claims-taken-over promote-once"},
		{"promotes what is held", committed(func(c *transcript.Change) { c.Hold, c.Resume = false, false }), "promote-refused hold"},
		{"ends whatever waits", committed(func(c *transcript.Change) {
			if c.EndIdle {
				c.EndIdle, c.End = false, true
			}
		}), "end-idle no-third-outcome"},
		{"never ends of itself", func(sound pair, broken *pair) {
			broken.commit = func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				if c.EndIdle {
					return transcript.Committed{}, transcript.ErrWaiting
				}
				return sound.commit(ctx, c)
			}
		}, "end-idle hold no-third-outcome"},
		{"drops what waits with the turn", func(sound pair, broken *pair) {
			broken.commit = func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
				done, err := sound.commit(ctx, c)
				if c.End && err == nil {
					waiting, _ := sound.inputs(ctx, c.Conversation, "", most)
					for _, in := range waiting {
						_, _ = sound.change(ctx, c.Conversation, in.Entry.ID, transcript.InputCommand{Cancel: true})
					}
				}
				return done, err
			}
		}, "broken-off claims-end"},
		{"lists another's", func(sound pair, broken *pair) {
			broken.inputs = func(ctx context.Context, c access.ConversationID, after transcript.EntryID, limit int, states ...transcript.InputState) ([]transcript.Input, error) {
				if c != talk {
					if got, err := sound.inputs(ctx, talk, after, limit, states...); err == nil {
						return got, nil
					}
				}
				return sound.inputs(ctx, c, after, limit, states...)
			}
		}, "not-in-forks"},
		{"tells of nobody", func(_ pair, broken *pair) {
			broken.waiting = func(context.Context, access.ConversationID, int) ([]access.ConversationID, error) { return nil, nil }
		}, "waiting broken-off hold not-in-forks claim-failed list-refused"},
	}
}

// open is a sound pair that is spoilt.
func (x brokenInbox) open(clock *sessiontest.Clock) *pair {
	db := memory.New(&memory.Options{Now: clock.Now})
	store, box := db.Transcripts(), db.Inbox()
	sound := pair{store, box, store.Commit, box.Admit, box.Inputs, box.ChangeInput, box.Waiting, box.Input, box.Expire, box.Expired}
	broken := sound
	x.spoil(sound, &broken)
	return &broken
}

// tells runs a check and returns what it has to say where it fails.
func tells(t *testing.T, c inboxCheck, x brokenInbox) string {
	r, clock := &recorder{TB: t}, sessiontest.NewClock()
	p := x.open(clock)
	done := make(chan struct{})
	go func() { // Fatalf ends the goroutine
		defer close(done)
		c.run(&inboxBench{&bench{TB: r, rule: c.rule, store: p}, p, clock})
	}()
	<-done
	if log := r.log.String(); r.failed && !strings.Contains(log, "rule: "+c.rule) {
		t.Errorf("check %s fails without its rule: %s", c.name, log)
	}
	return r.log.String()
}

func TestBrokenInboxesFail(t *testing.T) {
	sound := brokenInbox{spoil: func(pair, *pair) {}}
	byName, can := map[string]inboxCheck{}, map[string]bool{}
	sentence := regexp.MustCompile(`^[A-Z0-9].*\.( \([a-z][^)]*\))?$`)
	for _, c := range inboxChecks() {
		if _, twice := byName[c.name]; twice || !sentence.MatchString(c.rule) {
			t.Errorf("check %q with rule %q: want a name of its own and a sentence", c.name, c.rule)
		}
		byName[c.name] = c
		if log := tells(t, c, sound); log != "" {
			t.Errorf("a sound inbox fails %s: %s", c.name, log)
		}
	}
	for _, x := range slices.Concat(brokenInboxes(), brokenExpiries(), brokenForgets()) {
		t.Run(x.name, func(t *testing.T) {
			for _, name := range strings.Fields(x.fails) {
				c, there := byName[name]
				if !there {
					t.Fatalf("there is no check %s", name)
				}
				can[name] = true
				if tells(t, c, x) == "" {
					t.Errorf("%s passes", name)
				}
			}
		})
	}
	for _, c := range inboxChecks() {
		if !can[c.name] {
			t.Errorf("no broken inbox fails %s", c.name)
		}
	}
}
