package s3_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/mount"
)

// aKey is one key for all tests: to make one takes long.
var aKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func signingKey(context.Context) (s3.SigningKey, error) {
	k, err := aKey()
	return s3.SigningKey{ID: "first", Private: k}, err
}

func issuer(t testing.TB, url string, key func(context.Context) (s3.SigningKey, error)) *s3.Issuer {
	t.Helper()
	i, err := s3.NewIssuer(s3.IssuerConfig{URL: url, Subject: "bunkroom", Audience: "weedtest", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// read takes a token apart and checks its signature with a key set, by hand.
func read(t *testing.T, token string, set []byte) (header, claims map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%d parts: %s", len(parts), token)
	}
	decode := func(text string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for part, into := range map[string]*map[string]any{parts[0]: &header, parts[1]: &claims} {
		if err := json.Unmarshal(decode(part), into); err != nil {
			t.Fatal(err)
		}
	}
	var keys struct{ Keys []map[string]string }
	if err := json.Unmarshal(set, &keys); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys.Keys {
		if k["kid"] != header["kid"] {
			continue
		}
		public := &rsa.PublicKey{N: new(big.Int).SetBytes(decode(k["n"])), E: int(new(big.Int).SetBytes(decode(k["e"])).Int64())}
		sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
		if err := rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], decode(parts[2])); err != nil || k["kty"] != "RSA" || k["alg"] != "RS256" {
			t.Errorf("%v: %v", k, err)
		}
		return header, claims
	}
	t.Fatalf("no key %v in %s", header["kid"], set)
	return nil, nil
}

// mounts trap 24: a token outlives the credentials that are asked for with it.
func TestTokensCoverTheDuration(t *testing.T) {
	m := newMint(t)
	now := time.Now()
	s := m.signer(t, s3.WebIdentity{Role: role, Issuer: issuer(t, "https://app.example.com", signingKey)}, func(c *s3.Config) {
		c.Now = func() time.Time { return now }
	})
	k, err := signingKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set, err := s3.PublicKeys(k)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(set), base64.RawURLEncoding.EncodeToString(k.Private.D.Bytes())) {
		t.Error("the private key is in the set")
	}
	for i, ttl := range []time.Duration{0, time.Second, time.Hour, 12 * time.Hour} {
		if _, err := s.Sign(t.Context(), mount.Grant{Prefix: folder, TTL: ttl}); err != nil {
			t.Fatal(err)
		}
		life := max(ttl, s3.MinTTL)
		if ttl == 0 {
			life = 12 * time.Hour
		}
		header, claims := read(t, m.all()[i].form.Get("WebIdentityToken"), set)
		if diff := cmp.Diff(map[string]any{"alg": "RS256", "typ": "JWT", "kid": "first"}, header); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string]any{
			"iss": "https://app.example.com", "sub": "bunkroom", "aud": "weedtest",
			"iat": float64(now.Unix()), "exp": float64(now.Add(life + time.Minute).Unix()),
		}, claims); diff != "" {
			t.Error(diff)
		}
	}
}

// A key may change between two tokens; a set with both is good for either.
func TestSigningKeysRotate(t *testing.T) {
	second, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	first, err := signingKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	both := []s3.SigningKey{first, {ID: "second", Private: second}}
	n := -1
	m := newMint(t)
	s := m.signer(t, s3.WebIdentity{Role: role, Issuer: issuer(t, "https://app.example.com", func(context.Context) (s3.SigningKey, error) {
		n++
		return both[n], nil
	})}, nil)
	set, err := s3.PublicKeys(both...)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"first", "second"} {
		if _, err := s.Sign(t.Context(), mount.Grant{Prefix: folder}); err != nil {
			t.Fatal(err)
		}
		if header, _ := read(t, m.all()[i].form.Get("WebIdentityToken"), set); header["kid"] != want {
			t.Errorf("token %d is of the key %v", i, header["kid"])
		}
	}
}

func TestIssuersRefuse(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule, field string
		change      func(*s3.IssuerConfig)
	}{
		{"no URL", "URL", func(c *s3.IssuerConfig) { c.URL = "" }},
		{"another scheme", "URL", func(c *s3.IssuerConfig) { c.URL = "ftp://app" }},
		{"a URL with a password", "URL", func(c *s3.IssuerConfig) { c.URL = "https://ann:hush@app" }},
		{"no subject", "Subject", func(c *s3.IssuerConfig) { c.Subject = "" }},
		{"no audience", "Audience", func(c *s3.IssuerConfig) { c.Audience = "" }},
		{"no key", "Key", func(c *s3.IssuerConfig) { c.Key = nil }},
	} {
		config := s3.IssuerConfig{URL: "https://app", Subject: "s", Audience: "a", Key: signingKey}
		c.change(&config)
		i, err := s3.NewIssuer(config)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || i != nil || e.Field != c.field || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
	good, err := signingKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for rule, k := range map[string]s3.SigningKey{
		"a short key": {ID: "x", Private: small}, "a key without an ID": {Private: good.Private}, "no key": {ID: "x"},
	} {
		if _, err := s3.PublicKeys(good, k); !isField(err, "keys[1]") {
			t.Errorf("%s in a set: %v", rule, err)
		}
		m := newMint(t)
		s := m.signer(t, s3.WebIdentity{Role: role, Issuer: issuer(t, "https://app", func(context.Context) (s3.SigningKey, error) { return k, nil })}, nil)
		if _, err := s.Sign(t.Context(), mount.Grant{Prefix: folder}); !errors.Is(err, mount.ErrUnavailable) || len(m.all()) != 0 {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

// isField reports whether an error names a field.
func isField(err error, field string) bool {
	e, ok := errors.AsType[*access.FieldError](err)
	return ok && e.Field == field
}
