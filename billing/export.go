package billing

import "context"

// Exporter takes meter events somewhere else, such as to a metering service.
type Exporter interface {
	// Export hands over events. It returns nil once they are safe there. It may
	// be called again with the same ones, and they must count once then, by their ID:
	// the same event always has the same. All methods may be called concurrently.
	Export(ctx context.Context, events []Entry) error
}

// deliverBatch is how many events are handed over at once.
const deliverBatch = 100

// DeliverReport says what was handed over.
type DeliverReport struct {
	Delivered int
}

// Deliver hands every usage entry that was not exported yet to x, oldest
// first, and marks it. A crash in between hands it over again, under the same
// id. It returns at the first error; what is left is for the next call.
// Several may run at once: then events may be handed over more than once.
//
// One event that x never takes keeps all later ones from it. An exporter
// whose other side refuses an event for good puts it aside, tells somebody, and returns nil.
//
// A host has it done as a chore of its Keeper:
//
//	session.Chore{Name: "deliver", Every: time.Minute, Run: func(ctx context.Context) error {
//		_, err := billing.Deliver(ctx, ledger, exporter)
//		return err
//	}}
func Deliver(ctx context.Context, l Ledger, x Exporter) (DeliverReport, error) {
	var rep DeliverReport
	for {
		events, err := l.Unexported(ctx, deliverBatch)
		if err != nil || len(events) == 0 {
			return rep, err
		}
		if err := x.Export(ctx, events); err != nil {
			return rep, err
		}
		ids := make([]string, len(events))
		for i, e := range events {
			ids[i] = e.ID
		}
		if err := l.Exported(ctx, ids); err != nil {
			return rep, err
		}
		rep.Delivered += len(events)
	}
}
