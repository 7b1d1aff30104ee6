package session

import (
	"fmt"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/internal/host"
)

// paying is what is known of who pays for a session.
func (s Session) paying(f host.Answer) billing.Paying {
	return billing.Paying{Owner: s.Owner, Project: s.Project, Account: f.Payer}
}

// The not-found errors. They are made from the id as it was asked for, so
// that an absent id and somebody else's give the same bytes.
func noSession(id ID) error { return fmt.Errorf("%w: session %s", ErrNotFound, id) }
func noConversation(id ConversationID) error {
	return fmt.Errorf("%w: conversation %s", ErrNotFound, id)
}
