package billing

import (
	"context"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// StorageUse is what a sandbox's disk has held up to Now.
type StorageUse struct {
	Sandbox string // its id: what is metered
	Class   Class
	Payer   access.UserID    // see [StoragePayer]
	Session access.SessionID // empty: of an environment
	Project access.ProjectID // empty = personal
	Stored  Stored
	// Since is from when it is charged, where it never was.
	Since time.Time
	Now   time.Time // by the clock that Stored goes by
}

// StorageMeter is a [Gate] that charges for storage too.
type StorageMeter interface {
	// ChargeStorage charges what each sandbox has held since it was charged
	// last, the charge and its watermark in one transaction. The answers
	// have the order of uses, at most [MaxPosts]. Called again it charges what has come since, and
	// several callers at once charge nothing twice: those that come late, or whose
	// clock is behind the watermark, get a [*MarkError]. Where the answer has no
	// error all that was held up to Now is charged; it is Repeated where there was nothing to charge any more.
	ChargeStorage(ctx context.Context, uses []StorageUse) ([]Posted, error)
}

var _ StorageMeter = (*Till)(nil)

// ChargeStorage charges for storage, by the tariff of [MeterStorage].
func (g *Till) ChargeStorage(ctx context.Context, uses []StorageUse) ([]Posted, error) {
	keys := make([]MarkKey, len(uses))
	for i, u := range uses {
		keys[i] = MarkKey{Resource: u.Sandbox, Meter: MeterStorage}
	}
	marks, err := g.ledger.Marks(ctx, keys)
	if err != nil {
		return nil, err
	}
	out := make([]Posted, len(uses))
	var posts []Post
	var at []int // of each post, its place in uses
	for i, u := range uses {
		quantity, ok := StorageCharge(u.Stored, marks[i], u.Now)
		if !ok && u.Stored.At(u.Now) > marks[i].Total { // it was charged by a clock that was ahead: the rest is, once that is past
			out[i].Err = &MarkError{MarkKey: keys[i], From: u.Now, Through: marks[i].Through}
			continue
		}
		if !ok {
			out[i].Repeated = true
			continue
		}
		rate, err := g.tariffs.Rate(MeterStorage, u.Class)
		if err != nil {
			out[i].Err = err
			continue
		}
		from := marks[i].Through
		if from.IsZero() {
			from = u.Since
		}
		posts = append(posts, Post{
			Use:  Use{Meter: MeterStorage, Class: u.Class, Resource: u.Sandbox, Payer: u.Payer, Session: u.Session, Project: u.Project},
			From: from, To: u.Now, Quantity: quantity, Rate: rate,
		})
		at = append(at, i)
	}
	if len(posts) == 0 {
		return out, nil
	}
	posted, err := g.ledger.Post(ctx, posts...)
	if err != nil {
		return nil, err
	}
	for n, p := range posted {
		out[at[n]] = p
	}
	return out, nil
}
