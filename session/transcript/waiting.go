package transcript

import (
	"context"
	"errors"
	"iter"

	"github.com/bunkroom/bunkroom/access"
)

// waitingIn are the inputs that wait in a conversation, read a page at a time.
func waitingIn(ctx context.Context, inbox Inbox, conversation access.ConversationID) iter.Seq2[Input, error] {
	return func(yield func(Input, error) bool) {
		for after := EntryID(""); ; {
			page, err := inbox.Inputs(ctx, conversation, after, MaxListed)
			if err != nil {
				yield(Input{}, err)
				return
			}
			for _, in := range page {
				if !yield(in, nil) {
					return
				}
				after = in.Entry.ID
			}
			if len(page) < MaxListed {
				return
			}
		}
	}
}

// takeBack takes an input back that was seen to wait, and reports whether it
// was this that did: of several that take one back at once only one gives it back to be said again.
func takeBack(ctx context.Context, inbox Inbox, conversation access.ConversationID, seen Input) (now Input, taken bool, err error) {
	for !seen.CancelAsked {
		now, err = inbox.ChangeInput(ctx, conversation, seen.Entry.ID, InputCommand{Version: seen.Version, Cancel: true})
		switch {
		case errors.As(err, new(*TooLateError)): // it was delivered, taken back, or is too late
			return Input{}, false, nil
		case !errors.As(err, new(*VersionError)):
			return now, err == nil, err
		}
		seen, err = inbox.Input(ctx, conversation, seen.Entry.ID) // it was changed meanwhile
		switch {
		case errors.Is(err, ErrNotFound): // and is forgotten since
			return Input{}, false, nil
		case err != nil:
			return Input{}, false, err
		case !seen.waits():
			return Input{}, false, nil
		}
	}
	return Input{}, false, nil
}
