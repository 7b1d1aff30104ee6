package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

const (
	// manifestName is the object that says which attachments there are. Every
	// change of it depends on the etag that was read, so that quotas hold
	// whoever else uploads.
	manifestName = internalPrefix + "attachments.json"
	// maxManifest is how long it may be, in bytes.
	maxManifest = 8 << 20
	// maxTries is how often a change is tried against others.
	maxTries = 32
	// sweepBatch is how many attachments are removed between two changes of the manifest.
	sweepBatch = 100
)

// Attachments are the files sent along with the messages of one session, in a
// mount of their own, each at <attachment id>/<name>. The bucket must be able to
// keep conditions (see Files.Probe), else everything that changes them is an
// [*UnsupportedError].
type Attachments struct {
	d      *Folder
	limits AttachmentLimits
}

// Attachments opens a session's attachments: row is its mount of the purpose
// mount.PurposeAttachments. Access was decided before. The error is a
// [*access.FieldError].
func (f *Files) Attachments(row mount.Row, limits AttachmentLimits) (*Attachments, error) {
	if row.Purpose != mount.PurposeAttachments {
		return nil, &access.FieldError{Field: "Row.Purpose", Rule: "must be attachments"}
	}
	d, err := f.folder(row)
	if err != nil {
		return nil, err
	}
	return &Attachments{d: d, limits: limits.withDefaults()}, nil
}

// NewAttachment is what is to be uploaded.
type NewAttachment struct {
	Name           string // a file's name, at most 200 bytes
	ContentType    string // empty = guessed from the name
	Size           int64  // bytes; negative = not known, which is refused
	IdempotencyKey string // at most 255 bytes; empty = none
}

// Add uploads an attachment. Everything that can be refused is, before body is
// read: ErrLengthRequired, [*TooLargeError], [*QuotaError], [*PathError],
// [*InFlightError] and ErrKeyReused where the idempotency key is in use. What was
// uploaded with that key already is returned, and body is not read. The
// attachment goes away by itself unless Reference is called in time.
func (s *Attachments) Add(ctx context.Context, n NewAttachment, body io.Reader) (Attachment, error) {
	a := Attachment{ID: s.d.f.c.NewID(), Name: n.Name, ContentType: n.ContentType, Size: n.Size, IdempotencyKey: n.IdempotencyKey}
	if a.ContentType == "" {
		a.ContentType = TypeOf(a.Name)
	}
	var done *Attachment
	err := s.change(ctx, func(m manifest) (next manifest, err error) {
		next, done, err = m.reserve(a, s.limits, s.d.f.c.Now())
		return next, err
	})
	if err != nil || done != nil {
		if done != nil {
			a = *done
		}
		return a, err
	}
	sum := sha256.New()
	_, err = s.d.put(ctx, a.path(), &bodyReader{r: body, ended: ctx.Err, path: a.Name, limit: a.Size, size: a.Size, sum: sum}, condition{})
	var ready Attachment
	if err == nil {
		err = s.change(ctx, func(m manifest) (next manifest, err error) {
			next, ready, err = m.complete(a.ID, hex.EncodeToString(sum.Sum(nil)), s.limits, s.d.f.c.Now())
			return next, err
		})
	}
	if err != nil {
		return Attachment{}, errors.Join(err, s.abandon(ctx, a))
	}
	return ready, nil
}

// abandon removes an upload that failed, whether or not ctx has ended. What it
// can't remove, Sweep does.
func (s *Attachments) abandon(ctx context.Context, a Attachment) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	if err := s.d.remove(ctx, a.path(), condition{}); err != nil && !isNotFound(err) {
		return err
	}
	return s.change(ctx, func(m manifest) (manifest, error) { return m.drop(a.ID), nil })
}

// Reference says that a message refers to the attachments, so that they stay.
// Where one is not here (any more), it is ErrNotFound and nothing is changed.
func (s *Attachments) Reference(ctx context.Context, ids ...string) error {
	return s.change(ctx, func(m manifest) (manifest, error) {
		return m.reference(ids, s.limits, s.d.f.c.Now())
	})
}

// List returns the attachments that are here, in the order they came.
func (s *Attachments) List(ctx context.Context) ([]Attachment, error) {
	m, _, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	var all []Attachment
	for _, a := range m.Items {
		if a.State != AttachmentPending && s.limits.live(a, s.d.f.c.Now()) {
			all = append(all, a)
		}
	}
	return all, nil
}

// Open opens the content of an attachment, which the caller closes; send it
// with the header of Download.
func (s *Attachments) Open(ctx context.Context, id string) (Attachment, *Content, error) {
	all, err := s.List(ctx)
	if err != nil {
		return Attachment{}, nil, err
	}
	for _, a := range all {
		if a.ID == id {
			c, err := s.d.Open(ctx, a.path(), nil)
			return a, c, err
		}
	}
	return Attachment{}, nil, notFound("open attachment", id)
}

// Remove removes an attachment, referenced or not.
func (s *Attachments) Remove(ctx context.Context, id string) error {
	var gone Attachment
	err := s.change(ctx, func(m manifest) (manifest, error) {
		i := m.find(id)
		if i < 0 || m.Items[i].State == attachmentDoomed {
			return m, notFound("remove attachment", id)
		}
		m = m.drop() // a copy
		m.Items[i].State = attachmentDoomed
		gone = m.Items[i]
		return m, nil
	})
	if err != nil {
		return err
	}
	return s.abandon(ctx, gone)
}

// Swept is what a sweep removed.
type Swept struct {
	Expired int // attachments that took too long to come, or that nothing refers to
	Orphans int // contents that no attachment stands for, left by processes that died
}

// Sweep removes what has expired, and what dead processes left. It says in the
// manifest what will go before it goes, so that two sweeps at once, or one
// that dies, harm nothing.
func (s *Attachments) Sweep(ctx context.Context) (Swept, error) {
	var swept Swept
	for {
		var doomed []Attachment
		err := s.change(ctx, func(m manifest) (manifest, error) {
			m, doomed = m.doom(sweepBatch, s.limits, s.d.f.c.Now())
			return m, nil
		})
		if err != nil {
			return swept, err
		}
		if len(doomed) == 0 {
			break
		}
		ids := make([]string, len(doomed))
		err = parallel(ctx, len(doomed), func(ctx context.Context, i int) error {
			ids[i] = doomed[i].ID
			if err := s.d.remove(ctx, doomed[i].path(), condition{}); err != nil && !isNotFound(err) {
				return err
			}
			return nil
		})
		if err != nil {
			return swept, err
		}
		if err := s.change(ctx, func(m manifest) (manifest, error) { return m.drop(ids...), nil }); err != nil {
			return swept, err
		}
		swept.Expired += len(doomed)
	}
	return swept, s.orphans(ctx, &swept)
}

// orphans removes contents without an attachment. They are listed before the
// manifest is read: an upload is in the manifest before its content is stored.
func (s *Attachments) orphans(ctx context.Context, swept *Swept) error {
	var stored []string
	err := s.d.keys(ctx, "", func(path string) bool {
		if path != manifestName {
			stored = append(stored, path)
		}
		return true
	})
	if err != nil {
		return err
	}
	m, _, err := s.load(ctx)
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(m.Items))
	for _, a := range m.Items {
		known[a.ID] = true
	}
	for _, path := range stored {
		if owner, _, _ := strings.Cut(path, "/"); known[owner] {
			continue
		}
		if err := s.d.remove(ctx, path, condition{}); err != nil && !isNotFound(err) {
			return err
		}
		swept.Orphans++
	}
	return nil
}

// load reads the manifest and its etag, which is empty where there is none yet.
func (s *Attachments) load(ctx context.Context) (m manifest, etag string, err error) {
	m.Version = 1
	c, err := s.d.Open(ctx, manifestName, nil)
	if isNotFound(err) {
		return m, "", nil
	}
	if err != nil {
		return m, "", err
	}
	defer c.Close()
	if err := json.NewDecoder(io.LimitReader(c, maxManifest)).Decode(&m); err != nil {
		return m, "", fault("read", manifestName, err)
	}
	if m.Version != 1 {
		return m, "", fault("read", manifestName, fmt.Errorf("version %d", m.Version))
	}
	return m, c.Info.ETag, nil
}

// change reads the manifest, decides, and writes what was decided, again where
// somebody else was faster. Within this process one change follows the other.
func (s *Attachments) change(ctx context.Context, decide func(manifest) (manifest, error)) error {
	caps, err := s.d.f.Probe(ctx)
	switch {
	case err != nil:
		return err
	case caps.IfMatch == Refused:
		return &UnsupportedError{What: "IfMatch"}
	case caps.IfAbsent == Refused:
		return &UnsupportedError{What: "IfAbsent"}
	}
	unlock, err := s.d.f.locks.lock(ctx, "manifest "+string(s.d.prefix))
	if err != nil {
		return fault("wait for", manifestName, err)
	}
	defer unlock()
	for range maxTries {
		m, etag, err := s.load(ctx)
		if err != nil {
			return err
		}
		next, err := decide(m)
		if err != nil || reflect.DeepEqual(m, next) {
			return err
		}
		data, err := json.Marshal(next)
		if err != nil {
			return fault("write", manifestName, err)
		}
		_, err = s.d.Write(ctx, manifestName, bytes.NewReader(data), &WriteOptions{IfMatch: etag, IfAbsent: etag == ""})
		if _, conflict := errors.AsType[*ConflictError](err); !conflict {
			return err
		}
	}
	return fault("write", manifestName, errors.New("too many writers at once"))
}
