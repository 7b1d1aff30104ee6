package billingtest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// wrapped is a sound ledger of which some methods are replaced.
type wrapped struct {
	billing.Ledger
	hold       func(context.Context, billing.HoldRequest) (billing.Hold, error)
	post       func(context.Context, ...billing.Post) ([]billing.Posted, error)
	release    func(context.Context, billing.HoldID) (billing.Hold, error)
	grant      func(context.Context, billing.Grant) (billing.Grant, error)
	balance    func(context.Context, access.UserID) (billing.Balance, error)
	statement  func(context.Context, billing.StatementQuery) (billing.StatementPage, error)
	payers     func(context.Context, access.UserID, int) ([]access.UserID, error)
	marks      func(context.Context, []billing.MarkKey) ([]billing.Mark, error)
	holds      func(context.Context, string) ([]billing.Hold, error)
	unexported func(context.Context, int) ([]billing.Entry, error)
	exported   func(context.Context, []string) error
	expire     func(context.Context, time.Duration, int) (billing.ExpireReport, error)
}

// with is a sound ledger with other methods.
func with(replace func(*wrapped)) func(*Clock) billing.Ledger {
	return func(clock *Clock) billing.Ledger {
		l := sound(clock)
		w := &wrapped{
			l, l.Hold, l.Post, l.Release, l.Grant, l.Balance, l.Statement, l.Payers, l.Marks, l.Holds, l.Unexported, l.Exported, l.Expire,
		}
		replace(w)
		return w
	}
}

func (w *wrapped) Hold(ctx context.Context, r billing.HoldRequest) (billing.Hold, error) {
	return w.hold(ctx, r)
}

func (w *wrapped) Post(ctx context.Context, posts ...billing.Post) ([]billing.Posted, error) {
	return w.post(ctx, posts...)
}

func (w *wrapped) Release(ctx context.Context, id billing.HoldID) (billing.Hold, error) {
	return w.release(ctx, id)
}

func (w *wrapped) Grant(ctx context.Context, g billing.Grant) (billing.Grant, error) {
	return w.grant(ctx, g)
}

func (w *wrapped) Balance(ctx context.Context, payer access.UserID) (billing.Balance, error) {
	return w.balance(ctx, payer)
}

func (w *wrapped) Statement(ctx context.Context, q billing.StatementQuery) (billing.StatementPage, error) {
	return w.statement(ctx, q)
}

func (w *wrapped) Payers(ctx context.Context, after access.UserID, limit int) ([]access.UserID, error) {
	return w.payers(ctx, after, limit)
}

func (w *wrapped) Marks(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
	return w.marks(ctx, keys)
}

func (w *wrapped) Holds(ctx context.Context, resource string) ([]billing.Hold, error) {
	return w.holds(ctx, resource)
}

func (w *wrapped) Unexported(ctx context.Context, limit int) ([]billing.Entry, error) {
	return w.unexported(ctx, limit)
}

func (w *wrapped) Exported(ctx context.Context, ids []string) error { return w.exported(ctx, ids) }

func (w *wrapped) Expire(ctx context.Context, lateness time.Duration, limit int) (billing.ExpireReport, error) {
	return w.expire(ctx, lateness, limit)
}

// posting replaces how a sound ledger posts.
func posting(post func(ctx context.Context, l billing.Ledger, posts []billing.Post) ([]billing.Posted, error)) func(*Clock) billing.Ledger {
	return with(func(w *wrapped) {
		w.post = func(ctx context.Context, posts ...billing.Post) ([]billing.Posted, error) {
			return post(ctx, w.Ledger, posts)
		}
	})
}

// eachPost changes every post on its way in.
func eachPost(change func(*billing.Post)) func(*Clock) billing.Ledger {
	return posting(func(ctx context.Context, l billing.Ledger, posts []billing.Post) ([]billing.Posted, error) {
		posts = slices.Clone(posts)
		for i := range posts {
			change(&posts[i])
		}
		return l.Post(ctx, posts...)
	})
}

var errBatch = errors.New("test: the whole batch is off")

// Ledgers that keep their rows well and answer wrong.
func TestBrokenCallsFail(t *testing.T) {
	judge(t, []broken{
		{"forgets the floor", with(func(w *wrapped) {
			w.hold = func(ctx context.Context, r billing.HoldRequest) (billing.Hold, error) {
				r.Terms.Floor = min(r.Terms.Floor, -1_000_000)
				return w.Ledger.Hold(ctx, r)
			}
		}), []string{"hold-credit", "hold-unknown", "hold-overdraft", "race-hold"}},
		{"posts one at a time", posting(func(ctx context.Context, l billing.Ledger, posts []billing.Post) (all []billing.Posted, _ error) {
			for _, p := range posts {
				some, err := l.Post(ctx, p)
				if err != nil {
					return nil, err
				}
				all = append(all, some...)
			}
			return all, nil
		}), []string{"cut-post", "input-limits"}},
		{"posts nothing where one post is bad", posting(func(ctx context.Context, l billing.Ledger, posts []billing.Post) ([]billing.Posted, error) {
			for _, p := range posts {
				if p.Payer == "" {
					return nil, errBatch
				}
			}
			return l.Post(ctx, posts...)
		}), []string{"many-bad", "input-post"}},
		{"stops at the first bad post", posting(func(ctx context.Context, l billing.Ledger, posts []billing.Post) ([]billing.Posted, error) {
			for i, p := range posts {
				if p.Payer == "" {
					all, err := l.Post(ctx, posts[:i]...)
					for range posts[i:] {
						all = append(all, billing.Posted{Err: &access.FieldError{Field: "Payer"}})
					}
					return all, err
				}
			}
			return l.Post(ctx, posts...)
		}), []string{"many-bad", "input-post"}},
		{"answers posts in another order", posting(func(ctx context.Context, l billing.Ledger, posts []billing.Post) ([]billing.Posted, error) {
			all, err := l.Post(ctx, posts...)
			slices.SortStableFunc(all, func(a, b billing.Posted) int { return cmp.Compare(b.Charged, a.Charged) })
			return all, err
		}), []string{"many"}},
		{"begins a post where the watermark is", posting(func(ctx context.Context, l billing.Ledger, posts []billing.Post) ([]billing.Posted, error) {
			posts = slices.Clone(posts)
			for i, p := range posts {
				if m, err := l.Marks(ctx, []billing.MarkKey{p.Key()}); err == nil && !m[0].Through.IsZero() {
					posts[i].From = m[0].Through
					posts[i].To = later(p.To, m[0].Through)
				}
			}
			return l.Post(ctx, posts...)
		}), []string{"post-mark", "post-again", "post-overtaken"}},
		{"settles nothing", eachPost(func(p *billing.Post) { p.Last = false }), []string{"settle", "post-last", "expired-final"}},
		{"posts to no hold that has expired", with(func(w *wrapped) {
			w.post = func(ctx context.Context, posts ...billing.Post) ([]billing.Posted, error) {
				b, err := w.Ledger.Balance(ctx, "nobody")
				for _, p := range posts {
					holds, holdsErr := w.Ledger.Holds(ctx, p.Resource)
					err = errors.Join(err, holdsErr)
					for _, h := range holds {
						if h.ID == p.Hold && !b.Now.Before(h.Until) {
							return []billing.Posted{{Err: billing.ErrClosed}}, err
						}
					}
				}
				if err != nil {
					return nil, err
				}
				return w.Ledger.Post(ctx, posts...)
			}
		}), []string{"expired-final", "settle-late", "renew-ended"}},
		{"goes on without asking", eachPost(func(p *billing.Post) { p.Terms.Floor, p.Terms.InFlight = -1_000_000, 1_000_000 }), []string{"renew-refused"}},
		{"asks what goes on how much is in flight", posting(func(ctx context.Context, l billing.Ledger, posts []billing.Post) ([]billing.Posted, error) {
			posts = slices.Clone(posts)
			for i, p := range posts {
				b, err := l.Balance(ctx, p.Payer)
				if err != nil {
					return nil, err
				}
				if p.Renew > 0 && b.Holds > p.Terms.InFlight {
					posts[i].Terms.Floor = 1 << 60
				}
			}
			return l.Post(ctx, posts...)
		}), []string{"renew-in-flight"}},
		{"takes what another has paid for as its own", posting(func(ctx context.Context, l billing.Ledger, posts []billing.Post) ([]billing.Posted, error) {
			all, err := l.Post(ctx, posts...)
			for i, p := range posts {
				marks, marksErr := l.Marks(ctx, []billing.MarkKey{p.Key()})
				if err = errors.Join(err, marksErr); err != nil {
					return nil, err
				}
				if errors.As(all[i].Err, new(*billing.MarkError)) && marks[0].Through.Equal(p.To) && p.Payer == bob {
					all[i] = billing.Posted{Repeated: true}
				}
			}
			return all, err
		}), []string{"post-other-payer"}},
		{"gives what has expired", with(func(w *wrapped) {
			w.grant = func(ctx context.Context, g billing.Grant) (billing.Grant, error) {
				is, err := w.Ledger.Grant(ctx, g)
				if outcome(err) == "field ExpiresAt" && g.ExpiresAt.After(g.GrantedAt) {
					g.ExpiresAt = time.Time{}
					return w.Ledger.Grant(ctx, g)
				}
				return is, err
			}
		}), []string{"grant-expired"}},
		{"repays with what counts later", with(func(w *wrapped) {
			w.grant = func(ctx context.Context, g billing.Grant) (billing.Grant, error) {
				if g.Repay {
					g.GrantedAt = time.Time{}
				}
				return w.Ledger.Grant(ctx, g)
			}
		}), []string{"charge-repay-later"}},
		{"never goes on", eachPost(func(p *billing.Post) { p.Renew = 0 }), []string{"renew", "renew-refused", "renew-again", "renew-begun"}},
		{"takes the clock on the wall for UTC", eachPost(func(p *billing.Post) { p.From, p.To = onTheWall(p.From), onTheWall(p.To) }), []string{"post-zones"}},
		{"answers in the zone it is in", with(func(w *wrapped) {
			w.marks = func(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
				all, err := w.Ledger.Marks(ctx, keys)
				for i := range all {
					all[i].Through = all[i].Through.In(time.FixedZone("IST", 19_800))
				}
				return all, err
			}
		}), []string{"post", "marks", "post-zones"}},
		{"releases what is settled", with(func(w *wrapped) {
			w.release = func(ctx context.Context, id billing.HoldID) (billing.Hold, error) {
				h, err := w.Ledger.Release(ctx, id)
				if errors.Is(err, billing.ErrClosed) {
					err = nil
				}
				return h, err
			}
		}), []string{"settled-final"}},
		{"gives each purchase it is told of", with(func(w *wrapped) {
			n := ""
			w.grant = func(ctx context.Context, g billing.Grant) (billing.Grant, error) {
				n += "'"
				id := g.ID
				g.ID += billing.GrantID(n)
				g, err := w.Ledger.Grant(ctx, g)
				if g.ID != "" {
					g.ID = id
				}
				return g, err
			}
		}), []string{"grant-again", "grant-other", "grant-again-expired"}},
		{"leaves debt out of the balance", with(func(w *wrapped) {
			w.balance = func(ctx context.Context, payer access.UserID) (billing.Balance, error) {
				b, err := w.Ledger.Balance(ctx, payer)
				b.Debt = 0
				return b, err
			}
		}), []string{"balance", "charge-debt"}},
		{"leaves out of the balance what counts later", with(func(w *wrapped) {
			w.balance = func(ctx context.Context, payer access.UserID) (billing.Balance, error) {
				b, err := w.Ledger.Balance(ctx, payer)
				b.Grants = slices.DeleteFunc(b.Grants, func(g billing.Grant) bool { return g.GrantedAt.After(b.Now) })
				return b, err
			}
		}), []string{"balance", "burn-future"}},
		{"skips an entry between pages", with(func(w *wrapped) {
			w.statement = func(ctx context.Context, q billing.StatementQuery) (billing.StatementPage, error) {
				if q.After > 0 {
					q.After++
				}
				return w.Ledger.Statement(ctx, q)
			}
		}), []string{"statement-pages", "statement-after"}},
		{"has another page after the last", with(func(w *wrapped) {
			w.statement = func(ctx context.Context, q billing.StatementQuery) (billing.StatementPage, error) {
				page, err := w.Ledger.Statement(ctx, q)
				if len(page.Items) == q.Limit {
					page.Next = page.Items[q.Limit-1].N
				}
				return page, err
			}
		}), []string{"statement-pages"}},
		{"lists payers as a dictionary does", with(func(w *wrapped) {
			w.payers = func(ctx context.Context, after access.UserID, limit int) ([]access.UserID, error) {
				all, err := w.Ledger.Payers(ctx, after, limit)
				slices.SortStableFunc(all, func(a, b access.UserID) int {
					return cmp.Compare(strings.ToLower(string(a)), strings.ToLower(string(b)))
				})
				return all, err
			}
		}), []string{"payers"}},
		{"answers watermarks in its own order", with(func(w *wrapped) {
			w.marks = func(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
				all, err := w.Ledger.Marks(ctx, keys)
				slices.SortFunc(all, func(a, b billing.Mark) int {
					return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Meter, b.Meter))
				})
				return all, err
			}
		}), []string{"marks"}},
		{"answers watermarks that are there only", with(func(w *wrapped) {
			w.marks = func(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
				all, err := w.Ledger.Marks(ctx, keys)
				return slices.DeleteFunc(all, func(m billing.Mark) bool { return m.Through.IsZero() }), err
			}
		}), []string{"marks", "post"}},
		{"lists open holds only", with(func(w *wrapped) {
			w.holds = func(ctx context.Context, resource string) ([]billing.Hold, error) {
				all, err := w.Ledger.Holds(ctx, resource)
				return slices.DeleteFunc(all, func(h billing.Hold) bool { return h.State != billing.HoldOpen }), err
			}
		}), []string{"holds", "release", "settle"}},
		{"lists holds the newest first", with(func(w *wrapped) {
			w.holds = func(ctx context.Context, resource string) ([]billing.Hold, error) {
				all, err := w.Ledger.Holds(ctx, resource)
				slices.Reverse(all)
				return all, err
			}
		}), []string{"holds"}},
		{"lists events the newest first", with(func(w *wrapped) {
			w.unexported = func(ctx context.Context, limit int) ([]billing.Entry, error) {
				all, err := w.Ledger.Unexported(ctx, limit)
				slices.Reverse(all)
				return all, err
			}
		}), []string{"unexported"}},
		{"forgets what was exported", with(func(w *wrapped) {
			w.exported = func(context.Context, []string) error { return nil }
		}), []string{"exported", "exported-once", "many-most"}},
		{"marks all as exported", with(func(w *wrapped) {
			w.exported = func(ctx context.Context, _ []string) error {
				all, err := w.Ledger.Unexported(ctx, billing.MaxPosts)
				var ids []string
				for _, e := range all {
					ids = append(ids, e.ID)
				}
				return errors.Join(err, w.Ledger.Exported(ctx, ids))
			}
		}), []string{"exported", "deliver"}},
		{"waits for nothing late", with(func(w *wrapped) {
			w.expire = func(ctx context.Context, _ time.Duration, limit int) (billing.ExpireReport, error) {
				return w.Ledger.Expire(ctx, 0, limit)
			}
		}), []string{"expire-grants", "input-limits"}},
		{"closes all at once", with(func(w *wrapped) {
			w.expire = func(ctx context.Context, lateness time.Duration, _ int) (billing.ExpireReport, error) {
				return w.Ledger.Expire(ctx, lateness, billing.MaxPosts)
			}
		}), []string{"expire-capped", "input-limits"}},
		{"does not say that there is more", with(func(w *wrapped) {
			w.expire = func(ctx context.Context, lateness time.Duration, limit int) (billing.ExpireReport, error) {
				rep, err := w.Ledger.Expire(ctx, lateness, limit)
				rep.Capped = false
				return rep, err
			}
		}), []string{"expire-capped"}},
		{"goes on after its caller has gone", with(func(w *wrapped) {
			w.post = func(ctx context.Context, posts ...billing.Post) ([]billing.Posted, error) {
				return w.Ledger.Post(context.WithoutCancel(ctx), posts...)
			}
		}), []string{"cancelled"}},
		{"says that nothing happened where it does not know", with(func(w *wrapped) {
			w.grant = func(ctx context.Context, g billing.Grant) (billing.Grant, error) {
				is, err := w.Ledger.Grant(context.WithoutCancel(ctx), g)
				return is, errors.Join(err, ctx.Err())
			}
		}), []string{"cut-grant"}},
	})
}

// onTheWall is what somebody reads off a clock on the wall and takes for UTC.
func onTheWall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
