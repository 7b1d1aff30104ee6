package s3_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/internal/weedtest"
	"github.com/bunkroom/bunkroom/mount"
)

// mounts trap 24: the expiry in credentials is the store's, even where it grants
// less than was asked, and from then on it refuses them.
func TestCredentialsExpire(t *testing.T) {
	s := open(t)
	f := s.field(t)
	before := time.Now()
	got := sign(t, s.signer(t, s.ways(t)["AssumeRoleWithWebIdentity"], weedtest.Untimed{RoundTripper: http.DefaultTransport}), mount.Grant{Prefix: mount.Prefix(f.in)})
	// The answer is in whole seconds.
	if early, late := before.Add(weedtest.ShortTTL-time.Second), time.Now().Add(weedtest.ShortTTL); got.Expires.Before(early) || got.Expires.After(late) {
		t.Fatalf("it expires at %v, want it between %v and %v", got.Expires, early, late)
	}
	c := client(s.Endpoint, scoped(got))
	if err := get(t.Context(), c, bucketName, f.in+"x"); err != nil {
		t.Fatalf("before it expires: %v", err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); ; {
		err := get(t.Context(), c, bucketName, f.in+"x")
		if denied(err) {
			break
		}
		if err != nil {
			t.Fatalf("got %v", err)
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it never expires")
		}
	}
	if now := time.Now(); now.Before(got.Expires.Add(-time.Second)) {
		t.Errorf("refused at %v, and it says it is good until %v", now, got.Expires)
	}
	for what, err := range map[string]error{
		"to write": put(t.Context(), c, bucketName, f.in+"y"), "to delete": remove(t.Context(), c, bucketName, f.in+"x"),
	} {
		if !denied(err) {
			t.Errorf("%s after it has expired: %v", what, err)
		}
	}
}

// The real store grants what is asked, over the whole range (T-24).
func TestLivesAtTheStore(t *testing.T) {
	s := open(t)
	for name, way := range s.ways(t) {
		for _, ttl := range []time.Duration{s3.MinTTL, s3.MaxTTL} {
			before := time.Now().Truncate(time.Second)
			got := sign(t, s.signer(t, way, nil), mount.Grant{Prefix: newFolder(t), TTL: ttl})
			if got.Expires.Before(before.Add(ttl)) || got.Expires.After(time.Now().Add(ttl)) {
				t.Errorf("%s: asked for %v, got until %v", name, ttl, got.Expires)
			}
		}
	}
}

// What does not fit together opens nothing.
func TestTokensAtTheStore(t *testing.T) {
	s := open(t)
	f := s.field(t)
	signer := s.signer(t, s.ways(t)["AssumeRole"], nil)
	a := scoped(sign(t, signer, mount.Grant{Prefix: mount.Prefix(f.in)}))
	b := scoped(sign(t, signer, mount.Grant{Prefix: mount.Prefix(f.other)}))
	altered := func(at int) string {
		text := []byte(a.SessionToken)
		if text[at] = 'A'; a.SessionToken[at] == 'A' {
			text[at] = 'B'
		}
		return string(text)
	}
	if err := get(t.Context(), client(s.Endpoint, a), bucketName, f.in+"x"); err != nil {
		t.Fatalf("as it was minted: %v", err)
	}
	middle := strings.Index(a.SessionToken, ".") + 20 // in what the token says
	for what, k := range map[string]s3.Keys{
		"no token":                   {AccessKey: a.AccessKey, SecretKey: a.SecretKey},
		"a token altered within":     {AccessKey: a.AccessKey, SecretKey: a.SecretKey, SessionToken: altered(middle)},
		"a token altered at its end": {AccessKey: a.AccessKey, SecretKey: a.SecretKey, SessionToken: altered(len(a.SessionToken) - 10)},
		"a token cut off":            {AccessKey: a.AccessKey, SecretKey: a.SecretKey, SessionToken: a.SessionToken[:len(a.SessionToken)-4]},
		"another folder's token":     {AccessKey: a.AccessKey, SecretKey: a.SecretKey, SessionToken: b.SessionToken},
		"another folder's keys":      {AccessKey: b.AccessKey, SecretKey: b.SecretKey, SessionToken: a.SessionToken},
		"another secret":             {AccessKey: a.AccessKey, SecretKey: b.SecretKey, SessionToken: a.SessionToken},
		"no keys at all":             {AccessKey: "nobody", SecretKey: "nothing"},
	} {
		for _, key := range []string{f.in + "x", f.other + "x"} {
			if err := get(t.Context(), client(s.Endpoint, k), bucketName, key); err == nil {
				t.Errorf("%s opens %s", what, key)
			}
		}
	}
}

// The store mints for nobody it does not trust.
func TestMintsRefused(t *testing.T) {
	s := open(t)
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	k, err := signingKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	web := func(c s3.IssuerConfig) s3.Way {
		i, err := s3.NewIssuer(c)
		if err != nil {
			t.Fatal(err)
		}
		return s3.WebIdentity{Role: weedtest.Role, Issuer: i}
	}
	admin := func(context.Context) (s3.Keys, error) { return adminKeys(), nil }
	for what, way := range map[string]s3.Way{
		"a key nobody knows": web(s3.IssuerConfig{URL: s.Issuer, Subject: "s", Audience: weedtest.Audience,
			Key: func(context.Context) (s3.SigningKey, error) {
				return s3.SigningKey{ID: "other", Private: stranger}, nil
			}}),
		"a key under another's name": web(s3.IssuerConfig{URL: s.Issuer, Subject: "s", Audience: weedtest.Audience,
			Key: func(context.Context) (s3.SigningKey, error) { return s3.SigningKey{ID: k.ID, Private: stranger}, nil }}),
		"another audience": web(s3.IssuerConfig{URL: s.Issuer, Subject: "s", Audience: "others", Key: signingKey}),
		"another issuer":   web(s3.IssuerConfig{URL: "http://127.0.0.1:1", Subject: "s", Audience: weedtest.Audience, Key: signingKey}),
		"no token": s3.WebIdentity{Role: weedtest.Role, Token: func(context.Context) (string, error) {
			return "not.a.token", nil
		}},
		"another role": s3.AssumeRole{Role: weedtest.Role + "other", Keys: admin},
		"another secret": s3.AssumeRole{Role: weedtest.Role, Keys: func(context.Context) (s3.Keys, error) {
			return s3.Keys{AccessKey: weedtest.AccessKey, SecretKey: "wrong"}, nil
		}},
	} {
		got, err := s.signer(t, way, nil).Sign(t.Context(), mount.Grant{Prefix: newFolder(t)})
		if !errors.Is(err, mount.ErrUnavailable) || got != (mount.Credentials{}) {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
}

// A folder's credentials mint no others: not for another folder, by whatever way.
func TestCredentialsMintNothing(t *testing.T) {
	s := open(t)
	for name, way := range s.ways(t) {
		c := sign(t, s.signer(t, way, nil), mount.Grant{Prefix: newFolder(t)})
		own := func(context.Context) (s3.Keys, error) { return scoped(c), nil }
		for _, again := range []s3.Way{s3.AssumeRole{Role: weedtest.Role, Keys: own}, s3.FederationToken{Keys: own}} {
			if got, err := s.signer(t, again, nil).Sign(t.Context(), mount.Grant{Prefix: newFolder(t)}); !errors.Is(err, mount.ErrUnavailable) {
				t.Errorf("%s, then %T: %v, %v", name, again, got, err)
			}
		}
	}
}
