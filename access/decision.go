package access

import "fmt"

// Decision is the answer of a decider. The zero value denies.
type Decision struct {
	// Allow says yes.
	Allow bool
	// Hidden says that the actor may not even learn that the object exists:
	// answer as for an id that does not. Only where Allow is false.
	Hidden bool
	// Reason says why.
	Reason Reason
}

func allow() Decision          { return Decision{Allow: true, Reason: ReasonAllowed} }
func hide(r Reason) Decision   { return Decision{Hidden: true, Reason: r} }
func refuse(r Reason) Decision { return Decision{Reason: r} }

// Err turns a denial into the error a caller may return. A hidden denial
// becomes notFound itself, so that value, text and type are those of an
// absent object; any other a [*DeniedError]. It returns nil for an allow.
func (d Decision) Err(verb, object string, notFound error) error {
	switch {
	case d.Allow:
		return nil
	case d.Hidden:
		return notFound
	}
	return &DeniedError{Verb: verb, Object: object, Reason: d.Reason}
}

// DeniedError is a denial that the actor may learn of.
type DeniedError struct {
	Verb   string // what was asked, such as "end session"
	Object string // the id it was asked of
	Reason Reason
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("access: denied: %s %s: %s", e.Verb, e.Object, e.Reason)
}

// Problem is the reason's.
func (e *DeniedError) Problem() (status int, code, sentence string) { return e.Reason.Problem() }

// FieldError is bad input. Every package answers it with this type; nothing has been written when it is returned.
type FieldError struct {
	Field string // the name of the argument or configuration field
	Rule  string // what the value must be
}

func (e *FieldError) Error() string { return "invalid " + e.Field + ": " + e.Rule }

// Problem tells the field and the rule; both are ours, never the value.
func (e *FieldError) Problem() (status int, code, sentence string) {
	return 400, "invalid_input", "Invalid " + e.Field + ": " + e.Rule + "."
}

// Event is a real denial: somebody was refused something that exists. An id
// that does not exist makes none.
type Event struct {
	Actor  Actor
	Verb   string // what was asked, such as "end session"
	Object string // the id it was asked of
	Reason Reason
}
