package weedtest

import (
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Untimed leaves out of a request for credentials how long they are to live,
// so that the server decides: it gives Server.TTL, far less than can be asked for.
type Untimed struct{ http.RoundTripper }

// RoundTrip sends the request without its duration.
func (u Untimed) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	form.Del("DurationSeconds")
	text := form.Encode()
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	return u.RoundTripper.RoundTrip(r)
}
