package geesefs

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// lookTimeout is how long a storage has to answer before the program is started.
const lookTimeout = 5 * time.Second

// refusedError is the storage's own word that credentials don't open a folder.
type refusedError struct {
	status int
	code   string // the storage's own
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the storage refuses these credentials: %s (HTTP %d)", e.code, e.status)
}

// Problem does not tell what the storage said.
func (e *refusedError) Problem() (status int, code, sentence string) {
	return mount.ErrUnavailable.Problem()
}

// look lists one name of a folder, as the program would. The program itself
// asks nothing at its start: it mounts whatever it is given, and says only to
// who opens a file that the storage does not answer or refuses.
//
// A [*refusedError] is the storage's answer; other errors mean that there was none.
func look(ctx context.Context, client *http.Client, c mount.Credentials, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	endpoint := c.Endpoint
	if endpoint == "" {
		endpoint = "https://s3." + c.Region + ".amazonaws.com"
		if strings.HasPrefix(c.Region, "cn-") {
			endpoint += ".cn"
		}
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	u = u.JoinPath(c.Bucket)
	u.RawQuery = "list-type=2&max-keys=1&prefix=" + strings.ReplaceAll(url.QueryEscape(string(c.Prefix)), "+", "%20")
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	sign(r, c, now)
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode < 300 {
		return nil
	}
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 16<<10)) // what there is of it
	var e struct{ Code string }
	if xml.Unmarshal(said, &e) != nil || e.Code == "" {
		e.Code = http.StatusText(answer.StatusCode)
	}
	if answer.StatusCode >= 500 {
		return fmt.Errorf("the storage answers %s (HTTP %d)", e.Code, answer.StatusCode)
	}
	return &refusedError{answer.StatusCode, e.Code}
}

// emptyHash is the SHA-256 of nothing: the request has no body.
const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// sign signs a request for S3 that has no body, by version 4 of AWS's
// signature. Its query must be sorted and escaped as RFC 3986 has it.
func sign(r *http.Request, c mount.Credentials, now time.Time) {
	stamp := now.UTC().Format("20060102T150405Z")
	scope := stamp[:8] + "/" + c.Region + "/s3/aws4_request"
	r.Header.Set("X-Amz-Date", stamp)
	r.Header.Set("X-Amz-Content-Sha256", emptyHash)
	headers := "host:" + r.URL.Host + "\nx-amz-content-sha256:" + emptyHash + "\nx-amz-date:" + stamp + "\n"
	signed := "host;x-amz-content-sha256;x-amz-date"
	if c.SessionToken != "" {
		r.Header.Set("X-Amz-Security-Token", c.SessionToken)
		headers += "x-amz-security-token:" + c.SessionToken + "\n"
		signed += ";x-amz-security-token"
	}
	asked := strings.Join([]string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, headers, signed, emptyHash}, "\n")
	hash := sha256.Sum256([]byte(asked))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", stamp, scope, hex.EncodeToString(hash[:])}, "\n")
	key := []byte("AWS4" + c.SecretKey)
	for _, part := range []string{stamp[:8], c.Region, "s3", "aws4_request", text} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+c.AccessKey+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(key))
}

// looker is who looks: without a proxy, never led elsewhere, and trusting
// roots, where they are not nil, instead of this host's.
func looker(roots *x509.CertPool) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// rootsOf are those that the program trusts: nil are this host's.
func rootsOf(env []string) (roots *x509.CertPool, _ error) {
	for _, v := range env {
		name, ok := strings.CutPrefix(v, "AWS_CA_BUNDLE=")
		if !ok {
			continue
		}
		bundle, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(bundle) {
			return nil, errors.New("geesefs: no certificate in AWS_CA_BUNDLE")
		}
	}
	return roots, nil
}

// proxied reports whether the program's way to the storage leads through a proxy.
func proxied(env []string) bool {
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
			return true
		}
	}
	return false
}
