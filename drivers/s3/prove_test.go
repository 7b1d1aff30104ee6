package s3_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"

	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/mount"
)

// The real store confines what it mints, by either way, and nothing is left of the proof.
func TestProveAtTheStore(t *testing.T) {
	s := open(t)
	for name, way := range s.ways(t) {
		if err := s.signer(t, way, nil).Prove(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	l, err := s.admin.ListObjectsV2(t.Context(), &sdk.ListObjectsV2Input{Bucket: aws.String(bucketName), Prefix: aws.String("mounts/prove")})
	if err != nil || len(l.Contents) != 0 {
		t.Errorf("left behind: %v, %v", l.Contents, err)
	}
}

// The real store, where what it mints opens nothing: that is no proof.
func TestProveNothingOpens(t *testing.T) {
	s := open(t)
	way := s3.FederationToken{Keys: func(context.Context) (s3.Keys, error) { return adminKeys(), nil }}
	if err := s.signer(t, way, nil).Prove(t.Context()); !errors.Is(err, mount.ErrUnavailable) || errors.Is(err, s3.ErrUnconfined) {
		t.Errorf("got %v", err)
	}
}

// fakeStore mints, and does what allows says; a request is "list <prefix>", "write <key>" or "delete <key>".
func fakeStore(t *testing.T, allows func(did, policy string) int) (*s3.Signer, func() []string) {
	t.Helper()
	var done []string
	policy := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/" {
			if err := r.ParseForm(); err != nil {
				t.Error(err)
			}
			policy = r.Form.Get("Policy")
			grant(w, request{form: r.Form}, minted(time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
			return
		}
		did := map[string]string{http.MethodGet: "list", http.MethodPut: "write", http.MethodDelete: "delete"}[r.Method] + " "
		if r.Method == http.MethodGet {
			did += r.URL.Query().Get("prefix")
		} else {
			did += strings.TrimPrefix(r.URL.Path, "/"+bucketName+"/")
		}
		status := allows(did, policy)
		if status == http.StatusOK {
			done = append(done, did)
		}
		w.WriteHeader(status)
		if status == http.StatusOK && r.Method == http.MethodGet {
			_, _ = w.Write([]byte(`<ListBucketResult><Name>` + bucketName + `</Name></ListBucketResult>`))
		}
	}))
	t.Cleanup(server.Close)
	signer, err := s3.New(s3.Config{
		Bucket: bucketName, Endpoint: server.URL, RunDeadline: time.Hour,
		Way: s3.AssumeRole{Role: role, Keys: func(context.Context) (s3.Keys, error) {
			return s3.Keys{AccessKey: accessKey, SecretKey: secretKey}, nil
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return signer, func() []string { return done }
}

// follows is a store that keeps to the policy it was sent.
func follows(did, policy string) int {
	what, key, _ := strings.Cut(did, " ")
	_, in, _ := strings.Cut(policy, `"Resource":"arn:aws:s3:::`+bucketName+`/`)
	in, _, _ = strings.Cut(in, `*"`)
	if !strings.HasPrefix(key, in) || what != "list" && !strings.Contains(policy, "s3:PutObject") {
		return http.StatusForbidden
	}
	return http.StatusOK
}

// Stores that are not fit, in one way each, and what is said of them.
func TestProveFakes(t *testing.T) {
	sibling := func(key string) bool { return strings.Contains(key, "-sibling/") }
	for _, c := range []struct {
		rule   string
		allows func(did, policy string) int
		want   error // nil = it is fit
		says   string
	}{
		{"it keeps to the policy", follows, nil, ""},
		{"it ignores policies", func(string, string) int { return http.StatusOK }, s3.ErrUnconfined, "list another"},
		{"it compares prefixes without the slash", func(did, policy string) int {
			return follows(strings.Replace(did, "-sibling/", "/", 1), policy)
		}, s3.ErrUnconfined, "list another"},
		{"it lists the whole bucket", func(did, policy string) int {
			if did == "list " {
				return http.StatusOK
			}
			return follows(did, policy)
		}, s3.ErrUnconfined, "list the bucket"},
		{"it confines reads only", func(did, policy string) int {
			if sibling(did) && !strings.HasPrefix(did, "list") {
				return http.StatusOK
			}
			return follows(did, policy)
		}, s3.ErrUnconfined, "write to another"},
		{"it lets readers write", func(did, policy string) int {
			return follows(did, policy+"s3:PutObject")
		}, s3.ErrUnconfined, "for reading only"},
		{"its credentials open nothing", func(string, string) int { return http.StatusForbidden }, mount.ErrUnavailable, "can't list it"},
		{"there is no such bucket", func(string, string) int { return http.StatusNotFound }, mount.ErrUnavailable, "can't list it"},
		{"it is broken where it should refuse", func(did, policy string) int {
			if sibling(did) {
				return http.StatusInternalServerError
			}
			return follows(did, policy)
		}, mount.ErrUnavailable, "no refusal"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			signer, done := fakeStore(t, c.allows)
			err := signer.Prove(t.Context())
			if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.says)
			}
			if c.want == mount.ErrUnavailable && errors.Is(err, s3.ErrUnconfined) {
				t.Errorf("what was not found out is said to be so: %v", err)
			}
			written := map[string]bool{}
			for _, did := range done() {
				switch what, key, _ := strings.Cut(did, " "); what {
				case "write":
					written[key] = true
				case "delete":
					delete(written, key)
				}
			}
			if len(written) != 0 {
				t.Errorf("left behind: %v", written)
			}
		})
	}
}

// What a store repeats of the credentials is in no error.
func TestProveTellsNoSecret(t *testing.T) {
	secret := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if err := r.ParseForm(); err != nil {
				t.Error(err)
			}
			grant(w, request{form: r.Form}, minted(time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
			return
		}
		secret = r.Header.Get("X-Amz-Security-Token")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("<Error><Code>InvalidToken</Code><Message>bad token " + secret + "</Message></Error>"))
	}))
	defer server.Close()
	signer, err := s3.New(s3.Config{
		Bucket: bucketName, Endpoint: server.URL, RunDeadline: time.Hour,
		Way: s3.AssumeRole{Role: role, Keys: func(context.Context) (s3.Keys, error) { return adminKeys(), nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = signer.Prove(t.Context())
	if !errors.Is(err, mount.ErrUnavailable) || secret == "" || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "InvalidToken") {
		t.Errorf("the token %q, and: %v", secret, err)
	}
}

// Prove ends with its context, and by itself at a store that does not answer.
func TestProveIsBounded(t *testing.T) {
	signer, _ := fakeStore(t, follows)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := signer.Prove(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	release := make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hung.Close()
	defer close(release)
	signer, err := s3.New(s3.Config{
		Bucket: bucketName, Endpoint: hung.URL, RunDeadline: time.Hour, Timeout: 50 * time.Millisecond,
		Way: s3.AssumeRole{Role: role, Keys: func(context.Context) (s3.Keys, error) { return adminKeys(), nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := signer.Prove(t.Context()); !errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// A name that the store would take for another is refused before it is sent,
// by an error that has the key.
func TestNameError(t *testing.T) {
	b := openBucket(t, s3.BucketConfig{
		Bucket: bucketName, Endpoint: "http://127.0.0.1:1", PathStyle: true,
		Keys: func(context.Context) (s3.Keys, error) { return adminKeys(), nil },
	})
	const key = `mounts/a\b`
	for what, err := range map[string]error{
		"written":        b.WriteAll(t.Context(), key, []byte("x"), nil),
		"copied to":      b.Copy(t.Context(), key, "x", nil),
		"a large upload": b.WriteAll(t.Context(), key, make([]byte, 11<<20), &blob.WriterOptions{BufferSize: 5 << 20}),
	} {
		refused, ok := errors.AsType[*s3.NameError](err)
		if !ok || refused.Key != key || !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
