package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/sandbox"
)

// CommandMeasured is what a machine's disk was found to hold.
type CommandMeasured struct {
	Generation  int64
	Incarnation sandbox.Incarnation // the machine that was measured
	Bytes       int64
}

func (CommandMeasured) command() {}

// measured: a size of another machine than the row's own is worth nothing, and neither is one of a machine that is not live.
func measured(s Snapshot, c CommandMeasured) (Decision, error) {
	row := s.Sandbox
	if row.State != sandbox.Live || row.Generation != c.Generation || row.Incarnation != c.Incarnation || c.Bytes < 0 {
		return Decision{}, nil
	}
	row = counted(row, s.Now, c.Bytes)
	row.MeasuredBytes, row.MeasuredAt, row.MeasuredIncarnation = c.Bytes, s.Now, c.Incarnation
	return Decision{Change: Change{Sandbox: &row}}, nil
}

// stored is the counter of what the sandbox's disks have held: the size that
// was measured last counts for as long as the machine it was measured of is live.
func stored(r sandbox.Row) billing.Stored {
	out := billing.Stored{Used: r.StoredUsed, Since: r.StoredAt}
	if r.State == sandbox.Live && r.Incarnation == r.MeasuredIncarnation {
		out.Bytes = r.MeasuredBytes
	}
	return out
}

// counted is row with the counter brought up to now, from when on its disk holds bytes.
func counted(row sandbox.Row, now time.Time, bytes int64) sandbox.Row {
	next := stored(row).Holding(bytes, now)
	row.StoredUsed, row.StoredAt = next.Used, next.Since
	return row
}

// stopsCounting is the row that follows on before, with what before's machine
// has held counted to its end where it is not the sandbox's any more. Nothing ever sets the counter back.
func stopsCounting(before, next sandbox.Row, now time.Time) sandbox.Row {
	if stored(before).Bytes > 0 && (next.State != sandbox.Live || next.Incarnation != before.Incarnation) {
		end := counted(before, now, 0)
		next.StoredUsed, next.StoredAt = end.StoredUsed, end.StoredAt
	}
	return next
}

const (
	measureEvery   = time.Hour        // as the studied system does
	measureTimeout = 20 * time.Second // and so long it may take
)

// measure notes what the machine's disk holds, if that was not done lately. It
// is asked of a machine that is awake and has just been worked in, and never wakes one.
func (m *machines) measure(ctx context.Context, id ID, of sandbox.Ref) error {
	s, err := m.rows.store.Load(ctx, Address{Session: id})
	if err != nil {
		return err
	}
	row := s.Sandbox
	fresh := row.MeasuredIncarnation == row.Incarnation && s.Now.Sub(row.MeasuredAt) < measureEvery
	if row.State != sandbox.Live || row.Incarnation != of.Incarnation || fresh {
		return nil
	}
	p, err := m.provider(row)
	if err != nil {
		return err
	}
	power, can := sandbox.As[sandbox.Measurer](p)
	if !can {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	bytes, err := guarded(bounded, func(ctx context.Context) (int64, error) { return power.Measure(ctx, row.Ref()) })
	switch {
	case errors.Is(err, sandbox.ErrAsleep), errors.Is(err, sandbox.ErrGone), errors.Is(err, sandbox.ErrUnsupported):
		return nil
	case err != nil:
		return fmt.Errorf("%s: measuring its disk: %w", s.subject(), err)
	}
	_, err = m.rows.commit(ctx, s, func(s Snapshot) (Decision, error) {
		return Decide(s, CommandMeasured{Generation: row.Generation, Incarnation: row.Incarnation, Bytes: bytes})
	})
	if errors.Is(err, ErrStale) { // the next work measures again
		return nil
	}
	return err
}

// StorageReport says what a pass over all storage has come to. Every sandbox that was looked at counts once.
type StorageReport struct {
	Looked     int
	Charged    int
	Amount     billing.Micros
	Quiet      int // there was nothing to charge, or another pass had done so
	Unresolved int // nobody could be found who pays: their time is charged later
	Unpriced   int // the price list has no price for them: they cost nothing until it has
	Failed     int // see the error
	// Stale is how many live ones were not measured for a day.
	Stale int
}

const (
	storageEvery = time.Hour
	staleAfter   = 24 * time.Hour
)

// ChargeStorage charges for what the disks of all sandboxes have held since it
// was done last, as [Keeper.Serve] does every hour: who pays is asked anew each
// time, and where that can't be found out nothing is charged and nothing lost. It wakes and measures nothing. Where the
// Gate is no [billing.StorageMeter] it does nothing. Several at once charge nothing twice.
//
// The error joins what went wrong with single sandboxes, which keeps no other waiting.
func (k *Keeper) ChargeStorage(ctx context.Context) (StorageReport, error) {
	var rep StorageReport
	meter, ok := k.accounts.gate.(billing.StorageMeter)
	if !ok {
		return rep, nil
	}
	who, fault := k.storagePayer(ctx), error(nil)
	for after := sandbox.ID(""); ; {
		page, err := k.machines.rows.store.Stored(ctx, after, MaxKnown)
		if err != nil {
			return rep, errors.Join(fault, err)
		}
		done, err := k.chargePage(ctx, meter, page, who, &rep)
		fault = errors.Join(fault, err)
		if len(done) > 0 { // what is charged and not noted is looked at once more, and charged nothing
			fault = errors.Join(fault, k.machines.rows.store.StorageCharged(ctx, done))
		}
		if len(page) < MaxKnown || ctx.Err() != nil {
			return rep, errors.Join(fault, ctx.Err())
		}
		after = page[len(page)-1].Sandbox.ID
	}
}

// chargePage charges whoever pays for each; rep counts what it comes to. It
// returns those of which there is no more to come as long as their rows stay as they are.
func (k *Keeper) chargePage(ctx context.Context, meter billing.StorageMeter, page []Snapshot, who func(Snapshot) access.UserID, rep *StorageReport) (done []StorageCharged, fault error) {
	var uses []billing.StorageUse
	var rows []sandbox.Row // of each use
	for _, s := range page {
		rep.Looked++
		row := s.Sandbox
		if row.State == sandbox.Live && s.Now.Sub(row.MeasuredAt) > staleAfter {
			rep.Stale++
		}
		payer := who(s)
		if payer == "" {
			rep.Unresolved++
			continue
		}
		uses = append(uses, billing.StorageUse{
			Sandbox: string(row.ID), Class: billing.Class(row.Spec.Class), Payer: payer, Session: row.Session,
			Project: s.project(), Stored: stored(row), Since: s.bornAt(), Now: s.Now,
		})
		rows = append(rows, row)
	}
	if len(uses) == 0 {
		return nil, nil
	}
	posted, err := meter.ChargeStorage(ctx, uses)
	if err != nil {
		rep.Failed += len(uses)
		return nil, err
	}
	for i, p := range posted {
		if p.Err == nil && stored(rows[i]).Bytes == 0 {
			done = append(done, StorageCharged{rows[i].ID, rows[i].StoredUsed})
		}
		var mark *billing.MarkError
		var unpriced *billing.NoTariffError
		switch {
		case errors.As(p.Err, &mark), p.Err == nil && p.Repeated:
			rep.Quiet++
		case errors.As(p.Err, &unpriced):
			rep.Unpriced++
		case p.Err != nil:
			rep.Failed++
			fault = errors.Join(fault, fmt.Errorf("session: storage of sandbox %s: %w", uses[i].Sandbox, p.Err))
		default:
			rep.Charged++
			rep.Amount += p.Charged
		}
	}
	return done, fault
}

// storagePayer tells who pays for what a sandbox holds, empty where that can't
// be found out. It asks the host once for each project.
func (k *Keeper) storagePayer(ctx context.Context) func(Snapshot) access.UserID {
	payers := map[access.ProjectID]access.UserID{}
	return func(s Snapshot) access.UserID {
		paying := billing.Paying{Owner: s.Session.Owner, Project: s.project()}
		if p := paying.Project; p != "" {
			payer, known := payers[p]
			if !known {
				payer = k.machines.rows.host.Ask(ctx, access.Question{Project: p, Owner: s.Session.Owner, Want: access.WantBilling}).Payer
				payers[p] = payer
			}
			paying.Account = payer
		}
		return billing.StoragePayer(paying).Payer
	}
}

// project is the project of what the sandbox belongs to.
func (s Snapshot) project() access.ProjectID {
	if s.Sandbox.Environment != "" {
		return s.Environment.Project
	}
	return s.Session.Project
}

// bornAt is when what the sandbox belongs to was made.
func (s Snapshot) bornAt() time.Time {
	if s.Sandbox.Environment != "" {
		return s.Environment.CreatedAt
	}
	return s.Session.CreatedAt
}

// storageChore is the Keeper's own pass.
func (k *Keeper) storageChore(ctx context.Context) error {
	rep, err := k.ChargeStorage(ctx)
	if rep.Charged+rep.Unresolved+rep.Unpriced+rep.Failed > 0 {
		k.log.InfoContext(ctx, "storage charged", "sandboxes", rep.Charged, "amount", rep.Amount.String(),
			"unresolved", rep.Unresolved, "unpriced", rep.Unpriced, "failed", rep.Failed, "stale", rep.Stale)
	}
	return err
}

// chargeLast charges for what the disks have held whose rows are about to be
// deleted. It is the last chance: where nobody can say who pays, as of a
// project that is gone, it is who paid for the machine, or else the session's
// owner. It returns of how many not even that is known: what they held is charged to nobody.
func (k *Keeper) chargeLast(ctx context.Context, batch []Address) (lost int, err error) {
	meter, ok := k.accounts.gate.(billing.StorageMeter)
	if !ok {
		return 0, nil
	}
	var page []Snapshot
	for _, a := range batch {
		if a.Conversation != "" {
			continue
		}
		s, err := k.machines.rows.store.Load(ctx, a)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return 0, err
		}
		owns := s.Sandbox.Session == a.Session && s.Sandbox.Environment == a.Environment // and does not borrow it
		if has := stored(s.Sandbox); err == nil && owns && has.Bytes+has.Used > 0 {
			page = append(page, s)
		}
	}
	pays := k.storagePayer(ctx)
	who := func(s Snapshot) access.UserID { return cmp.Or(pays(s), s.Sandbox.Payer, s.Session.Owner) }
	var rep StorageReport
	_, err = k.chargePage(ctx, meter, page, who, &rep)
	return rep.Unresolved, err
}
