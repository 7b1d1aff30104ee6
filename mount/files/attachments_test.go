package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gocloud.dev/blob/memblob"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// clock is a time that tests move.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(1_700_000_000, c.ns.Load()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

func attachments(t testing.TB, c Config, l AttachmentLimits) (*Attachments, *clock) {
	t.Helper()
	var k clock
	c.Now = k.now
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Attachments(attachmentsRow(), l)
	if err != nil {
		t.Fatal(err)
	}
	return s, &k
}

func add(t testing.TB, s *Attachments, name, text string) Attachment {
	t.Helper()
	a, err := s.Add(t.Context(), NewAttachment{Name: name, Size: int64(len(text))}, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func names(t testing.TB, s *Attachments) []string {
	t.Helper()
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range all {
		out = append(out, a.Name)
	}
	return out
}

func TestAttachmentsComeAndStay(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		s, k := attachments(t, c, AttachmentLimits{})
		a, b := add(t, s, "a (1).png", "pixels"), add(t, s, "b.txt", "")
		sum := sha256.Sum256([]byte("pixels"))
		if a.SHA256 != hex.EncodeToString(sum[:]) || a.ContentType != "image/png" || a.State != AttachmentReady || a.ID == b.ID {
			t.Errorf("%+v", a)
		}
		if err := s.Reference(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		k.advance(25 * time.Hour)
		same(t, "a day later", names(t, s), []string{"a (1).png"})
		got, content, err := s.Open(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(content)
		if err = errors.Join(err, content.Close()); err != nil || string(text) != "pixels" || got.ID != a.ID {
			t.Errorf("%+v: %q, %v", got, text, err)
		}
		for _, id := range []string{b.ID, "none"} {
			if _, _, err := s.Open(t.Context(), id); !errors.Is(err, ErrNotFound) {
				t.Errorf("Open(%s) = %v", id, err)
			}
			if err := s.Reference(t.Context(), a.ID, id); !errors.Is(err, ErrNotFound) {
				t.Errorf("Reference(%s) = %v", id, err)
			}
		}
		if swept, err := s.Sweep(t.Context()); err != nil || swept != (Swept{Expired: 1}) {
			t.Errorf("%+v, %v", swept, err)
		}
		same(t, "stored", keysOf(t, s.d), []string{manifestName, a.path()})
		if err := s.Remove(t.Context(), a.ID); err != nil {
			t.Fatal(err)
		}
		same(t, "stored at last", keysOf(t, s.d), []string{manifestName})
		if err := s.Remove(t.Context(), a.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("removed twice: %v", err)
		}
	})
}

// What is refused is refused before the body is read.
func TestAttachmentsAreRefusedUnread(t *testing.T) {
	s, _ := attachments(t, Config{Bucket: memblob.OpenBucket(nil), SoleWriter: true}, AttachmentLimits{Files: 3, Bytes: 12 << 20})
	add(t, s, "one", "1")
	if _, err := s.Add(t.Context(), NewAttachment{Name: "two", Size: 1, IdempotencyKey: "k"}, strings.NewReader("2")); err != nil {
		t.Fatal(err)
	}
	try := func(rule string, n NewAttachment, ok func(error) bool) {
		t.Helper()
		if _, err := s.Add(t.Context(), n, unread{t}); !ok(err) {
			t.Errorf("%s: %v", rule, err)
		}
	}
	const mb = 1 << 20
	try("no length", NewAttachment{Name: "a", Size: -1}, func(err error) bool { return errors.Is(err, ErrLengthRequired) })
	try("an image over 10 MiB", NewAttachment{Name: "a.png", Size: 10*mb + 1}, is[*TooLargeError])
	try("a sound over 15 MiB", NewAttachment{Name: "a.mp3", Size: 15*mb + 1}, is[*TooLargeError])
	try("a document over 10 MiB", NewAttachment{Name: "a.pdf", Size: 10*mb + 1}, is[*TooLargeError])
	try("anything else over 10 MiB", NewAttachment{Name: "a.bin", Size: 10*mb + 1}, is[*TooLargeError])
	try("more bytes than a session may have", NewAttachment{Name: "a.mp3", Size: 12 * mb}, is[*QuotaError])
	try("a name that is a path", NewAttachment{Name: "a/b"}, is[*PathError])
	try("a name that leads out", NewAttachment{Name: ".."}, is[*PathError])
	try("a long name", NewAttachment{Name: strings.Repeat("a", 201)}, is[*PathError])
	try("a long key", NewAttachment{Name: "a", IdempotencyKey: strings.Repeat("k", 256)}, is[*access.FieldError])
	try("a key that stands for another", NewAttachment{Name: "other", Size: 1, IdempotencyKey: "k"}, func(err error) bool { return errors.Is(err, ErrKeyReused) })
	try("a key that was used for the same", NewAttachment{Name: "two", Size: 1, IdempotencyKey: "k"}, func(err error) bool { return err == nil })
	add(t, s, "three", "3")
	try("more files than a session may have", NewAttachment{Name: "four"}, is[*QuotaError])
	same(t, "here", names(t, s), []string{"one", "two", "three"})

	bare, _ := attachments(t, Config{Bucket: memblob.OpenBucket(nil)}, AttachmentLimits{})
	if _, err := bare.Add(t.Context(), NewAttachment{Name: "a"}, unread{t}); !is[*UnsupportedError](err) {
		t.Errorf("on a bucket without conditions: %v", err)
	}
}

func TestAnUploadInFlight(t *testing.T) {
	s, k := attachments(t, Config{Bucket: newStore().bucket(), Precondition: ifMatch}, AttachmentLimits{Pending: 1})
	n := NewAttachment{Name: "a", Size: 4, IdempotencyKey: "k"}
	body := &meddler{Reader: strings.NewReader("mine"), do: func() {
		k.advance(time.Minute)
		_, err := s.Add(t.Context(), n, unread{t})
		if e, ok := errors.AsType[*InFlightError](err); !ok || e.RetryAfter != 14*time.Minute {
			t.Errorf("the same again: %v", err)
		}
		_, err = s.Add(t.Context(), NewAttachment{Name: "b"}, unread{t})
		if e, ok := errors.AsType[*QuotaError](err); !ok || e.What != "pending" {
			t.Errorf("more at once than allowed: %v", err)
		}
		same(t, "here", names(t, s), nil)
	}}
	a, err := s.Add(t.Context(), n, body)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Add(t.Context(), n, unread{t})
	if err != nil || again.ID != a.ID {
		t.Errorf("the same afterwards: %+v, %v", again, err)
	}
}

// An upload that fails leaves nothing, and can be tried again at once.
func TestAnUploadThatFailsLeavesNothing(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		s, k := attachments(t, c, AttachmentLimits{})
		n := NewAttachment{Name: "a", Size: 4, IdempotencyKey: "k"}
		ctx, cancel := context.WithCancel(t.Context())
		for _, u := range []struct {
			rule string
			ctx  context.Context
			body io.Reader
			ok   func(error) bool
		}{
			{"the body breaks", t.Context(), breaks("x", errBroke), func(err error) bool { return errors.Is(err, errBroke) }},
			{"it is too short", t.Context(), strings.NewReader("abc"), func(err error) bool { return errors.Is(err, ErrIncomplete) }},
			{"it is too long", t.Context(), strings.NewReader("abcde"), func(err error) bool { return errors.Is(err, ErrIncomplete) }},
			{"the client goes", ctx, &meddler{Reader: zeros{}, do: cancel}, func(err error) bool { return errors.Is(err, context.Canceled) || errors.Is(err, ErrIncomplete) }},
			{"it takes too long", t.Context(), &meddler{Reader: strings.NewReader("mine"), do: func() { k.advance(15 * time.Minute) }}, func(err error) bool { return errors.Is(err, ErrExpired) }},
			{"it takes too long, and is swept meanwhile", t.Context(), &meddler{Reader: strings.NewReader("mine"), do: func() {
				k.advance(15 * time.Minute)
				if swept, err := s.Sweep(t.Context()); err != nil || swept.Expired != 1 {
					t.Errorf("%+v, %v", swept, err)
				}
			}}, func(err error) bool { // a tree of files loses what is half written too
				return errors.Is(err, ErrExpired) || errors.Is(err, mount.ErrUnavailable)
			}},
		} {
			if _, err := s.Add(u.ctx, n, u.body); !u.ok(err) {
				t.Errorf("%s: %v", u.rule, err)
			}
			same(t, u.rule, keysOf(t, s.d), []string{manifestName})
		}
		if _, err := s.Add(t.Context(), n, strings.NewReader("mine")); err != nil {
			t.Errorf("again: %v", err)
		}
	})
}

// Whatever a process leaves when it dies, a sweep removes, and nothing else.
func TestSweepInBatches(t *testing.T) {
	s := newStore()
	a, k := attachments(t, Config{Bucket: s.bucket(), Precondition: ifMatch}, AttachmentLimits{})
	for i := range sweepBatch + 30 {
		add(t, a, fmt.Sprint("old", i), "x")
	}
	k.advance(24 * time.Hour)
	fresh := add(t, a, "fresh", "x")
	raw(t, a.d, "0192f0c1-0000-7000-8000-000000000000/orphan", "x")
	manifests := 0
	s.fail = func(op, key string) error {
		if op == "commit" && strings.HasSuffix(key, manifestName) {
			manifests++
		}
		return nil
	}
	swept, err := a.Sweep(t.Context())
	if err != nil || swept != (Swept{Expired: sweepBatch + 30, Orphans: 1}) {
		t.Errorf("%+v, %v", swept, err)
	}
	if manifests != 4 {
		t.Errorf("the manifest was written %d times, want twice for each of two batches", manifests)
	}
	same(t, "left", keysOf(t, a.d), []string{manifestName, fresh.path()})

	// A sweep that dies between saying and doing is finished by the next.
	k.advance(24 * time.Hour)
	s.fail = func(op, key string) error {
		if op == "delete" {
			return errBroke
		}
		return nil
	}
	if _, err := a.Sweep(t.Context()); err == nil {
		t.Error("a sweep that could delete nothing succeeded")
	}
	s.fail = nil
	same(t, "here, once it is to go", names(t, a), nil)
	if swept, err := a.Sweep(t.Context()); err != nil || swept.Expired != 1 {
		t.Errorf("%+v, %v", swept, err)
	}
}

// Quotas hold whoever uploads at once, from however many processes.
func TestQuotasHoldForMany(t *testing.T) {
	b := newStore().bucket()
	var wg sync.WaitGroup
	var added atomic.Int64
	for range 4 {
		s, _ := attachments(t, Config{Bucket: b, Precondition: ifMatch}, AttachmentLimits{Files: 10})
		for range 5 {
			wg.Go(func() {
				_, err := s.Add(t.Context(), NewAttachment{Name: "a", Size: 1}, strings.NewReader("x"))
				if err == nil {
					added.Add(1)
				} else if !is[*QuotaError](err) {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if added.Load() != 10 {
		t.Errorf("%d were added, the limit is 10", added.Load())
	}
}

// No sequence of commands exceeds a quota, or loses what is referenced.
func TestManifestProperties(t *testing.T) {
	l := AttachmentLimits{Files: 5, Bytes: 20, Pending: 3, PendingTTL: time.Minute, UnreferencedTTL: time.Hour}.withDefaults()
	rapid.Check(t, func(t *rapid.T) {
		var m manifest
		now, next := at(0), 0
		kept := map[string]bool{}
		id := func() string { return fmt.Sprint(rapid.IntRange(0, next).Draw(t, "id")) }
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			before := len(m.Items)
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				a := Attachment{ID: fmt.Sprint(next), Name: "n", Size: rapid.Int64Range(0, 9).Draw(t, "size"), IdempotencyKey: rapid.SampledFrom([]string{"", "", "k"}).Draw(t, "key")}
				after, done, err := m.reserve(a, l, now)
				if (err != nil || done != nil) && len(after.Items) != before {
					t.Fatalf("refused and added: %v", err)
				}
				m = after
				next++
			case 2:
				m, _, _ = m.complete(id(), "sum", l, now)
			case 3:
				one := id()
				after, err := m.reference([]string{one}, l, now)
				if err == nil {
					m, kept[one] = after, true
				}
			case 4:
				var doomed []Attachment
				m, doomed = m.doom(2, l, now)
				for _, a := range doomed {
					m = m.drop(a.ID)
				}
			case 5:
				now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "seconds")) * time.Second)
			}
			files, pending, bytes := 0, 0, int64(0)
			for _, a := range m.Items {
				if l.live(a, now) {
					files++
					bytes += a.Size
				}
				if l.live(a, now) && a.State == AttachmentPending {
					pending++
				}
			}
			if files > l.Files || pending > l.Pending || bytes > l.Bytes {
				t.Fatalf("%d files, %d pending, %d bytes", files, pending, bytes)
			}
			for one := range kept {
				if i := m.find(one); i < 0 || !l.live(m.Items[i], now) {
					t.Fatalf("%s is referenced and gone", one)
				}
			}
		}
	})
}
