package s3

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/bunkroom/bunkroom/access"
)

// DefaultRegion is the region where none is named. Stores that are not AWS mostly have any.
const DefaultRegion = "us-east-1"

// endpoint checks the base URL of a store and returns it without a slash at its end.
// Requests are signed with their path: what puts a store below a path of its own
// makes every signature wrong.
func endpoint(field, text string) (string, error) {
	refused := func(rule string) (string, error) { return "", &access.FieldError{Field: field, Rule: rule} }
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return refused("must be an http or https URL with a host")
	case u.User != nil:
		return refused("must hold no name or password")
	case u.Path != "" && u.Path != "/" || u.RawPath != "":
		return refused("must have no path: signatures break behind one")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(text, "#"):
		return refused("must have no query and no fragment")
	}
	return u.Scheme + "://" + u.Host, nil
}

// region checks the name of a region, which becomes a part of host names.
func region(name string) (string, error) {
	if name == "" {
		return DefaultRegion, nil
	}
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-') || len(name) > 63 {
			return "", &access.FieldError{Field: "Region", Rule: `must be of lower-case letters, digits and "-"`}
		}
	}
	return name, nil
}

// plainClient sends requests where the host has no client of its own. It
// follows no redirects: what is sent is for the store that was named.
func plainClient() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
