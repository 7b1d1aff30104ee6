package s3

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/url"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

const (
	// minKeyBits is the least that a key must have.
	minKeyBits = 2048
	// tokenMargin is by how much a token outlives the credentials asked for
	// with it: there are stores that cut these to what is left of the token.
	tokenMargin = time.Minute
)

var (
	errNoToken = errors.New("the web identity token is empty")
	errBadKey  = errors.New("the issuer's key is missing, has no ID or is shorter than 2048 bits")
)

// SigningKey is a private key of an issuer, and secret: in a log it shows its ID only.
type SigningKey struct {
	ID      string // tells the keys of one issuer apart; required
	Private *rsa.PrivateKey
}

// LogValue leaves the key out.
func (k SigningKey) LogValue() slog.Value { return slog.GroupValue(slog.String("id", k.ID)) }

// String leaves the key out.
func (k SigningKey) String() string { return "key " + k.ID }

// GoString leaves the key out.
func (k SigningKey) GoString() string { return "s3.SigningKey{" + k.ID + "}" }

// IssuerConfig is the configuration of an Issuer.
type IssuerConfig struct {
	// URL is the issuer's: http or https. The store looks for its public keys
	// at an address that is made of it, or as the store was told. Required.
	URL      string
	Subject  string // who the tokens are of; required
	Audience string // whom they are for, as the store knows it; required
	// Key is asked for each time, so that it may change. All replicas of a host
	// have the same, and the store knows its public part. At least 2048 bits. Required.
	Key func(context.Context) (SigningKey, error)
}

// Issuer makes web identity tokens: RS256 JSON Web Tokens, for stores that trust its key.
type Issuer struct{ c IssuerConfig }

// NewIssuer checks c. The error is a [*access.FieldError].
func NewIssuer(c IssuerConfig) (*Issuer, error) {
	bad := func(field, rule string) (*Issuer, error) { return nil, &access.FieldError{Field: field, Rule: rule} }
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return bad("URL", "must be an http or https URL with a host, and without a name or password")
	}
	for _, f := range []struct{ name, value string }{{"Subject", c.Subject}, {"Audience", c.Audience}} {
		if err := access.CheckID(f.name, f.value); err != nil {
			return nil, err
		}
	}
	if c.Key == nil {
		return bad("Key", "must not be nil")
	}
	return &Issuer{c}, nil
}

// token makes one that is good from now on for life.
func (i *Issuer) token(ctx context.Context, now time.Time, life time.Duration) (string, error) {
	k, err := i.c.Key(ctx)
	if err != nil {
		return "", err
	}
	if !k.usable() {
		return "", errBadKey
	}
	header, err := json.Marshal(map[string]string{"alg": "RS256", "typ": "JWT", "kid": k.ID})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"iss": i.c.URL, "sub": i.c.Subject, "aud": i.c.Audience, "iat": now.Unix(), "exp": now.Add(life).Unix(),
	})
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, k.Private, crypto.SHA256, sum[:])
	if err != nil {
		return "", err
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

func (k SigningKey) usable() bool {
	return k.ID != "" && k.Private != nil && k.Private.N != nil && k.Private.N.BitLen() >= minKeyBits
}

// PublicKeys returns the public parts of keys as a JSON Web Key Set, which an
// issuer serves to the stores that trust it. It lists the new key before
// tokens are made with it, and the old one until the last of its tokens has expired.
func PublicKeys(keys ...SigningKey) ([]byte, error) {
	set := struct {
		Keys []map[string]string `json:"keys"`
	}{Keys: []map[string]string{}}
	for n, k := range keys {
		if !k.usable() {
			return nil, &access.FieldError{Field: fmt.Sprintf("keys[%d]", n), Rule: "must have an ID and at least 2048 bits"}
		}
		number := func(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }
		set.Keys = append(set.Keys, map[string]string{
			"kty": "RSA", "use": "sig", "alg": "RS256", "kid": k.ID,
			"n": number(k.Private.N), "e": number(big.NewInt(int64(k.Private.E))),
		})
	}
	return json.Marshal(set)
}
