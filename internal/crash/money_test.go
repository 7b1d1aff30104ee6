//go:build linux

package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// What the host's program knows of a work; see there.
type told struct {
	Work        string
	Open, Asks  bool
	Heard       time.Time
	Posts, Done *span
}

type span struct {
	From, To time.Time
	Last     bool
}

// work is what the processes have told of a work, and nothing that the books say.
type work struct {
	began, through time.Time // posted for certain
	heard          time.Time // its lease was renewed then, the last time that its process heard of
	closed         bool      // by its own process
	open, beaten   bool      // somebody had it, and its lease was renewed since
	posting        *span     // is being posted
	asking         bool      // its lease is being renewed
	// Of one whose process died:
	died       time.Time // zero = it closed by itself
	maybe      bool      // what was being posted may be posted or not
	maybeHeard bool      // so may its lease be renewed
}

// hear notes what a process has told.
func (w *world) hear(t *told) {
	wk := w.works[t.Work]
	if wk == nil {
		wk = &work{}
		w.works[t.Work] = wk
	}
	switch {
	case t.Open:
		wk.open = true
	case t.Asks:
		wk.asking = true
	case !t.Heard.IsZero():
		wk.heard, wk.asking, wk.beaten = t.Heard, false, wk.open
	case t.Posts != nil:
		wk.posting = t.Posts
	case t.Done != nil:
		wk.posting = nil
		if wk.began.IsZero() {
			wk.began = t.Done.From
		}
		wk.through, wk.closed = t.Done.To, t.Done.Last
	}
}

// died notes that the process of all works that are under way has died, or
// has ended: at a place, or at any moment if that is empty.
func (w *world) died(at time.Time, place string) {
	for _, wk := range w.works {
		if wk.closed || !wk.died.IsZero() {
			continue
		}
		wk.died = at
		// What dies in its own transaction, or before it, is not committed, and
		// what dies after it has said so; of what else is under way nobody knows.
		wk.maybe = wk.posting != nil && !strings.HasPrefix(place, "post ")
		wk.maybeHeard = wk.asking && !strings.HasPrefix(place, "renew ")
	}
}

// What the host's program gives, and what work costs there.
const (
	plenty = 1_000_000 * billing.Unit
	little = billing.Micros(20_000 + 1_500_000*3/7)
)

// intervals are those of the heartbeat, by the lease that a story has.
func (w *world) interval(story string) time.Duration {
	switch {
	case slices.Contains([]string{"beats", "out of credit", "abandoned", "expired, then abandoned"}, story):
		return time.Second
	case w.postgres:
		return 5 * time.Second / 3
	}
	return 20 * time.Second
}

// granted are the grants there must be: each counts once, however often it was asked for.
func granted(story string, toppedUp bool) map[billing.GrantID]billing.Micros {
	all := map[billing.GrantID]billing.Micros{"start": plenty}
	if story == "out of credit" {
		all["start of heir"] = little
	}
	if story == "beats" {
		all["bought"] = plenty
	}
	if toppedUp {
		all["top-up"] = plenty
	}
	return all
}

// books fails the test unless all accounts are in order: nothing is held,
// every grant and every span of use is there once, each work was charged for
// what it took and at most one interval more, and whoever takes meter events has all of them.
func (w *world) books(ctx context.Context, story string, toppedUp bool) {
	w.t.Helper()
	payers, err := w.ledger.Payers(ctx, "", billing.MaxPosts)
	if err != nil {
		w.t.Fatal(err)
	}
	grants := map[billing.GrantID]billing.Micros{}
	used := map[string][]billing.Entry{}
	ids := map[string]int{}
	for _, payer := range payers {
		var sum billing.Micros
		for e, err := range billing.Entries(ctx, w.ledger, payer, 0) {
			switch {
			case err != nil:
				w.t.Fatal(err)
			case e.Kind == billing.EntryGrant:
				grants[e.Grant] += e.Amount
				sum += e.Amount
			case e.Kind == billing.EntryUsage:
				used[e.Use.Resource] = append(used[e.Use.Resource], e)
				ids[e.ID]++
				sum -= e.Amount
			default:
				w.t.Errorf("an entry that nobody made: %+v", e)
			}
		}
		balance, err := w.ledger.Balance(ctx, payer)
		if left := balance.Available - balance.Debt; err != nil || left != sum {
			w.t.Errorf("%s has %v, and was given %v more than charged: %v", payer, left, sum, err)
		}
		if v, err := billing.Verify(ctx, w.ledger, payer); err != nil || len(v.Faults) > 0 {
			w.t.Errorf("the book of %s: %q, %v", payer, v.Faults, err)
		}
	}
	if diff := cmp.Diff(granted(story, toppedUp), grants); diff != "" {
		w.t.Errorf("granted (-want +got)\n%s", diff)
	}
	for id, n := range ids {
		if n != 1 {
			w.t.Errorf("usage %s is there %d times", id, n)
		}
	}
	for id, entries := range used {
		switch {
		case entries[0].Use.Meter == billing.MeterStorage:
			w.stored(ctx, id, entries)
		case w.works[id] == nil:
			w.t.Errorf("work %s was charged for, and nobody has heard of it", id)
		}
	}
	if story == "storage" {
		w.noStorageLeft(ctx, used)
	}
	for _, id := range slices.Sorted(maps.Keys(w.works)) {
		w.charged(ctx, id, used[id], w.interval(story))
	}
	w.nothingHeld(ctx)
	w.delivered(ctx, ids)
}

// charged fails the test unless a work was charged for what it took.
func (w *world) charged(ctx context.Context, id string, entries []billing.Entry, interval time.Duration) {
	w.t.Helper()
	wk := w.works[id]
	marks, err := w.ledger.Marks(ctx, []billing.MarkKey{{Resource: id, Meter: billing.MeterRuntime}})
	if err != nil {
		w.t.Fatal(err)
	}
	mark, began := marks[0], wk.began
	switch {
	case !began.IsZero():
	case wk.maybe && !mark.Through.IsZero():
		began = wk.posting.From
	case wk.beaten:
		w.t.Errorf("work %s was worked in, and is in no book", id)
		return
	case mark.Through.IsZero() && len(entries) == 0:
		w.ended(ctx, id, billing.HoldReleased)
		return
	default:
		w.t.Errorf("work %s never began, and was charged for: %+v, %+v", id, mark, entries)
		return
	}
	w.ended(ctx, id, billing.HoldSettled)
	through, quantity, amount := micro(began), int64(0), billing.Micros(0)
	for _, e := range entries {
		if !e.From.Equal(through) {
			w.t.Errorf("work %s was charged for from %v to %v, and before that through %v", id, e.From, e.To, through)
		}
		if e.Quantity != e.To.Sub(e.From).Microseconds() {
			w.t.Errorf("work %s was charged %d from %v to %v", id, e.Quantity, e.From, e.To)
		}
		through, quantity, amount = e.To, quantity+e.Quantity, amount+e.Amount
	}
	if !mark.Closed || !mark.Through.Equal(through) || mark.Total != quantity {
		w.t.Errorf("work %s was charged %d through %v, its mark is %+v", id, quantity, through, mark)
	}
	if want := billing.Micros(quantity * 3 / 7); amount != want {
		w.t.Errorf("work %s was charged %v for what costs %v", id, amount, want)
	}
	least, most := wk.bounds(interval)
	if least, most = micro(least), micro(most); through.Before(least) || through.After(most) {
		w.t.Errorf("work %s began at %v, was heard of at %v, died at %v and was charged through %v, want %v to %v",
			id, began, wk.heard, wk.died, through, least, most)
	}
}

// stored fails the test unless what a sandbox has held was charged for once, without a gap.
func (w *world) stored(ctx context.Context, id string, entries []billing.Entry) {
	w.t.Helper()
	through, quantity, amount := entries[0].From, int64(0), billing.Micros(0)
	for _, e := range entries {
		if !e.From.Equal(through) || e.Quantity < 0 {
			w.t.Errorf("sandbox %s was charged for %d from %v to %v, and before that through %v", id, e.Quantity, e.From, e.To, through)
		}
		through, quantity, amount = e.To, quantity+e.Quantity, amount+e.Amount
	}
	marks, err := w.ledger.Marks(ctx, []billing.MarkKey{{Resource: id, Meter: billing.MeterStorage}})
	if err != nil || !marks[0].Through.Equal(through) || marks[0].Total != quantity {
		w.t.Errorf("sandbox %s was charged %d through %v, its mark is %+v, %v", id, quantity, through, marks, err)
	}
	if want := billing.Micros(quantity * 3 / 7); amount != want {
		w.t.Errorf("sandbox %s was charged %v for what costs %v", id, amount, want)
	}
}

// noStorageLeft fails the test unless everything that was ever held is charged
// for, but for what has come since of a machine that lives, and is looked at no more.
func (w *world) noStorageLeft(ctx context.Context, used map[string][]billing.Entry) {
	w.t.Helper()
	if len(used) == 0 {
		w.t.Error("nothing was charged for")
	}
	due, err := w.sessions.Stored(ctx, "", 10)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range due {
		if s.Sandbox.State != sandbox.Live {
			w.t.Errorf("still to be charged for: %+v", s.Sandbox)
		}
	}
	page, err := w.sessions.List(ctx, session.ListQuery{Project: project, Ended: true, Limit: session.MaxListed})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, item := range page.Items {
		s, err := w.sessions.Load(ctx, session.Address{Session: item.Session.ID})
		if err != nil {
			w.t.Fatal(err)
		}
		row, total, charged := s.Sandbox, int64(0), int64(0)
		for _, e := range used[string(row.ID)] {
			charged += e.Quantity
		}
		held := billing.Stored{Used: row.StoredUsed, Since: row.StoredAt}
		if row.State == sandbox.Live && row.Incarnation == row.MeasuredIncarnation {
			held.Bytes = row.MeasuredBytes
		}
		if entries := used[string(row.ID)]; len(entries) > 0 {
			total = held.At(entries[len(entries)-1].To)
		}
		if charged != total || charged == 0 {
			w.t.Errorf("sandbox %s has held %d and was charged for %d: %+v", row.ID, total, charged, row)
		}
	}
}

// bounds are up to when a work must be charged, and up to when it may be.
func (wk *work) bounds(interval time.Duration) (least, most time.Time) {
	if wk.closed {
		return wk.through, wk.through
	}
	least, most = latest(wk.through, wk.heard), latest(wk.through, wk.heard).Add(interval)
	if wk.maybe || wk.maybeHeard {
		most = latest(wk.died, wk.heard).Add(interval)
	}
	if ceiling := wk.died.Add(interval); ceiling.Before(most) {
		most = ceiling
	}
	return least, most
}

// ended fails the test unless the holds of a work have ended in that state, or expired.
func (w *world) ended(ctx context.Context, id string, want billing.HoldState) {
	w.t.Helper()
	holds, err := w.ledger.Holds(ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range holds {
		if h.State != want && h.State != billing.HoldExpired {
			w.t.Errorf("hold %s is %v, want %v or expired", h.ID, h.State, want)
		}
	}
}

// nothingHeld fails the test if any hold is open.
func (w *world) nothingHeld(ctx context.Context) {
	w.t.Helper()
	var open int
	if err := w.sql.QueryRowContext(ctx, "SELECT count(*) FROM bunkroom_holds WHERE state = 'open'").Scan(&open); err != nil || open > 0 {
		w.t.Errorf("%d holds are open: %v", open, err)
	}
}

// delivered fails the test unless the file of meter events has just those of the books.
func (w *world) delivered(ctx context.Context, ids map[string]int) {
	w.t.Helper()
	if left, err := w.ledger.Unexported(ctx, 1); err != nil || len(left) > 0 {
		w.t.Errorf("not delivered: %+v, %v", left, err)
	}
	f, err := os.Open(w.events)
	if errors.Is(err, fs.ErrNotExist) && len(ids) == 0 {
		return
	}
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	type event struct {
		ID       string
		Payer    access.UserID
		Quantity int64
		Amount   billing.Micros
	}
	events := map[string]event{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			w.t.Errorf("a torn event: %q", lines.Text())
			continue
		}
		if was, again := events[e.ID]; again && was != e {
			w.t.Errorf("delivered with two contents: %+v, %+v", was, e)
		}
		events[e.ID] = e
		if ids[e.ID] == 0 {
			w.t.Errorf("delivered, and in no book: %+v", e)
		}
	}
	if err := lines.Err(); err != nil {
		w.t.Fatal(err)
	}
	for id := range ids {
		if _, ok := events[id]; !ok {
			w.t.Errorf("never delivered: %s", id)
		}
	}
}

// micro is t as ledgers keep it.
func micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
