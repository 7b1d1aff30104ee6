package billingtest

import (
	"context"
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

func (b *bench) unexported(limit int) []billing.Entry {
	b.Helper()
	got, err := b.ledger.Unexported(b.Context(), limit)
	if err != nil {
		b.Fatalf("Unexported(%d): %v", limit, err)
	}
	if len(got) > limit {
		b.Fatalf("Unexported(%d): %d entries", limit, len(got))
	}
	return got
}

// exported marks some as exported.
func (b *bench) exported(some ...billing.Entry) {
	b.Helper()
	var ids []string
	for _, e := range some {
		ids = append(ids, e.ID)
	}
	if err := b.ledger.Exported(b.Context(), ids); err != nil {
		b.Fatalf("Exported: %v", err)
	}
}

// sink is an exporter that fails at its nth call.
type sink struct {
	calls, failAt int
	got           map[string]int
}

var errSink = errors.New("billingtest: the exporter is away")

func (s *sink) Export(_ context.Context, events []billing.Entry) error {
	s.calls++
	for _, e := range events {
		s.got[e.ID]++
	}
	if s.calls == s.failAt {
		return errSink
	}
	return nil
}

func exportChecks() []check {
	return []check{
		{"unexported", "Usage entries that were not exported are listed as they are in the book, the oldest first, of all accounts, at most so many; nothing else is an event.", func(b *bench) {
			b.give(alice, 100, func(g *billing.Grant) { g.ExpiresAt = b.now().Add(time.Second) })
			b.spend(bob, 1)
			b.clock.Step(time.Minute)
			b.spend(alice, 2)
			b.clock.Step(time.Minute)
			b.spend(bob, 3)
			b.swept(0)
			want := append([]billing.Entry{b.statement(bob)[0]}, b.statement(alice)[1], b.statement(bob)[1])
			b.same("unexported", b.unexported(10), want)
			b.same("the first two", b.unexported(2), want[:2])
			b.same("the first two again, for they were not marked", b.unexported(2), want[:2])
		}},
		{"exported", "What is marked as exported is not listed any more, twice succeeds, and the rest stays.", func(b *bench) {
			for range 5 {
				b.spend(alice, 1)
				b.clock.Step(time.Second)
			}
			all := b.unexported(10)
			b.exported(all[1], all[3])
			b.exported(all[3])
			b.same("unexported", b.unexported(10), []billing.Entry{all[0], all[2], all[4]})
			b.exported(all[0], all[1], all[2])
			b.same("unexported", b.unexported(10), all[4:])
			b.spend(alice, 1)
			if got := b.unexported(10); len(got) != 2 {
				b.Errorf("unexported: %+v, want what was left and what is new", got)
			}
		}},
		{"exported-once", "A span that is posted again after it was exported is no new event.", func(b *bench) {
			p := span(b.use(alice), b.now().Add(-time.Hour), time.Minute, 1)
			b.post(p)
			b.exported(b.unexported(10)...)
			b.post(p)
			b.same("unexported", len(b.unexported(10)), 0)
		}},
		{"deliver", "Events are handed over at least once, with the same ids, and none is left out, whenever the exporter fails.", func(b *bench) {
			at := b.now().Add(-time.Hour)
			var posts []billing.Post
			for range 250 {
				posts = append(posts, span(b.use(alice), at, time.Minute, 1))
			}
			b.posts(posts...)
			to := &sink{failAt: 2, got: map[string]int{}}
			rep, err := billing.Deliver(b.Context(), b.ledger, to)
			if !errors.Is(err, errSink) || rep.Delivered != 100 {
				b.Errorf("Deliver: %+v, %v, want 100 and the exporter's error", rep, err)
			}
			rep, err = billing.Deliver(b.Context(), b.ledger, to)
			if err != nil || rep.Delivered != 150 {
				b.Errorf("Deliver: %+v, %v, want 150", rep, err)
			}
			twice := 0
			for _, p := range posts {
				switch n := to.got[billing.UsageID(p.Key(), p.From)]; n {
				case 1:
				case 2:
					twice++
				default:
					b.Errorf("%s was handed over %d times", p.Resource, n)
				}
			}
			if len(to.got) != len(posts) || twice != 100 {
				b.Errorf("%d events, %d of them twice, want %d and 100", len(to.got), twice, len(posts))
			}
		}},
	}
}
