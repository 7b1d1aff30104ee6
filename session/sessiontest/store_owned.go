package sessiontest

import (
	"errors"
	"slices"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// owned lists what a purge of t deletes.
func (b *storeBench) owned(t session.PurgeTarget, limit int) []session.Address {
	b.Helper()
	got, err := b.store.Owned(b.Context(), t, limit)
	if err != nil {
		b.Fatalf("Owned(%+v, %d): %v", t, limit, err)
	}
	if len(got) > limit {
		b.Fatalf("Owned(%+v, %d): got %d", t, limit, len(got))
	}
	return got
}

// rank orders the kinds of addresses as a purge deletes them.
func rank(t session.PurgeTarget, a session.Address) int {
	switch {
	case a.Conversation != "" && t.Session != "": // without their session nobody would know that they were its own
		return 0
	case a.Session != "":
		return 1
	case a.Environment != "":
		return 2
	}
	return 3
}

// estate is what belongs to several people in several projects.
type estate struct {
	own, other room   // alice's own, and bob's
	mine, his  room   // in project: alice's, and bob's with a conversation of alice's
	far        room   // alice's in another project
	common     shared // in project
	dead       shared // likewise, deleted
	farCommon  shared
	loan       room // bob's, which borrows common
	farLoan    room // alice's, which borrows farCommon

	guest   session.Conversation // alice's, in his
	visitor session.Conversation // bob's, in mine
	unbound session.Conversation // alice's own, bound to none
	lost    session.Conversation // bob's, of project, bound to none
}

func (b *storeBench) estate() estate {
	b.Helper()
	farther := func(c *session.Change) { c.Environment.Project = "far" }
	e := estate{
		own: b.room(machine(sandbox.Live, alice)), other: b.room(owned(bob)),
		mine: b.room(placed(project, alice)), his: b.room(both(placed(project, bob), ended)),
		far:    b.room(placed("far", alice)),
		common: b.shared(machine(sandbox.Live, alice)), dead: b.shared(func(c *session.Change) { c.Retire = true }), farCommon: b.shared(farther),
	}
	e.loan = b.borrower(e.common, owned(bob))
	e.farLoan = b.borrower(e.farCommon, placed("far", alice))
	insert := func(v *session.Conversation) session.Conversation {
		b.commit(session.Change{Conversation: v})
		return b.load(session.Address{Conversation: v.ID}).Conversation
	}
	guest, visitor := b.thread(e.his.session), b.thread(e.mine.session)
	guest.Owner, visitor.Owner = alice, bob
	lost := b.thread(session.Session{Owner: bob})
	lost.Project = project
	e.guest, e.visitor, e.unbound, e.lost = insert(guest), insert(visitor), insert(b.thread(session.Session{})), insert(lost)
	return e
}

// addresses are all that an estate consists of.
func (e estate) addresses() (all []session.Address) {
	for _, r := range []room{e.own, e.other, e.mine, e.his, e.far, e.loan, e.farLoan} {
		all = append(all, r.address(), thread(r.conversation))
	}
	for _, s := range []shared{e.common, e.dead, e.farCommon} {
		all = append(all, s.address())
	}
	return append(all, thread(e.guest), thread(e.visitor), thread(e.unbound), thread(e.lost))
}

func thread(v session.Conversation) session.Address { return session.Address{Conversation: v.ID} }

// purges are all targets with what they own.
func (e estate) purges() []struct {
	target session.PurgeTarget
	want   []session.Address
} {
	type list = []session.Address
	return []struct {
		target session.PurgeTarget
		want   list
	}{
		{session.PurgeTarget{Session: e.his.session.ID}, list{e.his.address()}},
		{session.PurgeTarget{Session: e.his.session.ID, History: true}, list{e.his.address(), thread(e.his.conversation), thread(e.guest)}},
		{session.PurgeTarget{Session: e.loan.session.ID, History: true}, list{e.loan.address(), thread(e.loan.conversation)}}, // not what it borrows
		{session.PurgeTarget{Project: project}, list{e.mine.address(), e.his.address(), e.loan.address(), e.common.address(), e.dead.address()}},
		{session.PurgeTarget{Project: project, History: true}, list{
			e.mine.address(), e.his.address(), e.loan.address(), e.common.address(), e.dead.address(),
			thread(e.mine.conversation), thread(e.his.conversation), thread(e.loan.conversation), thread(e.guest), thread(e.visitor), thread(e.lost),
		}},
		{session.PurgeTarget{User: alice}, list{e.own.address(), e.mine.address(), e.far.address(), e.farLoan.address()}},
		{session.PurgeTarget{User: alice, History: true}, list{
			e.own.address(), e.mine.address(), e.far.address(), e.farLoan.address(),
			thread(e.own.conversation), thread(e.mine.conversation), thread(e.far.conversation), thread(e.farLoan.conversation), thread(e.guest), thread(e.unbound),
		}},
		{session.PurgeTarget{Session: session.ID(absent), History: true}, nil},
		{session.PurgeTarget{Project: "nobody's", History: true}, nil},
		{session.PurgeTarget{User: "nobody", History: true}, nil},
	}
}

// absent is an id that is never minted.
const absent = "01990000-0000-7000-8000-ffffffffffff"

func ownedChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"owned", "Owned lists what a purge deletes and nothing of anybody else: sessions, then environments, then conversations where History asks for them; of one session its conversations come first.", func(b *storeBench) {
			e := b.estate()
			for _, p := range e.purges() {
				got := b.owned(p.target, 100)
				if !slices.IsSortedFunc(got, func(x, y session.Address) int { return rank(p.target, x) - rank(p.target, y) }) {
					b.Errorf("Owned(%+v) is in no order to delete in: %+v", p.target, got)
				}
				b.sameSet(p.target, got, p.want)
			}
		}},
		{"owned-limit", "Owned lists at most limit, the first of what it would list, and less only where there is no more.", func(b *storeBench) {
			e := b.estate()
			for _, p := range e.purges() {
				for limit := 1; limit <= len(p.want)+1; limit++ {
					got := b.owned(p.target, limit)
					if len(got) != min(limit, len(p.want)) {
						b.Errorf("Owned(%+v, %d): got %d of %d", p.target, limit, len(got), len(p.want))
					}
					last := 0
					for _, a := range got {
						if !slices.Contains(p.want, a) {
							b.Errorf("Owned(%+v, %d): got %+v", p.target, limit, a)
						}
						last = max(last, rank(p.target, a))
					}
					for _, a := range p.want { // nothing that goes before the last of them is left out
						if rank(p.target, a) < last && !slices.Contains(got, a) {
							b.Errorf("Owned(%+v, %d): %+v was left out, and something later was not", p.target, limit, a)
						}
					}
				}
			}
		}},
		{"owned-purge", "To delete what Owned lists, again and again, purges a target to the last row and touches nothing else: machines are buried, and without History conversations stay, bound to none. (S-03)", func(b *storeBench) {
			for i, p := range (estate{}).purges() {
				b.purges(i, 1)
				if p.target.Project != "" && p.target.History { // of every kind: also all in one change
					b.purges(i, 100)
				}
				if b.Failed() {
					return
				}
			}
		}},
		{"owned-bad-input", "A target that names none or several, and a limit below one, are *access.FieldError.", func(b *storeBench) {
			b.estate()
			for _, x := range []struct {
				target session.PurgeTarget
				limit  int
			}{
				{session.PurgeTarget{}, 1}, {session.PurgeTarget{History: true}, 1},
				{session.PurgeTarget{Project: project, User: alice}, 1}, {session.PurgeTarget{Session: absent, User: alice}, 1}, {session.PurgeTarget{Session: absent, Project: project}, 1},
				{session.PurgeTarget{User: alice}, 0}, {session.PurgeTarget{User: alice}, -1},
			} {
				if got, err := b.store.Owned(b.Context(), x.target, x.limit); !errors.As(err, new(*access.FieldError)) {
					b.Errorf("Owned(%+v, %d): got %+v and error %v, want a *access.FieldError", x.target, x.limit, got, err)
				}
			}
		}},
	}
}

// sameSet expects got to be want, in whatever order.
func (b *storeBench) sameSet(t session.PurgeTarget, got, want []session.Address) {
	b.Helper()
	for _, a := range got {
		if !slices.Contains(want, a) {
			b.Errorf("Owned(%+v): got %+v, which is not its own", t, a)
		}
	}
	for _, a := range want {
		if !slices.Contains(got, a) {
			b.Errorf("Owned(%+v): %+v is missing", t, a)
		}
	}
	if len(got) != len(want) {
		b.Errorf("Owned(%+v): got %d addresses, want %d", t, len(got), len(want))
	}
}

// purge deletes what t owns, limit rows at a time.
func (b *storeBench) purge(t session.PurgeTarget, limit int) {
	b.Helper()
	for range 100 {
		left := b.owned(t, limit)
		if len(left) == 0 {
			return
		}
		b.commit(session.Change{Delete: left})
	}
	b.Fatalf("purge of %+v: no end, %d rows at a time", t, limit)
}

// purges carries out the purge with number i of an estate, limit rows at a
// time, and looks at what is left; then it purges the rest, so that the next
// estate is the only one.
func (b *storeBench) purges(i, limit int) {
	b.Helper()
	e := b.estate()
	p := e.purges()[i]
	before := map[session.Address]session.Snapshot{}
	for _, a := range e.addresses() {
		before[a] = b.seen(a)
	}
	b.purge(p.target, limit)
	for _, a := range e.addresses() {
		got, err := b.store.Load(b.Context(), a)
		want := before[a]
		switch {
		case slices.Contains(p.want, a):
			if !errors.Is(err, session.ErrNotFound) {
				b.Errorf("purged %+v: %+v is still there (%v)", p.target, a, err)
			}
			continue
		case err != nil:
			b.Errorf("purged %+v: %+v: %v", p.target, a, err)
			continue
		case a.Conversation != "" && slices.Contains(p.want, session.Address{Session: want.Session.ID}):
			v := want.Conversation
			v.Session = ""
			want = session.Snapshot{Conversation: v}
		}
		want.Now = got.Now
		b.same("what is not purged", got, want)
	}
	machines := 0
	for _, a := range []session.Address{e.own.address(), e.common.address()} {
		if slices.Contains(p.want, a) {
			machines++
		}
	}
	if out := b.outbox(); len(out) != machines {
		b.Errorf("purged %+v: %d tombstones, want %d", p.target, len(out), machines)
	}
	for _, t := range []session.PurgeTarget{
		{User: alice, History: true}, {User: bob, History: true}, {Project: project, History: true}, {Project: "far", History: true},
	} {
		b.purge(t, 100)
	}
	out := b.outbox()
	if len(out) != 2 {
		b.Errorf("purged all: %d tombstones, want 2", len(out))
	}
	b.commit(session.Change{Prove: out})
}
