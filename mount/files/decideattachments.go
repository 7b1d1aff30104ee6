package files

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// AttachmentState is how far an attachment is.
type AttachmentState uint8

// The states.
const (
	AttachmentPending    AttachmentState = iota + 1 // being uploaded
	AttachmentReady                                 // here, and nothing refers to it yet
	AttachmentReferenced                            // a message refers to it: it stays
	attachmentDoomed                                // its content is being deleted
)

// Attachment is one file that was sent along with a message.
type Attachment struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	ContentType    string          `json:"content_type"`
	Size           int64           `json:"size"`
	SHA256         string          `json:"sha256,omitempty"` // hexadecimal; once it is here
	State          AttachmentState `json:"state"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	At             time.Time       `json:"at"` // since when it has its state
}

// path is where its content is.
func (a Attachment) path() string { return a.ID + "/" + a.Name }

// AttachmentLimits bound the attachments of one session. A zero field means
// the default beside it.
type AttachmentLimits struct {
	Image, Document, Other int64         // bytes of one: 10 MiB each
	Audio                  int64         // bytes of one: 15 MiB
	Files                  int           // 1000
	Bytes                  int64         // of all together: 256 MiB
	Pending                int           // uploads at once: 20
	PendingTTL             time.Duration // how long an upload may take: 15 minutes
	UnreferencedTTL        time.Duration // how long one stays that nothing refers to: a day
}

func (l AttachmentLimits) withDefaults() AttachmentLimits {
	orDefault(&l.Image, 10<<20)
	orDefault(&l.Document, 10<<20)
	orDefault(&l.Other, 10<<20)
	orDefault(&l.Audio, 15<<20)
	orDefault(&l.Files, 1000)
	orDefault(&l.Bytes, 256<<20)
	orDefault(&l.Pending, 20)
	orDefault(&l.PendingTTL, 15*time.Minute)
	orDefault(&l.UnreferencedTTL, 24*time.Hour)
	return l
}

// most is the limit of one attachment of a type.
func (l AttachmentLimits) most(contentType string) int64 {
	kind, _, _ := strings.Cut(contentType, "/")
	switch {
	case kind == "image":
		return l.Image
	case kind == "audio":
		return l.Audio
	case kind == "text", contentType == "application/pdf", strings.HasPrefix(contentType, "application/vnd."),
		contentType == "application/msword", contentType == "application/json", contentType == "application/xml":
		return l.Document
	}
	return l.Other
}

// live reports whether an attachment is there, or on its way, at a moment.
func (l AttachmentLimits) live(a Attachment, now time.Time) bool {
	switch a.State {
	case AttachmentPending:
		return now.Sub(a.At) < l.PendingTTL
	case AttachmentReady:
		return now.Sub(a.At) < l.UnreferencedTTL
	}
	return a.State == AttachmentReferenced
}

// manifest is all that is known of a session's attachments.
type manifest struct {
	Version int          `json:"version"`
	Items   []Attachment `json:"items"`
}

// The longest that a name and an idempotency key may be, in bytes.
const (
	maxAttachmentName = 200
	maxIdempotencyKey = 255
)

// reserve adds a, an upload that begins now, or says why not. done is an
// attachment that was already uploaded with the same key.
func (m manifest) reserve(a Attachment, l AttachmentLimits, now time.Time) (next manifest, done *Attachment, err error) {
	switch {
	case a.Size < 0:
		return m, nil, ErrLengthRequired
	case pathRule(a.Name) != "" || strings.Contains(a.Name, "/"):
		return m, nil, &PathError{Path: a.Name, Rule: "is no name of a file"}
	case len(a.Name) > maxAttachmentName:
		return m, nil, &PathError{Path: a.Name, Rule: fmt.Sprintf("must have at most %d bytes", maxAttachmentName)}
	case len(a.IdempotencyKey) > maxIdempotencyKey:
		return m, nil, &access.FieldError{Field: "IdempotencyKey", Rule: fmt.Sprintf("must have at most %d bytes", maxIdempotencyKey)}
	}
	if most := l.most(a.ContentType); a.Size > most {
		return m, nil, &TooLargeError{Path: a.Name, Limit: most, Unit: "bytes"}
	}
	files, pending, bytes := 0, 0, int64(0)
	for _, other := range m.Items {
		if !l.live(other, now) {
			continue
		}
		files++
		bytes += other.Size
		if other.State == AttachmentPending {
			pending++
		}
		if a.IdempotencyKey == "" || other.IdempotencyKey != a.IdempotencyKey {
			continue
		}
		switch {
		case other.Name != a.Name || other.Size != a.Size || other.ContentType != a.ContentType:
			return m, nil, ErrKeyReused
		case other.State == AttachmentPending:
			return m, nil, &InFlightError{RetryAfter: l.PendingTTL - now.Sub(other.At)}
		}
		return m, &other, nil
	}
	switch {
	case files >= l.Files:
		return m, nil, &QuotaError{"files", int64(l.Files)}
	case pending >= l.Pending:
		return m, nil, &QuotaError{"pending", int64(l.Pending)}
	case bytes+a.Size > l.Bytes:
		return m, nil, &QuotaError{"bytes", l.Bytes}
	}
	a.State, a.At = AttachmentPending, now.UTC()
	m.Items = append(slices.Clone(m.Items), a)
	return m, nil, nil
}

// complete makes a pending attachment ready.
func (m manifest) complete(id, sum string, l AttachmentLimits, now time.Time) (manifest, Attachment, error) {
	i := m.find(id)
	if i < 0 || m.Items[i].State != AttachmentPending || !l.live(m.Items[i], now) {
		return m, Attachment{}, fmt.Errorf("%w: attachment %s", ErrExpired, id)
	}
	m.Items = slices.Clone(m.Items)
	a := &m.Items[i]
	a.State, a.SHA256, a.At = AttachmentReady, sum, now.UTC()
	return m, *a, nil
}

// reference makes attachments stay. All of them must be here.
func (m manifest) reference(ids []string, l AttachmentLimits, now time.Time) (manifest, error) {
	m.Items = slices.Clone(m.Items)
	for _, id := range ids {
		i := m.find(id)
		if i < 0 || m.Items[i].State == AttachmentPending || !l.live(m.Items[i], now) {
			return m, notFound("refer to attachment", id)
		}
		if m.Items[i].State == AttachmentReady {
			m.Items[i].State, m.Items[i].At = AttachmentReferenced, now.UTC()
		}
	}
	return m, nil
}

// doom marks those that have expired, at most n, and returns all that are doomed.
func (m manifest) doom(n int, l AttachmentLimits, now time.Time) (next manifest, doomed []Attachment) {
	m.Items = slices.Clone(m.Items)
	for i := range m.Items {
		a := &m.Items[i]
		if a.State != attachmentDoomed && !l.live(*a, now) && len(doomed) < n {
			a.State = attachmentDoomed
		}
		if a.State == attachmentDoomed && len(doomed) < n {
			doomed = append(doomed, *a)
		}
	}
	return m, doomed
}

// drop forgets attachments.
func (m manifest) drop(ids ...string) manifest {
	m.Items = slices.DeleteFunc(slices.Clone(m.Items), func(a Attachment) bool { return slices.Contains(ids, a.ID) })
	return m
}

func (m manifest) find(id string) int {
	return slices.IndexFunc(m.Items, func(a Attachment) bool { return a.ID == id })
}
