//go:build linux

package geesefs

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// The signature is the one that AWS gives in its documentation for this
// request; the store of the other tests checks each one with AWS's own code.
func TestSignature(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J", nil)
	sign(r, mount.Credentials{Region: "us-east-1", AccessKey: "AKIAIOSFODNN7EXAMPLE", SecretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
	const want = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, " +
		"Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
	if got := r.Header.Get("Authorization"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// What a storage answers is told apart: a refusal, a fault, and none at all.
func TestLook(t *testing.T) {
	var asked *http.Request
	status, body := 200, ""
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer storage.Close()
	for _, c := range []struct {
		rule    string
		status  int
		body    string
		refused bool
		says    string
	}{
		{"it lists", 200, "<ListBucketResult/>", false, ""},
		{"it refuses, and says why", 403, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>", true, "AccessDenied (HTTP 403)"},
		{"it refuses, in words of its own", 404, "<html>nothing here", true, "Not Found (HTTP 404)"},
		{"it is elsewhere: nobody goes there with these credentials", 307, "", true, "Temporary Redirect (HTTP 307)"},
		{"it does not work", 503, "<Error><Code>SlowDown</Code></Error>", false, "SlowDown (HTTP 503)"},
	} {
		status, body = c.status, c.body
		err := look(t.Context(), looker(nil), credentials(storage.URL, prefix, time.Hour), time.Now())
		refused, ok := errors.AsType[*refusedError](err)
		if ok != c.refused || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.rule, err)
		}
		if ok {
			if code, word, _ := refused.Problem(); code != 503 || word != "mount_unavailable" {
				t.Errorf("%s: told as %d %s", c.rule, code, word)
			}
		}
	}
	if got := asked.URL.Path + "?" + asked.URL.RawQuery; got != "/folders?list-type=2&max-keys=1&prefix=mounts%2Fproject%253aweb%2F"+mountID+"%2F" {
		t.Errorf("asked for %s", got)
	}
	storage.Close()
	if err := look(t.Context(), looker(nil), credentials(storage.URL, prefix, time.Hour), time.Now()); err == nil || strings.Contains(err.Error(), secretKey) {
		t.Errorf("nobody there: %v", err)
	}
}

// Whom the program trusts by AWS_CA_BUNDLE, whoever looks trusts, and through a proxy nobody looks.
func TestLookTrustsWhomTheProgramTrusts(t *testing.T) {
	storage := httptest.NewTLSServer(http.NotFoundHandler())
	defer storage.Close()
	bundle := filepath.Join(t.TempDir(), "bundle")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: storage.Certificate().Raw})
	if err := os.WriteFile(bundle, text, 0o600); err != nil {
		t.Fatal(err)
	}
	roots, err := rootsOf([]string{"TZ=UTC", "AWS_CA_BUNDLE=" + bundle})
	if err != nil {
		t.Fatal(err)
	}
	c := credentials(storage.URL, prefix, time.Hour)
	if _, ok := errors.AsType[*refusedError](look(t.Context(), looker(roots), c, time.Now())); !ok {
		t.Error("it was not asked")
	}
	if err := look(t.Context(), looker(nil), c, time.Now()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a stranger was trusted: %v", err)
	}
	for _, bad := range []string{bundle + ".no", os.DevNull} {
		if _, err := rootsOf([]string{"AWS_CA_BUNDLE=" + bad}); err == nil {
			t.Errorf("%s is a bundle", bad)
		}
	}
	s := &Server{c: Config{Env: []string{"https_proxy=http://127.0.0.1:1"}}}
	if err := s.look(t.Context(), mount.Credentials{Endpoint: "https://127.0.0.1:1"}); err != nil {
		t.Errorf("looked past the proxy: %v", err)
	}
}
