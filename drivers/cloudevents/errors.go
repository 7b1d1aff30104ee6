package cloudevents

import (
	"fmt"
	"time"
)

// ExportError says that a batch was not taken, or that it is not known whether
// it was. The same events are to be handed over again.
type ExportError struct {
	// Status is that of the answer; 0 = there was none.
	Status int
	// RetryAfter is how long the receiver asks to be left alone; 0 = it does not say.
	RetryAfter time.Duration
	// Sent is how many events, of those handed over, were taken before.
	Sent int
	// Body is the beginning of what the receiver says, for logs.
	Body string
	// Err is why there was no answer, without the URL; nil where there was one.
	Err error
}

func (e *ExportError) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("cloudevents: no answer: %v", e.Err)
	}
	return fmt.Sprintf("cloudevents: status %d: %q", e.Status, e.Body)
}

// Unwrap is why there was no answer, such as the context's error.
func (e *ExportError) Unwrap() error { return e.Err }

// Problem is the same for every failure.
func (e *ExportError) Problem() (status int, code, sentence string) {
	return 503, "metering_unavailable", "Usage can't be reported right now."
}

// EventError says that an event can't be handed over at all. Trying again does not help.
type EventError struct {
	ID   string // of the event
	What string // is wrong with it
}

func (e *EventError) Error() string { return fmt.Sprintf("cloudevents: event %s %s", e.ID, e.What) }

// Problem is the same for every event.
func (e *EventError) Problem() (status int, code, sentence string) {
	return 500, "metering_unusable", "Usage can't be reported."
}
