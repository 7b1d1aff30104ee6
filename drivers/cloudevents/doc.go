// Package cloudevents hands meter events to whatever takes CloudEvents 1.0
// over HTTP, such as a metering service: each request is a batch in the JSON
// format (application/cloudevents-batch+json).
//
//	exporter, err := cloudevents.New(cloudevents.Config{
//		URL:    "https://metering.example.com/api/v1/events",
//		Source: "https://app.example.com/bunkroom",
//	})
//	if err != nil { … }
//	report, err := billing.Deliver(ctx, ledger, exporter)
//
// An event has the id of its entry, which never changes, and the configured
// source: a receiver that knows events by both, as the specification asks, counts
// each once, however often it comes. Its type is the meter, its subject who
// pays, its time the end of the span, and its data is [Data].
//
// Nothing is tried again here. Whoever delivers calls [billing.Deliver] again,
// after [ExportError.RetryAfter] where the receiver has asked for time.
package cloudevents
