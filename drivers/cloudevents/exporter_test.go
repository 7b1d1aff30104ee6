package cloudevents_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/cloudevents"
	"github.com/bunkroom/bunkroom/drivers/memory"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// entry is the usage of a second, the nth after noon.
func entry(n int) billing.Entry {
	from := noon.Add(time.Duration(n) * time.Second)
	return billing.Entry{
		ID: billing.UsageID(billing.MarkKey{Resource: "work-1", Meter: billing.MeterRuntime}, from), N: int64(n + 1), Kind: billing.EntryUsage, Payer: "ann",
		Use:    billing.Use{Meter: billing.MeterRuntime, Class: "large", Resource: "work-1", Payer: "ann", Session: "session-1", Project: "web"},
		Amount: 22, From: from, To: from.Add(time.Second), Quantity: 1_000_000,
	}
}

func entries(n int) []billing.Entry {
	all := make([]billing.Entry, n)
	for i := range all {
		all[i] = entry(i)
	}
	return all
}

// receiver is a service that takes events and counts each id once.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	counts map[string]int // by id
	bodies []string
	header http.Header // of the last request
	answer func(call int, w http.ResponseWriter)
	keep   func(call int) bool // whether the events of a request count; nil = always
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{counts: map[string]int{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	call := len(r.bodies)
	r.bodies, r.header = append(r.bodies, string(body)), req.Header.Clone()
	if r.keep == nil || r.keep(call) {
		var events []struct{ ID string }
		if err := json.Unmarshal(body, &events); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, e := range events {
			r.counts[e.ID]++
		}
	}
	if r.answer != nil {
		r.answer(call, w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// took is what it has got, by request, and how often each event came.
func (r *receiver) took() (bodies []string, counts map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.bodies), maps.Clone(r.counts)
}

// exporter is one that sends to r.
func (r *receiver) exporter(t *testing.T, change func(*cloudevents.Config)) *cloudevents.Exporter {
	t.Helper()
	c := cloudevents.Config{URL: r.URL + "/events?key=hush", Source: "https://app.example.com/bunkroom", Client: r.Client()}
	if change != nil {
		change(&c)
	}
	x, err := cloudevents.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

const golden = `[{"specversion":"1.0","id":"usage/runtime/work-1/1772366400000000","source":"https://app.example.com/bunkroom",` +
	`"type":"dev.bunkroom.meter.runtime","subject":"ann","time":"2026-03-01T12:00:01Z","datacontenttype":"application/json",` +
	`"data":{"payer":"ann","session":"session-1","project":"web","meter":"runtime","class":"large","resource":"work-1",` +
	`"quantity":1000000,"unit":"us","from":"2026-03-01T12:00:00Z","to":"2026-03-01T12:00:01Z","amountMicros":22}},` +
	`{"specversion":"1.0","id":"usage/gpu/card-1/1772366400000000","source":"https://app.example.com/bunkroom",` +
	`"type":"dev.bunkroom.meter.gpu","subject":"bob","time":"2026-03-01T12:00:00.5Z","datacontenttype":"application/json",` +
	`"data":{"payer":"bob","meter":"gpu","resource":"card-1","quantity":9007199254740993,"unit":"FLOP",` +
	`"from":"2026-03-01T12:00:00Z","to":"2026-03-01T12:00:00.5Z","amountMicros":0}}]`

// What is sent, byte for byte.
func TestExport(t *testing.T) {
	r := newReceiver(t)
	x := r.exporter(t, func(c *cloudevents.Config) {
		c.Units = map[billing.Meter]string{"gpu": "FLOP"}
		c.URL = strings.Replace(c.URL, "http://", "http://ann:hush@", 1)
		c.Header = func(context.Context) (http.Header, error) {
			return http.Header{"X-Key": {"k"}, "Content-Type": {"text/plain"}}, nil
		}
	})
	east := time.FixedZone("east", 7200)
	other := billing.Entry{
		ID: "usage/gpu/card-1/1772366400000000", Use: billing.Use{Meter: "gpu", Resource: "card-1", Payer: "bob"},
		From: noon.In(east), To: noon.Add(time.Second / 2).In(east), Quantity: 1<<53 + 1,
	}
	if err := x.Export(t.Context(), []billing.Entry{entry(0), other}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{golden}, r.bodies); diff != "" {
		t.Error(diff)
	}
	name, secret, _ := (&http.Request{Header: r.header}).BasicAuth()
	if got := r.header.Get("Content-Type"); got != "application/cloudevents-batch+json; charset=utf-8" || r.header.Get("X-Key") != "k" || name != "ann" || secret != "hush" {
		t.Errorf("%v", r.header)
	}
}

// Nothing is sent where there is nothing.
func TestExportNothing(t *testing.T) {
	r := newReceiver(t)
	if err := r.exporter(t, nil).Export(t.Context(), nil); err != nil || len(r.bodies) != 0 {
		t.Errorf("%v, %q", err, r.bodies)
	}
}

// A request is no larger than it may be; together they have every event, in order.
func TestBatches(t *testing.T) {
	r := newReceiver(t)
	x := r.exporter(t, func(c *cloudevents.Config) { c.MaxBytes = 32 << 10 })
	all := entries(300)
	if err := x.Export(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, body := range r.bodies {
		var events []struct{ ID string }
		if err := json.Unmarshal([]byte(body), &events); err != nil || len(body) > 32<<10 || i < len(r.bodies)-1 && len(body) < 31<<10 {
			t.Errorf("request %d has %d bytes: %v", i, len(body), err)
		}
		for _, e := range events {
			if e.ID != all[n].ID {
				t.Fatalf("event %d is %s", n, e.ID)
			}
			n++
		}
	}
	if n != 300 || len(r.bodies) < 4 {
		t.Errorf("%d events in %d requests", n, len(r.bodies))
	}
}

// The largest event that a ledger can have fits in the smallest request.
func TestLargestEvent(t *testing.T) {
	r := newReceiver(t)
	wide := strings.Repeat("<", access.MaxID)
	x := r.exporter(t, func(c *cloudevents.Config) {
		c.MaxBytes, c.Source, c.TypePrefix = 32<<10, "x:"+strings.Repeat("&", 1022), wide
		c.Units = map[billing.Meter]string{billing.Meter(wide): wide}
	})
	e := entry(0)
	e.Use = billing.Use{
		Meter: billing.Meter(wide), Class: billing.Class(wide), Resource: wide, Payer: access.UserID(wide),
		Session: access.SessionID(wide), Project: access.ProjectID(wide),
	}
	e.ID = billing.UsageID(billing.MarkKey{Resource: wide, Meter: billing.Meter(wide)}, noon)
	if err := x.Export(t.Context(), []billing.Entry{e, e}); err != nil || len(r.bodies) != 2 || r.counts[e.ID] != 2 {
		t.Errorf("%v, %d requests", err, len(r.bodies))
	}
}

// What can't be an event is refused before anything is sent.
func TestEventsThatAreNone(t *testing.T) {
	large, late := entry(1), entry(2)
	large.Use.Resource = strings.Repeat("x", 33<<10)
	late.To = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, e := range []billing.Entry{large, late} {
		r := newReceiver(t)
		err := r.exporter(t, func(c *cloudevents.Config) { c.MaxBytes = 32 << 10 }).Export(t.Context(), []billing.Entry{entry(0), e})
		var bad *cloudevents.EventError
		if !errors.As(err, &bad) || bad.ID != e.ID || !strings.Contains(err.Error(), e.ID) || len(r.bodies) != 0 {
			t.Errorf("%v, %d requests", err, len(r.bodies))
		}
	}
}

// From a ledger to a service: what fails on the way is sent again under the same ids, and counts once by its id.
func TestDeliver(t *testing.T) {
	for _, c := range []struct {
		rule   string
		answer func(int, http.ResponseWriter)
		keep   func(int) bool
		sent   int // how often an event of the second request comes
	}{
		{"a reply that is lost", func(call int, _ http.ResponseWriter) {
			if call == 1 {
				panic(http.ErrAbortHandler)
			}
		}, nil, 2},
		{"a request that is refused", func(call int, w http.ResponseWriter) {
			if call == 1 {
				w.WriteHeader(http.StatusTooManyRequests)
			}
		}, func(call int) bool { return call != 1 }, 1},
		{"a request that is taken, and refused", func(call int, w http.ResponseWriter) {
			if call == 1 {
				w.WriteHeader(http.StatusBadGateway)
			}
		}, nil, 2},
	} {
		ledger := memory.New(nil).Ledger()
		for n := range 150 {
			e := entry(n)
			out, err := ledger.Post(t.Context(), billing.Post{
				Use: e.Use, From: e.From, To: e.To, Quantity: e.Quantity, Rate: billing.Rate{Price: 22, Per: 1_000_000},
			})
			if err != nil || out[0].Err != nil {
				t.Fatal(err, out)
			}
		}
		r := newReceiver(t)
		r.answer, r.keep = c.answer, c.keep
		x := r.exporter(t, func(c *cloudevents.Config) { c.MaxBytes = 32 << 10 })
		var failed *cloudevents.ExportError
		rep, err := billing.Deliver(t.Context(), ledger, x)
		bodies, _ := r.took()
		if !errors.As(err, &failed) || rep.Delivered != 0 || len(bodies) != 2 || failed.Sent != strings.Count(bodies[0], `"specversion"`) {
			t.Fatalf("%s: %+v, %v, %d requests", c.rule, rep, err, len(bodies))
		}
		rep, err = billing.Deliver(t.Context(), ledger, x)
		bodies, counts := r.took()
		if err != nil || rep.Delivered != 150 || len(counts) != 150 {
			t.Errorf("%s: %+v, %v, %d events", c.rule, rep, err, len(counts))
		}
		if n := counts[entry(failed.Sent).ID]; n != c.sent {
			t.Errorf("%s: came %d times, want %d", c.rule, n, c.sent)
		}
		if !slices.Equal(bodies[:2], bodies[2:4]) {
			t.Errorf("%s: what is sent again is not the same", c.rule)
		}
	}
}
