package cloudevents

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// Config is what an [Exporter] needs.
type Config struct {
	// URL takes the events: http or https, with a host. A name and a password
	// in it are sent as basic authentication, and are in no error. Required.
	URL string
	// Source is the source of every event, a URI reference. With an event's id it
	// must be unique, so every deployment has its own, and keeps it. At most 1024 bytes. Required.
	Source string
	// TypePrefix stands before the meter in an event's type, at most 256 bytes; empty = "dev.bunkroom.meter.".
	TypePrefix string
	// Units are those of the host's own meters, each at most 256 bytes.
	Units map[billing.Meter]string
	// Header is sent with every request, such as "Authorization"; nil = nothing. It is
	// asked for each time, so that what it holds may change. Its error ends the export.
	Header func(context.Context) (http.Header, error)
	// Client sends the requests; nil = one that waits 30 seconds and follows no redirects.
	Client *http.Client
	// MaxBytes is the most that a request's body may have; 0 = 512 KiB. At least 32 KiB,
	// which every event fits in.
	MaxBytes int
}

const (
	minMaxBytes       = 32 << 10
	defaultMaxBytes   = 512 << 10
	defaultTypePrefix = "dev.bunkroom.meter."
	defaultTimeout    = 30 * time.Second
	// maxAnswer is how much of an answer is read, and maxTold how much of it is told.
	maxAnswer = 64 << 10
	maxTold   = 512
)

// Exporter is a [billing.Exporter] that sends CloudEvents. All methods may be called concurrently.
type Exporter struct {
	url        string
	source     string
	typePrefix string
	units      map[billing.Meter]string
	header     func(context.Context) (http.Header, error)
	client     *http.Client
	maxBytes   int
}

var _ billing.Exporter = (*Exporter)(nil)

// New checks c; nothing is sent yet. A *access.FieldError names the field.
func New(c Config) (*Exporter, error) {
	bad := func(field, rule string) (*Exporter, error) { return nil, &access.FieldError{Field: field, Rule: rule} }
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return bad("URL", "must be an http or https URL with a host")
	}
	if _, err := url.Parse(c.Source); err != nil || c.Source == "" || len(c.Source) > 1024 || !utf8.ValidString(c.Source) || strings.ContainsFunc(c.Source, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return bad("Source", "must be a URI reference of at most 1024 bytes")
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = defaultMaxBytes
	}
	if c.MaxBytes < minMaxBytes {
		return bad("MaxBytes", "must be at least 32768")
	}
	if err := access.CheckOptionalID("TypePrefix", c.TypePrefix); err != nil {
		return nil, err
	}
	for m, unit := range c.Units {
		if m == billing.MeterRuntime || m == billing.MeterStorage {
			return bad("Units", "must not name a meter of Bunkroom")
		}
		if err := access.CheckOptionalID("Units", unit); err != nil {
			return nil, err
		}
	}
	if c.TypePrefix == "" {
		c.TypePrefix = defaultTypePrefix
	}
	if c.Client == nil {
		c.Client = &http.Client{
			Timeout:       defaultTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Exporter{
		url: c.URL, source: c.Source, typePrefix: c.TypePrefix, units: maps.Clone(c.Units), header: c.Header, client: c.Client, maxBytes: c.MaxBytes,
	}, nil
}

// Export sends the events of entries, in their order, in as few requests as
// fit. It returns nil once every request was answered with a 2xx. It stops at the first that was
// not: what was sent before is sent again by the next call, under the same ids.
// An *ExportError says what was answered; an *EventError, that nothing was sent, and why.
func (x *Exporter) Export(ctx context.Context, entries []billing.Entry) error {
	batches, err := x.batches(entries)
	if err != nil {
		return err
	}
	sent := 0
	for _, b := range batches {
		if err := x.send(ctx, b, sent); err != nil {
			return err
		}
		sent += b.events
	}
	return nil
}

func (x *Exporter) send(ctx context.Context, b batch, sent int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.url, bytes.NewReader(b.body))
	if err != nil {
		return &ExportError{Sent: sent, Err: bare(err)}
	}
	if x.header != nil {
		h, err := x.header(ctx)
		if err != nil {
			return &ExportError{Sent: sent, Err: err}
		}
		maps.Copy(req.Header, h)
	}
	req.Header.Set("Content-Type", "application/cloudevents-batch+json; charset=utf-8")
	answer, err := x.client.Do(req)
	if err != nil {
		return &ExportError{Sent: sent, Err: bare(err)}
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // so that the connection can be used again
	if answer.StatusCode/100 == 2 {
		return nil
	}
	return &ExportError{
		Status: answer.StatusCode, RetryAfter: retryAfter(answer.Header), Sent: sent,
		Body: strings.ToValidUTF8(string(body[:min(len(body), maxTold)]), "�"),
	}
}

// bare is err without the URL that package http puts around it: what is in a URL may be a secret.
func bare(err error) error {
	for {
		var wrapped *url.Error
		if !errors.As(err, &wrapped) {
			return err
		}
		err = wrapped.Err
	}
}

// retryAfter is how long to wait, by the answer's own clock where it names an instant.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return max(at.Sub(now), 0)
}
