//go:build linux

package lab

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"sync"
	"testing"
)

// front stands before the server and changes nothing. It counts whose requests
// the server has answered, and which it refused.
type front struct {
	url string

	mu       sync.Mutex
	accepted map[string]int // by access key
	refused  []string       // the requests
}

var inAuthorization = regexp.MustCompile(`Credential=([^/]+)/`)

func newFront(t *testing.T, endpoint string) *front {
	t.Helper()
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{accepted: map[string]int{}}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // it is signed
		},
		ModifyResponse: func(r *http.Response) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			key := inAuthorization.FindStringSubmatch(r.Request.Header.Get("Authorization"))
			switch {
			case r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusUnauthorized:
				f.refused = append(f.refused, r.Request.Method+" "+r.Request.URL.Path)
			case key != nil:
				f.accepted[key[1]]++
			}
			return nil
		},
	}
	listener := httptest.NewServer(proxy)
	t.Cleanup(listener.Close)
	f.url = listener.URL
	return f
}

// counts is how many folder's keys were accepted, and what was refused.
func (f *front) counts(owner string) (keys, requests int, refused []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, n := range f.accepted {
		if key != owner {
			keys, requests = keys+1, requests+n
		}
	}
	return keys, requests, append([]string(nil), f.refused...)
}
