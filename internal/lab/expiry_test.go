//go:build linux

package lab

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/bunkroom/bunkroom/drivers/geesefs"
	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/internal/weedtest"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/mounttest"
)

// expiries is over how many the writes go on.
const expiries = 3

// pause is between two writes of one writer: half an hour of them on a machine
// with other things to do.
const pause = 20 * time.Millisecond

// recorder notes what is minted.
type recorder struct {
	mount.Signer
	mu  sync.Mutex
	all []mount.Credentials
}

func (r *recorder) Sign(ctx context.Context, g mount.Grant) (mount.Credentials, error) {
	c, err := r.Signer.Sign(ctx, g)
	if err == nil {
		r.mu.Lock()
		r.all = append(r.all, c)
		r.mu.Unlock()
	}
	return c, err
}

func (r *recorder) minted() []mount.Credentials {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]mount.Credentials(nil), r.all...)
}

// tally is what writers have done.
type tally struct {
	mu      sync.Mutex
	calls   int
	longest time.Duration
	failed  []error
}

func (y *tally) add(took time.Duration, err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.calls++
	y.longest = max(y.longest, took)
	if err != nil {
		y.failed = append(y.failed, err)
	}
}

// Case 37 with a real STS: three expiries of the credentials of a mounted
// folder under constant writes. No call fails, no request is refused, and
// afterwards the server refuses each of the credentials that have expired.
func TestCredentialsExpireUnderWrites(t *testing.T) {
	need.Long(t, "credentials have to expire")
	at := open(t)
	path, real := program(t)
	f := newFront(t, at.Endpoint)
	mint, err := shortSigner(at, f.url)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{Signer: mint}
	serve, err := geesefs.New(geesefs.Config{Signer: r, Dir: t.TempDir(), Program: path, TTL: *life})
	if err != nil {
		t.Fatal(err)
	}
	h, err := mount.NewHost(t.Context(), mount.HostConfig{Server: serve, Root: mounttest.HostRoot(t)})
	if err != nil {
		t.Fatal(errors.Join(err, serve.Close()))
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := errors.Join(h.Close(ctx), serve.Close()); err != nil {
			t.Error(err)
		}
	})
	m, err := h.Mount(t.Context(), spec(mount.ID(id.New())))
	if err != nil {
		t.Fatal(err)
	}

	began := time.Now()
	done := make(chan struct{})
	stop := sync.OnceFunc(func() { close(done) })
	defer stop()
	var writers sync.WaitGroup
	var y tally
	for w := range 2 {
		writers.Go(func() {
			dir := filepath.Join(m.HostDir(), strconv.Itoa(w))
			y.add(0, os.Mkdir(dir, 0o700))
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for n := 0; ; n++ {
				begun := time.Now()
				name, text := filepath.Join(dir, strconv.Itoa(n%20)), strconv.Itoa(n)
				err := put(name, text)
				if err == nil {
					err = holds(name, text)
				}
				y.add(time.Since(begun), err)
				select {
				case <-done:
					return
				case <-tick.C:
				}
			}
		})
	}
	// An expiry counts once the clock has passed it, and the next credentials are in use.
	over := func() bool {
		all := r.minted()
		if len(all) <= expiries || !time.Now().After(all[expiries-1].Expires.Add(time.Second)) {
			return false
		}
		keys, _, _ := f.counts(weedtest.AccessKey)
		return keys > expiries
	}
	limit := time.After(2*time.Minute + 4**life)
	for tick := time.NewTicker(100 * time.Millisecond); !over(); {
		select {
		case <-tick.C:
		case <-limit:
			keys, _, refused := f.counts(weedtest.AccessKey)
			t.Fatalf("%d credentials were minted, %d keys used; refused: %q", len(r.minted()), keys, refused)
		}
	}
	stop()
	writers.Wait()
	took := time.Since(began)

	for _, err := range y.failed {
		t.Errorf("a call failed: %v", err)
	}
	keys, requests, refused := f.counts(weedtest.AccessKey)
	if len(refused) != 0 {
		t.Errorf("refused: %q", refused)
	}
	all := r.minted()
	for n, c := range all[:expiries] {
		_, err := client(at.Endpoint, s3.Keys{AccessKey: c.AccessKey, SecretKey: c.SecretKey, SessionToken: c.SessionToken}).
			ListObjectsV2(t.Context(), &sdk.ListObjectsV2Input{Bucket: aws.String(bucket), Prefix: aws.String(string(c.Prefix))})
		if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); !ok || answer.HTTPStatusCode() != http.StatusForbidden {
			t.Errorf("credentials %d, which have expired: %v", n+1, err)
		}
	}
	t.Logf("%s: %v, credentials of %v, %d expiries: %d writes read back, %d failed, the longest took %v; %d keys, %d requests of the folder's, %d refused",
		kind(real), took.Round(time.Second), cmp.Or(*life, seconds), expiries, y.calls-2, len(y.failed), y.longest.Round(time.Millisecond),
		keys, requests, len(refused))
}
