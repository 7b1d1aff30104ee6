package s3_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/mount"
)

// Sign against what it can't do without, in the same run: the signature of a
// token, and a request to a mint in this process with its answer read.
func BenchmarkSign_beside_a_signature_and_a_request(b *testing.B) {
	m := newMint(b)
	answer := []byte(minted(time.Now().Add(12 * time.Hour).UTC().Format(time.RFC3339)))
	m.answer = func(w http.ResponseWriter, r request) { grant(w, r, string(answer)) }
	m.quiet = true
	s := m.signer(b, s3.WebIdentity{Role: role, Issuer: issuer(b, "https://app.example.com", signingKey)}, nil)
	k, err := signingKey(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var ours, bare time.Duration
	b.ReportAllocs()
	for b.Loop() {
		from := time.Now()
		if _, err := s.Sign(b.Context(), mount.Grant{Prefix: folder, Run: run}); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		if err := primitive(m.URL, k.Private); err != nil {
			b.Fatal(err)
		}
		ours, bare = ours+middle.Sub(from), bare+time.Since(middle)
	}
	b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N), "ours-ns/op")
	b.ReportMetric(float64(ours)/float64(bare), "ratio")
}

// primitive does by hand what no mint can do without.
func primitive(at string, key *rsa.PrivateKey) error {
	text := []byte("eyJhbGciOiJSUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://app.example.com"}`)))
	sum := sha256.Sum256(text)
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return err
	}
	token := string(text) + "." + base64.RawURLEncoding.EncodeToString(signature)
	form := url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"}, "RoleArn": {role}, "RoleSessionName": {run},
		"DurationSeconds": {"43200"}, "Policy": {golden}, "WebIdentityToken": {token},
	}
	answer, err := http.DefaultClient.Post(at, "application/x-www-form-urlencoded", bytes.NewReader([]byte(form.Encode())))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	var got struct {
		Result struct {
			Credentials struct {
				AccessKeyId, SecretAccessKey, SessionToken string
				Expiration                                 time.Time
			}
		} `xml:"AssumeRoleWithWebIdentityResult"`
	}
	return xml.Unmarshal(body, &got)
}
