package sim

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

func (b *bank) purse(payer access.UserID) *purse {
	p := b.purses[payer]
	if p == nil {
		p = &purse{sums: map[string]billing.Micros{}, grants: map[billing.GrantID]billing.Grant{}, spent: map[int64]billing.Micros{}}
		b.purses[payer] = p
	}
	return p
}

func dayOf(t time.Time) int64 {
	day := t.Unix() / 86400
	if t.Unix() < 0 && t.Unix()%86400 != 0 {
		day--
	}
	return day
}

// standing is how an account stands now by what the bank knows, without one of its holds.
func (s *sim) standing(payer access.UserID, without billing.HoldID) billing.Standing {
	p, now := s.bank.purse(payer), s.clock()
	st := billing.Standing{Debt: -p.sums["debt:"+string(payer)], Spent: p.spent[max(p.day, dayOf(now))]}
	for id, g := range p.grants {
		if counts(g, now) {
			st.Available += p.sums["grant:"+string(id)]
		}
	}
	for _, h := range s.bank.holds {
		if h.Payer == payer && h.ID != without && h.State == billing.HoldOpen && now.Before(h.Until) {
			st.Held += h.Estimate
			st.Holds++
		}
	}
	return st
}

// counts reports whether a grant pays for what was used at that time.
func counts(g billing.Grant, at time.Time) bool {
	return !at.Before(g.GrantedAt) && (g.ExpiresAt.IsZero() || g.ExpiresAt.After(at))
}

// allowed is why an account that stands like that may go on, or not.
func allowed(st billing.Standing, t billing.Terms) billing.AdmitReason {
	switch {
	case st.Holds+1 > t.InFlight:
		return billing.RefusedInFlight
	case st.Debt > t.MaxDebt:
		return billing.RefusedDebt
	case st.Available-st.Debt-st.Held-t.Estimate <= t.Floor:
		return billing.RefusedCredit
	case t.DailyCap > 0 && st.Spent+st.Held+t.Estimate > t.DailyCap:
		return billing.RefusedDailyCap
	}
	return billing.Admitted
}

// holdPlaced compares what a hold was answered.
func (s *sim) holdPlaced(op string, q billing.HoldRequest, h billing.Hold, err error) {
	s.log("  hold: %s", class(err))
	refused, no := errors.AsType[*billing.RefusedError](err)
	was := s.bank.holds[q.ID]
	switch {
	case was != nil && err == nil && (h.State != was.State || !h.Until.Equal(was.Until)):
		s.violated("money", "hold %s is %v until %v, not %v until %v", q.ID, h.State, h.Until, was.State, was.Until)
	case was != nil && no:
		s.violated("money", "hold %s was placed before, and is refused", q.ID)
	case was != nil || err != nil && !no:
		return
	}
	reason := allowed(s.standing(q.Payer, ""), q.Terms)
	switch {
	case no && refused.Decision.Reason != reason:
		s.violated("money", "hold %s is refused (%v) where %s stands as %+v, and the terms are %+v: %v", q.ID, refused.Decision.Reason, q.Payer,
			s.standing(q.Payer, ""), q.Terms, reason)
	case no:
		s.tell("refused: " + reason.String())
	case reason != billing.Admitted:
		s.violated("money", "hold %s is placed where %s stands as %+v, and the terms are %+v: %v", q.ID, q.Payer, s.standing(q.Payer, ""), q.Terms, reason)
	case h.State != billing.HoldOpen || h.Use != q.Use || !h.Until.Equal(s.clock().Add(q.TTL)):
		s.violated("money", "hold %s was asked for as %+v and is %+v", q.ID, q, h)
	}
	if !no {
		s.bank.holds[q.ID] = &held{h, op}
		s.balanced(q.Payer)
	}
}

// holdReleased compares what a release was answered.
func (s *sim) holdReleased(id billing.HoldID, h billing.Hold, err error) {
	was := s.bank.holds[id]
	switch {
	case was == nil && !errors.Is(err, billing.ErrNotFound) || was != nil && errors.Is(err, billing.ErrNotFound):
		s.violated("money", "release of hold %s: %v, and it is %+v", id, err, was)
	case was == nil || err != nil && !errors.Is(err, billing.ErrClosed):
		return
	case errors.Is(err, billing.ErrClosed) != (was.State == billing.HoldSettled):
		s.violated("money", "release of hold %s: %v, and it was %v", id, err, was.State)
	case was.State == billing.HoldOpen && h.State != billing.HoldReleased, was.State != billing.HoldOpen && h.State != was.State:
		s.violated("money", "hold %s was %v, was released and is %v", id, was.State, h.State)
	default:
		was.State = h.State
	}
	s.balanced(was.Payer)
}

// usagesPosted compares what became of posts.
func (s *sim) usagesPosted(r *replica, op string, posts []billing.Post, out []billing.Posted) {
	written := make([]bool, len(posts))
	for i, p := range posts {
		p.From, p.To = p.From.UTC().Truncate(time.Microsecond), p.To.UTC().Truncate(time.Microsecond) // as a ledger keeps them
		written[i] = s.usagePosted(r, op, p, out[i])
	}
	for _, p := range posts {
		s.foldOne(p.Payer)
	}
	for i, p := range posts {
		if h := s.bank.holds[p.Hold]; written[i] && h != nil {
			s.goesOn(h, p, out[i])
		}
		s.balanced(p.Payer)
	}
}

// usagePosted compares what became of a post, and reports whether it moved the meter or its hold on.
func (s *sim) usagePosted(r *replica, op string, p billing.Post, out billing.Posted) bool {
	s.log("  posted: repeated %v, %v, refused %v", out.Repeated, class(out.Err), out.Refused != nil)
	key, h := p.Key(), s.bank.holds[p.Hold]
	m := s.bank.meters[key]
	fresh := m == nil
	if fresh {
		m = &meter{payer: p.Payer, first: p.From, through: p.From, spans: map[int64]time.Time{}}
	}
	mark, marked := errors.AsType[*billing.MarkError](out.Err)
	switch {
	case errors.Is(out.Err, billing.ErrClosed):
		if !m.closed && (h == nil || h.State == billing.HoldOpen || h.State == billing.HoldExpired) {
			s.violated("money", "%s of %s is refused as closed, and is not", p.Meter, tip(p.Resource))
		}
		return false
	case marked:
		if !m.closed && s.jobs[p.Resource] != nil && s.jobs[p.Resource].op == op {
			s.violated("money", "work %s posts from %v, and is billed through %v", tip(p.Resource), p.From, mark.Through)
		}
		return false
	case out.Err != nil:
		s.violated("money", "the post of %s of %s is refused: %v", p.Meter, tip(p.Resource), out.Err)
		return false
	case p.To.After(s.clock()):
		s.violated("money", "%s of %s: %v was charged that had not passed", p.Meter, tip(p.Resource), p.To.Sub(s.clock()))
	case p.To.Before(p.From):
		s.violated("money", "%s of %s: span %v to %v runs backwards", p.Meter, tip(p.Resource), p.From, p.To)
	case p.Meter == billing.MeterRuntime && p.Quantity != p.To.Sub(p.From).Microseconds():
		s.violated("money", "work %s: %v are accounted for as %d", tip(p.Resource), p.To.Sub(p.From), p.Quantity)
	}
	last, known := m.spans[p.From.UnixMicro()]
	repeated := known && last.Equal(p.To) || p.From.Equal(p.To) && p.Last && m.closed && p.To.Equal(m.through)
	switch {
	case out.Repeated != repeated:
		s.violated("money", "%s of %s, %v to %v: repeated %v, should be %v", p.Meter, tip(p.Resource), p.From, p.To, out.Repeated, repeated)
	case !repeated && m.closed:
		s.violated("money", "%s of %s is closed, and %v to %v was posted", p.Meter, tip(p.Resource), p.From, p.To)
	case !repeated && !p.From.Equal(m.through):
		s.violated("money", "%s of %s: span from %v does not begin where it is billed to, %v", p.Meter, tip(p.Resource), p.From, m.through)
	}
	if fresh {
		s.bank.meters[key] = m
		s.checkBegins(r, p)
	}
	if repeated && !(m.through.Equal(p.To) && !m.closed) {
		s.holdStays(h, out)
		return false
	}
	m.through = p.To
	if p.Last && !m.closed {
		m.closed = true
		m.finished++
		s.settles(r, p)
	}
	if p.Meter == billing.MeterStorage {
		s.checkStorage(p, m.total+p.Quantity)
	}
	if p.To.After(p.From) && !repeated {
		m.spans[p.From.UnixMicro()] = p.To
		m.total += p.Quantity
		s.checkSpan(r, p)
	}
	return true
}

// holdStays: what was repeated, and has been moved on from, changes nothing.
func (s *sim) holdStays(h *held, out billing.Posted) {
	if h != nil && (out.Hold.State != h.State || !out.Hold.Until.Equal(h.Until)) {
		s.violated("money", "hold %s was %v until %v and is %v until %v after a repeated post", h.ID, h.State, h.Until, out.Hold.State, out.Hold.Until)
	}
}

// goesOn compares what a post has made of its hold.
func (s *sim) goesOn(h *held, p billing.Post, out billing.Posted) {
	now, want := s.clock(), h.Hold
	reason := billing.Admitted
	switch {
	case p.Last && want.State == billing.HoldOpen:
		want.State = billing.HoldSettled
	case p.Last || p.Renew == 0:
	case want.State != billing.HoldOpen || !now.Before(want.Until):
		reason = billing.RefusedHoldEnded
		if want.State == billing.HoldOpen {
			want.State = billing.HoldExpired
		}
	default:
		terms := p.Terms
		terms.InFlight = math.MaxInt // it was let in already
		if reason = allowed(s.standing(h.Payer, h.ID), terms); reason == billing.Admitted && now.Add(p.Renew).After(want.Until) {
			want.Until = now.Add(p.Renew)
		}
	}
	told := billing.Admitted
	if out.Refused != nil {
		told = out.Refused.Decision.Reason
		s.tell("renewal refused: " + told.String())
	}
	if told != reason || out.Hold.State != want.State || !out.Hold.Until.Equal(want.Until) {
		s.violated("money", "hold %s goes on: %v, it is %v until %v; should be: %v, %v until %v", h.ID, told, out.Hold.State, out.Hold.Until,
			reason, want.State, want.Until)
	}
	h.Hold = want
}

// expired compares what the ledger has let expire.
func (s *sim) expired(rep billing.ExpireReport, lateness time.Duration, limit int) {
	now := s.clock()
	var due []*held
	for _, h := range s.bank.holds {
		if h.State == billing.HoldOpen && !now.Before(h.Until) {
			due = append(due, h)
		}
	}
	slices.SortFunc(due, func(a, b *held) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.ID, b.ID)) })
	due = due[:min(limit, len(due))]
	for _, h := range due {
		h.State = billing.HoldExpired
		s.tell("hold expired")
	}
	if rep.Holds != len(due) {
		s.violated("money", "%d holds are let expire, should be %d", rep.Holds, len(due))
	}
	grants, taken := 0, map[access.UserID]int64{}
	for payer, p := range s.bank.purses {
		taken[payer] = p.entries
		for id, g := range p.grants {
			if left := p.sums["grant:"+string(id)]; left > 0 && !g.ExpiresAt.IsZero() && !now.Before(g.ExpiresAt.Add(lateness)) {
				grants++
			}
		}
	}
	s.fold()
	for payer, p := range s.bank.purses {
		grants -= int(p.entries - taken[payer])
	}
	if grants != 0 && rep.Grants < limit {
		s.violated("money", "%d grants more should have been taken back", grants)
	}
}
