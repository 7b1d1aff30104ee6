package transcript

import (
	"fmt"

	"github.com/bunkroom/bunkroom/access"
)

// Check refuses a position that is two at once, by a *access.FieldError that
// names field.
func (p Position) Check(field string) error {
	if p.Root && p.Entry != "" {
		return &access.FieldError{Field: field, Rule: "after an entry or before the root, not both"}
	}
	return access.CheckOptionalID(field, p.Entry)
}

// Page is how many a page with that limit has, or a *access.FieldError.
func Page(limit int) (int, error) {
	switch {
	case limit < 0 || limit > MaxListed:
		return 0, &access.FieldError{Field: "Limit", Rule: fmt.Sprintf("0 to %d", MaxListed)}
	case limit == 0:
		return DefaultListed, nil
	}
	return limit, nil
}

// checkPage is what all pages have in common.
func checkPage(conversation access.ConversationID, limit int) error {
	if err := access.CheckID("Conversation", conversation); err != nil {
		return err
	}
	_, err := Page(limit)
	return err
}

// Check refuses a query that no store has to look at, by a *access.FieldError.
func (q PathQuery) Check() error {
	if err := checkPage(q.Conversation, q.Limit); err != nil {
		return err
	}
	if err := q.From.Check("From"); err != nil {
		return err
	}
	return access.CheckOptionalID("Through", q.Through)
}

// Check refuses a query that no store has to look at, by a *access.FieldError.
func (q TimelineQuery) Check() error {
	if err := checkPage(q.Conversation, q.Limit); err != nil {
		return err
	}
	if q.Before < 0 {
		return &access.FieldError{Field: "Before", Rule: "not negative"}
	}
	for i, kind := range q.Kinds {
		if err := checkName(fmt.Sprintf("Kinds[%d]", i), string(kind)); err != nil {
			return err
		}
	}
	return access.CheckOptionalID("Turn", q.Turn)
}

// Check refuses a query that no store has to look at, by a *access.FieldError.
func (q HeaderQuery) Check() error {
	if err := checkPage(q.Conversation, q.Limit); err != nil {
		return err
	}
	if q.After < 0 {
		return &access.FieldError{Field: "After", Rule: "not negative"}
	}
	if q.Label != "" {
		if err := checkName("Label", q.Label); err != nil {
			return err
		}
	}
	switch {
	case q.Levels < 0 || q.Levels > 0 && q.Under.IsZero():
		return &access.FieldError{Field: "Levels", Rule: "not negative, and only with Under"}
	case !q.Under.IsZero() && !q.Of.IsZero():
		return &access.FieldError{Field: "Under", Rule: "not with Of"}
	}
	if err := q.Under.Check("Under"); err != nil {
		return err
	}
	return q.Of.Check("Of")
}

// CheckMany refuses, by a *access.FieldError, a list of conversations that [Store.LoadMany] can't be asked for.
func CheckMany(conversations []access.ConversationID) error {
	if len(conversations) > MaxListed {
		return &access.FieldError{Field: "conversations", Rule: fmt.Sprintf("at most %d", MaxListed)}
	}
	for _, c := range conversations {
		if err := access.CheckID("Conversation", c); err != nil {
			return err
		}
	}
	return nil
}
