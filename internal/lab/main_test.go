//go:build linux

package lab

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/internal/weedtest"
	"github.com/bunkroom/bunkroom/mount"
)

// life is how long credentials live that a host asks for.
var life = flag.Duration("life", 0, "how long credentials live, from 15m; 0 = for seconds")

// seconds is how long they live where no time is asked.
const seconds = 5 * time.Second

const bucket = "folders"

var (
	server = weedtest.Server{TTL: seconds, PublicKeys: publicKeys}
	made   sync.Once
)

func TestMain(m *testing.M) {
	if os.Getenv(hostVar) != "" {
		os.Exit(host())
	}
	flag.Parse()
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// open starts the server if need be, with a bucket.
func open(t *testing.T) weedtest.Access {
	t.Helper()
	at := server.Start(t)
	made.Do(func() {
		if _, err := client(at.Endpoint, owner()).CreateBucket(t.Context(), &sdk.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
			t.Fatal(err)
		}
	})
	return at
}

func owner() s3.Keys {
	return s3.Keys{AccessKey: weedtest.AccessKey, SecretKey: weedtest.SecretKey}
}

// client is a plain one, past everything that is tested here.
func client(endpoint string, k s3.Keys) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: weedtest.Region, BaseEndpoint: &endpoint, UsePathStyle: true, Retryer: aws.NopRetryer{},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: k.AccessKey, SecretAccessKey: k.SecretKey, SessionToken: k.SessionToken}, nil
		}),
	})
}

// signingKey is what the server trusts the tokens of.
var signingKey = sync.OnceValues(func() (s3.SigningKey, error) {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	return s3.SigningKey{ID: "lab", Private: k}, err
})

func publicKeys() ([]byte, error) {
	k, err := signingKey()
	if err != nil {
		return nil, err
	}
	return s3.PublicKeys(k)
}

// shortSigner mints credentials that live for *life, found at an endpoint. It
// shows a token: requests that are signed can't be made to ask for no time.
func shortSigner(at weedtest.Access, endpoint string) (*s3.Signer, error) {
	issuer, err := s3.NewIssuer(s3.IssuerConfig{
		URL: at.Issuer, Subject: "lab", Audience: weedtest.Audience,
		Key: func(context.Context) (s3.SigningKey, error) { return signingKey() },
	})
	if err != nil {
		return nil, err
	}
	c := s3.Config{
		Bucket: bucket, Endpoint: endpoint, RunDeadline: time.Minute, TTL: *life,
		Way: s3.WebIdentity{Role: weedtest.Role, Issuer: issuer},
	}
	if *life == 0 {
		c.Client = &http.Client{Transport: weedtest.Untimed{RoundTripper: http.DefaultTransport}}
	}
	return s3.New(c)
}

// keysSigner mints as a host does that has keys.
func keysSigner(endpoint string) (*s3.Signer, error) {
	return s3.New(s3.Config{
		Bucket: bucket, Endpoint: endpoint, RunDeadline: time.Hour,
		Way: s3.AssumeRole{Role: weedtest.Role, Keys: func(context.Context) (s3.Keys, error) { return owner(), nil }},
	})
}

// spec is a folder of its own for each id.
func spec(id mount.ID) mount.Spec {
	return mount.Spec{Row: mount.Row{ID: id, Scope: "project:web"}, Run: "run-7"}
}

// program is geesefs, or what stands in for it; see there.
func program(t *testing.T) (path string, real bool) {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		need.Missing(t, need.FUSE, err.Error())
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		need.Missing(t, need.FUSE, "no fusermount3 on PATH")
	}
	if path, err := exec.LookPath("geesefs"); err == nil {
		return path, true
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", dir, "./geesefs")
	build.Dir = "../tools/geesefs"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	return filepath.Join(dir, "geesefs"), false
}

// put writes a file and has it in the storage: only fsync says whether it is.
func put(name, text string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(text); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// holds says what is wrong with what a file holds.
func holds(name, want string) error {
	got, err := os.ReadFile(name)
	if err == nil && string(got) != want {
		err = fmt.Errorf("%s holds %.40q, want %.40q", filepath.Base(name), got, want)
	}
	return err
}

// kind says what mounted, in a log.
func kind(real bool) string {
	if real {
		return "geesefs"
	}
	return "the stand-in for geesefs"
}
