package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/session"
)

// heir owns the project from a moment on in those stories that say so, and
// pays for it from then on: it has credit for little.
const heir = access.UserID("heir")

// What is given, and what work costs: price for every per microseconds, which leaves something over nearly every time.
const (
	plenty   = 1_000_000 * billing.Unit
	estimate = billing.Micros(20_000)
	price    = 3
	per      = 7
	// little pays for one beat and a half of a work that is under way.
	little = estimate + billing.Micros(3*beat/2/time.Microsecond)*price/per
)

func rate() billing.Rate { return billing.Rate{Price: price, Per: per} }

func terms(access.Plan) billing.Terms { return billing.Terms{Estimate: estimate, InFlight: 20} }

func (w *world) till() (*billing.Till, error) {
	tariffs, err := billing.NewTariffs(billing.Priced{Meter: billing.MeterRuntime, Rate: rate()}, billing.Priced{Meter: billing.MeterStorage, Rate: rate()})
	if err != nil {
		return nil, err
	}
	return billing.NewTill(billing.TillConfig{Ledger: w.ledger, Tariffs: tariffs, Terms: terms})
}

// gate is a till for what runs. It meters no storage, so that no disk is
// measured in the background, at a moment that no story can tell: where a
// story is about storage it says itself what a disk holds, and charges by a
// Keeper of its own, whose gate is the till.
type gate struct{ billing.Gate }

// start gives what every process gives as it starts: the same, under the same ids.
func (w *world) start(ctx context.Context) error {
	_, err := w.ledger.Grant(ctx, billing.Grant{ID: "start", Payer: ann.User, Source: "start", Amount: plenty})
	if err != nil || !w.story.heir {
		return err
	}
	_, err = w.ledger.Grant(ctx, billing.Grant{ID: "start of heir", Payer: heir, Source: "start", Amount: little})
	return err
}

// buy gives more to whoever pays. Asked again for the same it gives nothing.
func (w *world) buy(ctx context.Context, what billing.GrantID) error {
	payer := ann.User
	if w.story.heir {
		payer = heir
	}
	_, err := w.ledger.Grant(ctx, billing.Grant{ID: what, Payer: payer, Source: "bought", Amount: plenty, Repay: true})
	return err
}

// inherit makes heir the owner of the project; ann works on in it.
func (w *world) inherit() {
	w.directory.AddProject(project, heir, "pro")
	w.directory.AddMember(project, ann.User, access.RoleMember)
	w.directory.SetCode(ann.User, project, true)
}

// expire and deliver are the host's own chores.
func (w *world) expire(ctx context.Context) error {
	_, err := w.ledger.Expire(ctx, 0, billing.MaxPosts)
	return err
}

func (w *world) deliver(ctx context.Context) error {
	_, err := billing.Deliver(ctx, w.ledger, w.exporter)
	return err
}

func (w *world) moneyChores() []session.Chore {
	return []session.Chore{{Name: "expire", Every: time.Minute, Run: w.expire}, {Name: "deliver", Every: time.Minute, Run: w.deliver}}
}

// settled reports whether nothing is held and everything was delivered.
func (w *world) settled(ctx context.Context) (bool, error) {
	var open int
	if err := w.pool.QueryRowContext(ctx, "SELECT count(*) FROM bunkroom_holds WHERE state = 'open'").Scan(&open); err != nil {
		return false, err
	}
	left, err := w.db.Ledger().Unexported(ctx, 1)
	return open == 0 && len(left) == 0, err
}

// exporter appends meter events to a file, a JSON object a line. What is
// torn at its end, since a process died in the midst, it first takes away.
type exporter struct {
	path string
	*places
}

// event is a line of the file.
type event struct {
	ID       string         `json:"id"`
	Payer    access.UserID  `json:"payer"`
	Resource string         `json:"resource"`
	Quantity int64          `json:"quantity"`
	Amount   billing.Micros `json:"amount"`
	Meter    billing.Meter  `json:"meter"`
}

func (x exporter) Export(_ context.Context, events []billing.Entry) error {
	return x.do("export", func() (err error) {
		f, err := os.OpenFile(x.path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		text, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		whole := int64(bytes.LastIndexByte(text, '\n') + 1)
		if err := f.Truncate(whole); err != nil {
			return err
		}
		var lines bytes.Buffer
		for _, e := range events {
			if err := json.NewEncoder(&lines).Encode(event{e.ID, e.Payer, e.Use.Resource, e.Quantity, e.Amount, e.Use.Meter}); err != nil {
				return err
			}
		}
		half := lines.Len() / 2
		if _, err := f.WriteAt(lines.Bytes()[:half], whole); err != nil {
			return err
		}
		if place, ok := x.last("export"); ok {
			x.at(place + " wrote half")
		}
		if _, err := f.WriteAt(lines.Bytes()[half:], whole+int64(half)); err != nil {
			return err
		}
		return f.Sync()
	})
}
