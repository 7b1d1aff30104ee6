package cloudevents_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/cloudevents"
)

func TestNewRefuses(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for _, c := range []struct {
		rule, field string
		change      func(*cloudevents.Config)
	}{
		{"no URL", "URL", func(c *cloudevents.Config) { c.URL = "" }},
		{"no URL at all", "URL", func(c *cloudevents.Config) { c.URL = "http://[hush" }},
		{"another scheme", "URL", func(c *cloudevents.Config) { c.URL = "ftp://hush@example.com" }},
		{"no host", "URL", func(c *cloudevents.Config) { c.URL = "https://:443/hush" }},
		{"no source", "Source", func(c *cloudevents.Config) { c.Source = "" }},
		{"a source with a space", "Source", func(c *cloudevents.Config) { c.Source = "a b" }},
		{"a source that is no reference", "Source", func(c *cloudevents.Config) { c.Source = "http://[x" }},
		{"a source that is too long", "Source", func(c *cloudevents.Config) { c.Source = long }},
		{"a source that is no UTF-8", "Source", func(c *cloudevents.Config) { c.Source = "a\xff" }},
		{"a type that is too long", "TypePrefix", func(c *cloudevents.Config) { c.TypePrefix = long }},
		{"requests that hold nothing", "MaxBytes", func(c *cloudevents.Config) { c.MaxBytes = 32<<10 - 1 }},
		{"another unit of ours", "Units", func(c *cloudevents.Config) { c.Units = map[billing.Meter]string{"runtime": "s"} }},
		{"a unit that is too long", "Units", func(c *cloudevents.Config) { c.Units = map[billing.Meter]string{"gpu": long} }},
	} {
		config := cloudevents.Config{URL: "https://metering.example.com", Source: "app"}
		if _, err := cloudevents.New(config); err != nil {
			t.Fatal(err)
		}
		c.change(&config)
		x, err := cloudevents.New(config)
		var invalid *access.FieldError
		if x != nil || !errors.As(err, &invalid) || invalid.Field != c.field || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %s named", c.rule, err, c.field)
		}
	}
}

// Whatever is answered but a 2xx is an error that carries it.
func TestAnswers(t *testing.T) {
	date := noon.Format(http.TimeFormat)
	for _, c := range []struct {
		rule   string
		status int
		header map[string]string
		body   string
		retry  time.Duration
		ok     bool
	}{
		{rule: "accepted is fine", status: 202, ok: true},
		{rule: "so is a 2xx with more to say than is read", status: 200, body: strings.Repeat("x", 1<<20), ok: true},
		{rule: "too much at once, and how long to wait", status: 429, header: map[string]string{"Retry-After": "7"}, body: "slow down", retry: 7 * time.Second},
		{rule: "until an instant of the answer's clock", status: 503, retry: time.Minute,
			header: map[string]string{"Retry-After": noon.Add(time.Minute).Format(http.TimeFormat), "Date": date}},
		{rule: "which may have passed", status: 503, header: map[string]string{"Retry-After": noon.Add(-time.Minute).Format(http.TimeFormat), "Date": date}},
		{rule: "or have no clock", status: 503, header: map[string]string{"Retry-After": noon.Format(http.TimeFormat), "Date": "now"}},
		{rule: "below 0 is none", status: 503, header: map[string]string{"Retry-After": "-7"}},
		{rule: "words are none", status: 503, header: map[string]string{"Retry-After": "soon"}},
		{rule: "a bad request", status: 400, body: "no such type"},
		{rule: "not ours", status: 401, body: "who are you\nforged line"},
		{rule: "no redirect is followed", status: 307, header: map[string]string{"Location": "/elsewhere"}},
		{rule: "an answer that never ends is read in part", status: 500, body: strings.Repeat("é", 1<<20)},
	} {
		r := newReceiver(t)
		r.answer = func(_ int, w http.ResponseWriter) {
			for k, v := range c.header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}
		x := r.exporter(t, func(c *cloudevents.Config) { c.Client = nil })
		err := x.Export(t.Context(), entries(1))
		if len(r.bodies) != 1 {
			t.Errorf("%s: asked %d times", c.rule, len(r.bodies))
		}
		if c.ok {
			if err != nil {
				t.Errorf("%s: %v", c.rule, err)
			}
			continue
		}
		var failed *cloudevents.ExportError
		if !errors.As(err, &failed) || failed.Status != c.status || failed.RetryAfter != c.retry || failed.Err != nil {
			t.Errorf("%s: %+v", c.rule, err)
			continue
		}
		if text := err.Error(); len(text) > 3000 || !utf8.ValidString(text) || strings.Contains(text, "\n") || len(c.body) < 100 && failed.Body != c.body {
			t.Errorf("%s: %s", c.rule, text)
		}
	}
}

// Where there is no answer the error says why, and nothing of the URL.
func TestNoAnswer(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	url := gone.URL
	gone.Close()
	x, err := cloudevents.New(cloudevents.Config{URL: strings.Replace(url, "http://", "http://ann:hush@", 1) + "/hush?key=hush", Source: "app"})
	if err != nil {
		t.Fatal(err)
	}
	err = x.Export(t.Context(), entries(1))
	var failed *cloudevents.ExportError
	if !errors.As(err, &failed) || failed.Status != 0 || failed.Err == nil {
		t.Fatalf("%+v", err)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if text := fmt.Sprintf("%v %+v", e, e); strings.Contains(text, "hush") || strings.Contains(text, "ann") {
			t.Errorf("the error tells the URL: %s", text)
		}
	}
}

// A receiver that does not answer is waited for no longer than the context says.
func TestContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		cancel()
		<-done
	}))
	defer server.Close()
	defer close(done)
	x, err := cloudevents.New(cloudevents.Config{URL: server.URL, Source: "app"})
	if err != nil {
		t.Fatal(err)
	}
	var failed *cloudevents.ExportError
	if err := x.Export(ctx, entries(1)); !errors.Is(err, context.Canceled) || !errors.As(err, &failed) {
		t.Errorf("%v", err)
	}
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	if err := x.Export(late, entries(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// A header that can't be had ends the export before anything is sent.
func TestHeaderFails(t *testing.T) {
	r := newReceiver(t)
	away := errors.New("no token")
	x := r.exporter(t, func(c *cloudevents.Config) {
		c.Header = func(context.Context) (http.Header, error) { return nil, away }
	})
	if err := x.Export(t.Context(), entries(1)); !errors.Is(err, away) || len(r.bodies) != 0 {
		t.Errorf("%v, %q", err, r.bodies)
	}
}

// What a client is told is fixed.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		err interface {
			Problem() (int, string, string)
		}
		status int
		code   string
	}{
		{&cloudevents.ExportError{Status: 429, Body: "hush"}, 503, "metering_unavailable"},
		{&cloudevents.EventError{ID: "hush"}, 500, "metering_unusable"},
	} {
		status, code, sentence := c.err.Problem()
		if status != c.status || code != c.code || strings.Contains(sentence, "hush") || !strings.HasSuffix(sentence, ".") {
			t.Errorf("%d %s %q", status, code, sentence)
		}
	}
}
