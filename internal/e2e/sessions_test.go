package e2e

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/session"
)

// sessionCeiling is how many open sessions an owner may have.
const sessionCeiling = 3

var owners = []access.UserID{"ann", "bob", "eve"}

// sessionClients are clients that open, end, reopen and list the sessions of some owners.
type sessionClients struct {
	*fleet
	*history
	each int // calls of each client

	mu    sync.Mutex
	known map[access.UserID][]SessionCall // the sessions whose ids were answered
}

func (c *sessionClients) note(k SessionCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[k.Owner] = append(c.known[k.Owner], k)
}

// pick is one of an owner's sessions, if there is one.
func (c *sessionClients) pick(owner access.UserID, draw *rand.Rand) (SessionCall, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.known[owner]
	if len(all) == 0 {
		return SessionCall{}, false
	}
	return all[draw.IntN(len(all))], true
}

// act is what one client does.
func (c *sessionClients) act(n int, draw *rand.Rand) {
	me := c.client()
	for range c.each {
		owner := owners[draw.IntN(len(owners))]
		call, known := c.pick(owner, draw)
		op := [...]string{"Spawn", "Spawn", "Spawn", "End", "End", "Reopen", "Reopen", "List"}[draw.IntN(8)]
		switch {
		case op == "List":
			call = SessionCall{Owner: owner}
		case op == "Spawn" && (!known || draw.IntN(8) > 0), !known: // now and then a spawn is a repetition
			op, call = "Spawn", SessionCall{Owner: owner, Conversation: session.ConversationID(id.New())}
		}
		in := sessionOp{op, owner, call.Conversation}
		p, began := c.at(n), c.now()
		var a SessionAnswer
		if err := p.Call("Replica."+op, call, &a); err != nil {
			if !isLost(err) {
				c.t.Errorf("%s: %v", op, err)
			}
			c.add(me, in, began, sessionOut{Lost: true}, never)
			me = c.client()
			continue
		}
		slices.Sort(a.Open)
		c.add(me, in, began, sessionOut{Code: a.Code, Ended: a.Ended, Open: a.Open}, c.now())
		if op == "Spawn" && a.Code == "" {
			call.Session = a.Session
			c.note(call)
		}
	}
}

// playSessions runs a workload and returns its history, owner by owner.
func playSessions(t testing.TB, draw *rand.Rand, w workload, broken string) map[access.UserID][]porcupine.Operation {
	t.Helper()
	_, dsn := database(t)
	c := &sessionClients{
		fleet: newFleet(t, w.processes, role{DSN: dsn, Broken: broken, Limits: session.Limits{Sessions: sessionCeiling}}), history: newHistory(),
		each: w.each, known: map[access.UserID][]SessionCall{},
	}
	c.during(draw, w, c.size, c.act)
	h := map[access.UserID][]porcupine.Operation{}
	for _, owner := range owners {
		h[owner] = c.of(func(in any) bool { return in.(sessionOp).Owner == owner })
	}
	return h
}

// An owner's sessions are one set with a ceiling, whichever processes are
// asked, whatever their clocks show, and whichever of them is killed meanwhile.
func TestSessionsAreLinearizable(t *testing.T) {
	need.Long(t, "it starts several processes for each of many workloads")
	draw, did := chance(t), tally{}
	for _, w := range workloads {
		t.Run(w.String(), func(t *testing.T) {
			for owner, ops := range playSessions(t, draw, w, "") {
				did.count(ops)
				wantLinearizable(t, string(owner), sessionsModel(sessionCeiling), ops)
			}
		})
	}
	did.want(t, "Spawn", "Spawn: session_limit", "End", "End of an open one", "Reopen", "Reopen: session_limit", "List", "never answered")
}

// A ceiling that is counted before the write, and not with it, does not hold, and the model says so.
func TestCountingOutsideTheCommitIsNotLinearizable(t *testing.T) {
	need.Long(t, "it starts several processes")
	wantSomeIllegal(t, sessionsModel(sessionCeiling), playSessions(t, chance(t), workload{4, 8, 40, 0}, countsFirst))
}
