package cloudevents

import (
	"encoding/json"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// Data is what an event says of what was used. Integers are exact: a receiver
// that reads numbers as floating point keeps those below 2^53.
type Data struct {
	Payer    access.UserID    `json:"payer"`
	Session  access.SessionID `json:"session,omitempty"`
	Project  access.ProjectID `json:"project,omitempty"`
	Meter    billing.Meter    `json:"meter"`
	Class    billing.Class    `json:"class,omitempty"`
	Resource string           `json:"resource"`
	Quantity int64            `json:"quantity"`
	// Unit is that of Quantity: "us" of runtime, "KiB.s" of storage, and what
	// Config.Units says of a host's own meters; empty where it says nothing.
	Unit string `json:"unit,omitempty"`
	// From and To are the span, half-open, in UTC.
	From         time.Time      `json:"from"`
	To           time.Time      `json:"to"`
	AmountMicros billing.Micros `json:"amountMicros"`
}

// envelope is an event in the JSON format of CloudEvents 1.0.
type envelope struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            Data      `json:"data"`
}

// event is the event of an entry.
func (x *Exporter) event(e billing.Entry) ([]byte, error) {
	return json.Marshal(envelope{
		SpecVersion: "1.0", ID: e.ID, Source: x.source, Type: x.typePrefix + string(e.Use.Meter), Subject: string(e.Use.Payer),
		Time: e.To.UTC(), DataContentType: "application/json",
		Data: Data{
			Payer: e.Use.Payer, Session: e.Use.Session, Project: e.Use.Project, Meter: e.Use.Meter, Class: e.Use.Class,
			Resource: e.Use.Resource, Quantity: e.Quantity, Unit: x.unit(e.Use.Meter), From: e.From.UTC(), To: e.To.UTC(), AmountMicros: e.Amount,
		},
	})
}

func (x *Exporter) unit(m billing.Meter) string {
	switch m {
	case billing.MeterRuntime:
		return "us"
	case billing.MeterStorage:
		return "KiB.s"
	}
	return x.units[m]
}

// batch is a request body, in the JSON batch format, and how many events it has.
type batch struct {
	body   []byte
	events int
}

// batches puts events into as few bodies as fit, in their order. One that is alone too large is refused.
func (x *Exporter) batches(entries []billing.Entry) ([]batch, error) {
	var all []batch
	for _, e := range entries {
		text, err := x.event(e)
		if err != nil {
			return nil, &EventError{ID: e.ID, What: "can't be written as JSON"}
		}
		if len(text)+2 > x.maxBytes {
			return nil, &EventError{ID: e.ID, What: "is larger than a request may be"}
		}
		last := len(all) - 1
		if last < 0 || len(all[last].body)+1+len(text)+1 > x.maxBytes { // a comma before it, a bracket after it
			all = append(all, batch{body: []byte{'['}})
			last++
		} else {
			all[last].body = append(all[last].body, ',')
		}
		all[last].body = append(all[last].body, text...)
		all[last].events++
	}
	for i := range all {
		all[i].body = append(all[i].body, ']')
	}
	return all, nil
}
