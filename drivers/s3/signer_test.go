package s3_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/mount"
)

const run = "0192f0c1-2ab4-7cde-8f01-00000000beef"

// Each way asks for exactly this, signed with the host's keys or not at all.
func TestRequests(t *testing.T) {
	both := url.Values{"Version": {"2011-06-15"}, "DurationSeconds": {"43200"}, "Policy": {golden}}
	for action, way := range ways() {
		m := newMint(t)
		expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		m.answer = func(w http.ResponseWriter, r request) { grant(w, r, minted(expires.Format(time.RFC3339))) }
		got, err := m.signer(t, way, nil).Sign(t.Context(), mount.Grant{Prefix: folder, Run: run})
		if err != nil {
			t.Fatalf("%s: %v", action, err)
		}
		want := mount.Credentials{
			Endpoint: m.URL, Region: "us-east-1", Bucket: bucketName, Prefix: folder,
			AccessKey: "ASIA1", SecretKey: "scoped", SessionToken: "token", Expires: expires,
		}
		if got != want { // T-24: the expiry is the one of the answer, not what was asked
			t.Errorf("%s: %s", action, cmp.Diff(want, got))
		}
		form := url.Values{"Action": {action}}
		for k, v := range both {
			form[k] = v
		}
		asked := m.all()
		if len(asked) != 1 {
			t.Fatalf("%s: asked %d times", action, len(asked))
		}
		switch action {
		case "GetFederationToken":
			form.Set("Name", asked[0].form.Get("Name"))
			if name := form.Get("Name"); !strings.HasPrefix(name, "0192f0c1-2ab4-7=") || len(name) != 32 {
				t.Errorf("the name of the session is %q", name)
			}
		default:
			form.Set("RoleArn", role)
			form.Set("RoleSessionName", run)
		}
		if action == "AssumeRoleWithWebIdentity" {
			form.Set("WebIdentityToken", "a.web.token")
			if h := asked[0].header.Get("Authorization"); h != "" {
				t.Errorf("a request without keys is signed: %s", h)
			}
		} else if err := asked[0].signed(secretKey, "sts"); err != nil {
			t.Errorf("%s: %v", action, err)
		}
		if diff := cmp.Diff(form, asked[0].form); diff != "" {
			t.Errorf("%s: %s", action, diff)
		}
	}
}

func TestLives(t *testing.T) {
	for _, c := range []struct {
		rule     string
		way      string
		ttl, set time.Duration
		want     string // seconds; empty = refused
	}{
		{"what was asked", "AssumeRole", time.Hour, 0, "3600"},
		{"what was configured", "AssumeRole", 0, 12 * time.Hour, "43200"},
		{"STS gives no less than a quarter of an hour", "AssumeRole", time.Second, 0, "900"},
		{"a part of a second is a whole one", "AssumeRoleWithWebIdentity", 15*time.Minute + time.Millisecond, 0, "901"},
		{"the most of a role", "AssumeRoleWithWebIdentity", 12 * time.Hour, 0, "43200"},
		{"more than the most of a role", "AssumeRole", 12*time.Hour + 1, 0, ""},
		{"the most of a federation token", "GetFederationToken", 36 * time.Hour, 0, "129600"},
		{"more than that", "GetFederationToken", 37 * time.Hour, 0, ""},
		{"less than nothing", "GetFederationToken", -1, 0, ""},
	} {
		m := newMint(t)
		s := m.signer(t, ways()[c.way], func(config *s3.Config) { config.TTL = c.set })
		_, err := s.Sign(t.Context(), mount.Grant{Prefix: folder, TTL: c.ttl})
		asked := m.all()
		if c.want == "" {
			if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "TTL" || len(asked) != 0 {
				t.Errorf("%s: %v, asked %d times", c.rule, err, len(asked))
			}
			continue
		}
		if err != nil || asked[0].form.Get("DurationSeconds") != c.want {
			t.Errorf("%s: %v, asked for %v", c.rule, err, asked)
		}
	}
}

// Nothing is asked for what can't be granted.
func TestGrantsRefused(t *testing.T) {
	for _, c := range []struct {
		rule, field string
		g           mount.Grant
	}{
		{"no prefix", "Prefix", mount.Grant{}},
		{"a prefix without its slash (T-27)", "Prefix", mount.Grant{Prefix: folder[:len(folder)-1]}},
		{"a prefix of more than one folder", "Prefix", mount.Grant{Prefix: "mounts/"}},
		{"an audience nobody knows", "Audience", mount.Grant{Prefix: folder, Audience: 9}},
	} {
		for action, way := range ways() {
			m := newMint(t)
			got, err := m.signer(t, way, nil).Sign(t.Context(), c.g)
			if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != c.field || got != (mount.Credentials{}) || len(m.all()) != 0 {
				t.Errorf("%s, %s: %v, asked %d times", action, c.rule, err, len(m.all()))
			}
		}
	}
}

func TestAudience(t *testing.T) {
	m := newMint(t)
	s := m.signer(t, ways()["AssumeRole"], func(c *s3.Config) {
		c.Endpoint, c.STSEndpoint, c.PublicEndpoint = "http://store:8333/", m.URL, "https://store.example.com"
	})
	for audience, want := range map[mount.Audience]string{mount.InNetwork: "http://store:8333", mount.Public: "https://store.example.com"} {
		got, err := s.Sign(t.Context(), mount.Grant{Prefix: folder, Audience: audience})
		if err != nil || got.Endpoint != want {
			t.Errorf("%d: %v, %v; want %s", audience, got, err, want)
		}
	}
	one := m.signer(t, ways()["AssumeRole"], nil)
	if got, err := one.Sign(t.Context(), mount.Grant{Prefix: folder, Audience: mount.Public}); err != nil || got.Endpoint != m.URL {
		t.Errorf("with one endpoint for all: %v, %v", got, err)
	}
}

// mounts trap 26, and whatever else an answer may lack.
func TestAnswersThatSayTooLittle(t *testing.T) {
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for rule, result := range map[string]string{
		"nothing":                     "",
		"no expiry (T-26)":            minted(""),
		"an empty expiry (T-26)":      strings.Replace(minted(soon), soon, "", 1),
		"an expiry that can't be one": minted("never"),
		"an expiry at the beginning":  minted("0001-01-01T00:00:00Z"),
		"an expiry that has passed":   minted(time.Now().Add(-time.Second).UTC().Format(time.RFC3339)),
		"no key":                      strings.Replace(minted(soon), "ASIA1", "", 1),
		"no secret":                   strings.Replace(minted(soon), "scoped", "", 1),
		"no token":                    strings.Replace(minted(soon), "<SessionToken>token</SessionToken>", "", 1),
		"an empty token":              strings.Replace(minted(soon), ">token<", "><", 1),
		"half of it":                  minted(soon)[:50],
	} {
		for action, way := range ways() {
			m := newMint(t)
			m.answer = func(w http.ResponseWriter, r request) { grant(w, r, result) }
			got, err := m.signer(t, way, nil).Sign(t.Context(), mount.Grant{Prefix: folder})
			if !errors.Is(err, mount.ErrUnavailable) || got != (mount.Credentials{}) {
				t.Errorf("%s, %s: %v, %v", action, rule, got, err)
			}
		}
	}
}

// A store that repeats what it was sent does not get it into an error.
func TestErrorsTellNoSecret(t *testing.T) {
	for action, way := range ways() {
		for _, echo := range []string{
			secretKey, url.QueryEscape(secretKey), accessKey, "a.web.token", "plainly",
		} {
			m := newMint(t)
			m.answer = func(w http.ResponseWriter, _ request) { refuse(w, 403, "AccessDenied", "no "+echo+" here") }
			_, err := m.signer(t, way, nil).Sign(t.Context(), mount.Grant{Prefix: folder})
			if !errors.Is(err, mount.ErrUnavailable) || !strings.Contains(err.Error(), "AccessDenied") {
				t.Errorf("%s: %v", action, err)
			}
			text := err.Error()
			if told := strings.Contains(text, echo); told != (echo == "plainly" || (echo == "a.web.token") != (action == "AssumeRoleWithWebIdentity")) {
				t.Errorf("%s: the error says %q", action, text)
			}
		}
	}
	var log strings.Builder
	k, _ := keys(t.Context())
	slog.New(slog.NewJSONHandler(&log, nil)).Info("started", "keys", k, "key", s3.SigningKey{ID: "id"})
	fmt.Fprintf(&log, "%v %+v %#v %s", k, k, k, k)
	if text := log.String(); strings.Contains(text, secretKey) || strings.Contains(text, accessKey) {
		t.Errorf("a log has the keys: %s", text)
	}
}

// mounts trap 50: a store that does not answer is waited for so long, and no longer.
func TestBounded(t *testing.T) {
	m := newMint(t)
	done := make(chan struct{})
	entered := make(chan struct{}, 16)
	m.answer = func(http.ResponseWriter, request) { entered <- struct{}{}; <-done }
	t.Cleanup(func() { close(done) }) // before the server is closed
	s := m.signer(t, ways()["AssumeRole"], func(c *s3.Config) { c.Timeout = 50 * time.Millisecond })
	_, err := s.Sign(t.Context(), mount.Grant{Prefix: folder})
	if !errors.Is(err, mount.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("in its own time: %v", err)
	}
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	_, err = m.signer(t, ways()["GetFederationToken"], nil).Sign(ctx, mount.Grant{Prefix: folder})
	if !errors.Is(err, context.Canceled) || errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("where the caller gives up: %v", err)
	}
	_, err = s.Sign(ctx, mount.Grant{Prefix: folder})
	if !errors.Is(err, context.Canceled) || errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("where the caller has given up before: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	m := newMint(t)
	m.Close()
	for action, way := range ways() {
		s := m.signer(t, way, func(c *s3.Config) { c.Timeout = 300 * time.Millisecond })
		if _, err := s.Sign(t.Context(), mount.Grant{Prefix: folder}); !errors.Is(err, mount.ErrUnavailable) {
			t.Errorf("%s: %v", action, err)
		}
	}
}

// Keys and tokens are asked for each time, and what they fail with is told.
func TestKeysRotate(t *testing.T) {
	m := newMint(t)
	n := 0
	away := errors.New("the vault is sealed")
	source := func(context.Context) (s3.Keys, error) {
		n++
		switch n {
		case 3:
			return s3.Keys{}, away
		case 4:
			return s3.Keys{AccessKey: accessKey}, nil
		}
		return s3.Keys{AccessKey: accessKey, SecretKey: fmt.Sprint("secret ", n)}, nil
	}
	s := m.signer(t, s3.AssumeRole{Role: role, Keys: source}, nil)
	for i := range 2 {
		if _, err := s.Sign(t.Context(), mount.Grant{Prefix: folder}); err != nil {
			t.Fatal(err)
		}
		if err := m.all()[i].signed(fmt.Sprint("secret ", i+1), "sts"); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Sign(t.Context(), mount.Grant{Prefix: folder}); !errors.Is(err, away) || !errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("keys that can't be had: %v", err)
	}
	if _, err := s.Sign(t.Context(), mount.Grant{Prefix: folder}); !errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("keys without a secret: %v", err)
	}
	for _, token := range []func(context.Context) (string, error){
		func(context.Context) (string, error) { return "", nil },
		func(context.Context) (string, error) { return "", away },
	} {
		if _, err := m.signer(t, s3.WebIdentity{Role: role, Token: token}, nil).Sign(t.Context(), mount.Grant{Prefix: folder}); !errors.Is(err, mount.ErrUnavailable) {
			t.Errorf("no token: %v", err)
		}
	}
	if asked := len(m.all()); asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}

// Many may sign at once, each for its own folder.
func TestSignAtOnce(t *testing.T) {
	m := newMint(t)
	s := m.signer(t, ways()["AssumeRole"], nil)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			prefix := mount.Prefix(fmt.Sprintf("mounts/p%d/%s/", i, id1))
			got, err := s.Sign(t.Context(), mount.Grant{Prefix: prefix, Run: string(prefix)})
			if err != nil || got.Prefix != prefix {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	all.Wait()
	names := map[string]string{}
	for _, r := range m.all() {
		names[r.form.Get("RoleSessionName")] = r.form.Get("Policy")
	}
	if len(names) != 16 {
		t.Errorf("%d sessions", len(names))
	}
}
