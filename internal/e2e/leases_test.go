package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/session"
)

// slotCeiling is how many sessions of one payer may be worked in at once.
const slotCeiling = 2

// leaseClients are clients that have, prolong and give up leases.
type leaseClients struct {
	*fleet
	*history
	db   *postgres.DB
	each int // calls of each client
	// make makes up the lease to ask for.
	make  func(holder string, draw *rand.Rand) session.Lease
	ops   []string
	mu    sync.Mutex
	fault error
}

// clock is what the store's clock shows, in microseconds.
func (c *leaseClients) clock() int64 {
	var now int64
	err := c.db.SQL().QueryRowContext(c.t.Context(), "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").Scan(&now)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fault = err
	}
	return now
}

// act is what one client does: it remembers what it has, and also asks for
// what it had once and for what others have.
func (c *leaseClients) act(n int, draw *rand.Rand) {
	me, holder := c.client(), fmt.Sprintf("holder-%d", n)
	have := map[string]session.Lease{} // the last answer for each name
	for range c.each {
		want := c.make(holder, draw)
		op := c.ops[draw.IntN(len(c.ops))]
		if op == "Renew" || op == "Release" {
			had, ok := have[fmt.Sprint(want.Kind, want.Name)]
			if !ok {
				op = "Acquire"
			} else {
				had.For = want.For
				want = had
			}
		}
		in := leaseOp{Op: op, Lease: want, Low: c.clock()}
		p, began := c.at(n), c.now()
		var a LeaseAnswer
		if err := p.Call("Replica."+op, LeaseCall{want}, &a); err != nil {
			if !isLost(err) {
				c.t.Errorf("%s: %v", op, err)
			}
			c.add(me, in, began, leaseOut{Lost: true}, never)
			me = c.client()
			continue
		}
		ended := c.now()
		c.add(me, in, began, leaseOut{Answer: a.Answer, Lease: a.Lease, Expired: a.Expired, High: c.clock()}, ended)
		if (op == "Acquire" || op == "Renew") && a.Code == "" {
			have[fmt.Sprint(want.Kind, want.Name)] = a.Lease
		}
	}
}

// lasting is how long to have a lease: some run out while they are wanted.
func lasting(draw *rand.Rand) time.Duration {
	if draw.IntN(2) == 0 {
		return 2 * time.Second
	}
	return time.Duration(5+draw.IntN(50)) * time.Millisecond
}

func (w workload) play(t testing.TB, draw *rand.Rand, broken string, ops []string, make func(string, *rand.Rand) session.Lease) *history {
	t.Helper()
	db, dsn := database(t)
	c := &leaseClients{
		fleet: newFleet(t, w.processes, role{DSN: dsn, Broken: broken}), history: newHistory(),
		db: db, each: w.each, make: make, ops: ops,
	}
	c.during(draw, w, c.size, c.act)
	if c.fault != nil {
		t.Fatalf("the store's clock: %v", c.fault)
	}
	return c.history
}

// seatKinds are the leases of one holder.
var seatKinds = []session.LeaseKind{session.LeaseSweep, session.LeaseTurn, session.LeasePTY, session.LeaseHost}

type seatKey struct {
	kind session.LeaseKind
	name string
}

// playSeats runs a workload over leases of one holder, and returns the history of each.
func playSeats(t testing.TB, draw *rand.Rand, w workload, broken string) map[seatKey][]porcupine.Operation {
	t.Helper()
	h := w.play(t, draw, broken, []string{"Acquire", "Acquire", "Renew", "Renew", "Release", "Held"}, func(holder string, draw *rand.Rand) session.Lease {
		return session.Lease{Kind: seatKinds[draw.IntN(len(seatKinds))], Name: "it", Holder: holder, Replica: holder, For: lasting(draw)}
	})
	by := map[seatKey][]porcupine.Operation{}
	for _, kind := range seatKinds {
		by[seatKey{kind, "it"}] = h.of(func(in any) bool { return in.(leaseOp).Lease.Kind == kind })
	}
	return by
}

// A lease of one holder is one register with an end, by the store's clock,
// whichever processes are asked, whatever their clocks show, and whichever is killed meanwhile.
func TestLeasesAreLinearizable(t *testing.T) {
	need.Long(t, "it starts several processes for each of many workloads")
	draw, did := chance(t), tally{}
	for _, w := range workloads {
		t.Run(w.String(), func(t *testing.T) {
			for key, ops := range playSeats(t, draw, w, "") {
				did.count(ops)
				wantLinearizable(t, fmt.Sprint(key), seatModel(), ops)
			}
		})
	}
	did.want(t, "Acquire", "Acquire: held", "Renew", "Renew: lease_lost", "Release", "Held", "Held: not_found", "never answered")
}

// Leases that forget their fences, or go by the clock of the replica, are found out.
func TestBrokenLeasesAreNotLinearizable(t *testing.T) {
	need.Long(t, "it starts several processes")
	draw := chance(t)
	for _, broken := range []string{forgetsFences, ownClock} {
		t.Run(broken, func(t *testing.T) {
			wantSomeIllegal(t, seatModel(), playSeats(t, draw, workload{2, 6, 60, 0}, broken))
		})
	}
}

// playSlots runs a workload over work leases, and returns the history of each payer.
func playSlots(t testing.TB, draw *rand.Rand, w workload, broken string) map[access.UserID][]porcupine.Operation {
	t.Helper()
	h := w.play(t, draw, broken, []string{"Acquire", "Acquire", "Renew", "Release", "Release", "Expired"}, func(holder string, draw *rand.Rand) session.Lease {
		payer := owners[draw.IntN(2)]
		return session.Lease{
			Kind: session.LeaseWork, Name: fmt.Sprintf("%s-%d", payer, draw.IntN(4)), Holder: holder, Replica: holder,
			Payer: payer, Slots: slotCeiling, For: lasting(draw),
		}
	})
	by := map[access.UserID][]porcupine.Operation{}
	for _, payer := range owners[:2] {
		by[payer] = h.of(func(in any) bool { return in.(leaseOp).Lease.Payer == payer })
	}
	return by
}

// The slots of a payer are one set of sessions with a ceiling, in which those
// that ran out count until they are given back.
func TestSlotsAreLinearizable(t *testing.T) {
	need.Long(t, "it starts several processes for each of many workloads")
	draw, did := chance(t), tally{}
	for _, w := range workloads {
		t.Run(w.String(), func(t *testing.T) {
			for payer, ops := range playSlots(t, draw, w, "") {
				did.count(ops)
				wantLinearizable(t, string(payer), slotsModel(slotCeiling), ops)
			}
		})
	}
	did.want(t, "Acquire", "Acquire: work_limit", "Renew", "Renew: lease_lost", "Release", "Expired, and there are", "never answered")
}

// Slots that free themselves when they run out are found out.
func TestBrokenSlotsAreNotLinearizable(t *testing.T) {
	need.Long(t, "it starts several processes")
	wantSomeIllegal(t, slotsModel(slotCeiling), playSlots(t, chance(t), workload{2, 6, 60, 0}, freesExpired))
}
