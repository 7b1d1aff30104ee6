package s3_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/s3"
)

const (
	role      = "arn:aws:iam::123456789012:role/folders"
	accessKey = "AKIDEXAMPLE"
	secretKey = "master/secret+key"
)

// request is one that a mint got.
type request struct {
	line   string // method and path
	header http.Header
	host   string
	body   string
	form   url.Values
}

// mint is a store's STS: it answers as it is told, and remembers what it was asked.
type mint struct {
	*httptest.Server
	answer func(http.ResponseWriter, request)
	quiet  bool // it remembers nothing

	mu    sync.Mutex
	asked []request
}

func newMint(t testing.TB) *mint {
	t.Helper()
	m := &mint{}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *mint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || r.Method != http.MethodPost || r.URL.String() != "/" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	got := request{r.Method + "\n" + r.URL.Path, r.Header.Clone(), r.Host, string(body), form}
	if !m.quiet {
		m.mu.Lock()
		m.asked = append(m.asked, got)
		m.mu.Unlock()
	}
	if m.answer != nil {
		m.answer(w, got)
		return
	}
	grant(w, got, minted(time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
}

// all is what was asked for so far.
func (m *mint) all() []request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// minted is the element with the credentials; an empty expiry is left out.
func minted(expiry string) string {
	if expiry != "" {
		expiry = "<Expiration>" + expiry + "</Expiration>"
	}
	return "<Credentials><AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>scoped</SecretAccessKey><SessionToken>token</SessionToken>" + expiry + "</Credentials>"
}

// grant answers with what stands in the result.
func grant(w io.Writer, r request, result string) {
	action := r.form.Get("Action")
	fmt.Fprintf(w, `<%sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult>%s</%[1]sResult></%[1]sResponse>`, action, result)
}

// refuse answers as a store that refuses.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>`, code, message)
}

// keys are the host's.
func keys(context.Context) (s3.Keys, error) {
	return s3.Keys{AccessKey: accessKey, SecretKey: secretKey}, nil
}

// ways are one of each.
func ways() map[string]s3.Way {
	return map[string]s3.Way{
		"AssumeRole": s3.AssumeRole{Role: role, Keys: keys},
		"AssumeRoleWithWebIdentity": s3.WebIdentity{Role: role, Token: func(context.Context) (string, error) {
			return "a.web.token", nil
		}},
		"GetFederationToken": s3.FederationToken{Keys: keys},
	}
}

// signer is one over m.
func (m *mint) signer(t testing.TB, way s3.Way, change func(*s3.Config)) *s3.Signer {
	t.Helper()
	c := s3.Config{Bucket: bucketName, Endpoint: m.URL, Way: way, RunDeadline: 11 * time.Hour}
	if change != nil {
		change(&c)
	}
	s, err := s3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// signed reports whether a request is signed with a key, by signature version
// 4 computed here by hand.
func (r request) signed(key, service string) error {
	const scheme = "AWS4-HMAC-SHA256 "
	text, ok := strings.CutPrefix(r.header.Get("Authorization"), scheme)
	if !ok {
		return fmt.Errorf("no signature: %q", r.header.Get("Authorization"))
	}
	parts := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		parts[name] = value
	}
	_, scope, _ := strings.Cut(parts["Credential"], "/")
	at := r.header.Get("X-Amz-Date")
	day, _, _ := strings.Cut(at, "T")
	if want := day + "/us-east-1/" + service + "/aws4_request"; scope != want || parts["Credential"] != accessKey+"/"+want {
		return fmt.Errorf("signed for %q", parts["Credential"])
	}
	sum := func(text string) string { s := sha256.Sum256([]byte(text)); return hex.EncodeToString(s[:]) }
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	var headers strings.Builder
	for name := range strings.SplitSeq(parts["SignedHeaders"], ";") {
		value := r.header.Get(name)
		if name == "host" {
			value = r.host
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.TrimSpace(value))
	}
	canonical := r.line + "\n\n" + headers.String() + "\n" + parts["SignedHeaders"] + "\n" + sum(r.body)
	derived := []byte("AWS4" + key)
	for _, part := range []string{day, "us-east-1", service, "aws4_request"} {
		derived = mac(derived, part)
	}
	want := hex.EncodeToString(mac(derived, scheme[:len(scheme)-1]+"\n"+at+"\n"+scope+"\n"+sum(canonical)))
	if parts["Signature"] != want {
		return fmt.Errorf("another signature than of this request with these keys")
	}
	return nil
}
