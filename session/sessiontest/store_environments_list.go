package sessiontest

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

// environmentPage reads one page.
func (b *storeBench) environmentPage(q session.EnvironmentQuery) session.EnvironmentPage {
	b.Helper()
	p, err := b.store.Environments(b.Context(), q)
	if err != nil {
		b.Fatalf("Environments(%+v): %v", q, err)
	}
	if len(p.Items) > q.Limit {
		b.Fatalf("Environments(%+v): a page of %d items", q, len(p.Items))
	}
	return p
}

// environmentsBy reads all environments of p, calling between after each page but the last.
func (b *storeBench) environmentsBy(limit int, p access.ProjectID, between func()) []session.EnvironmentSummary {
	b.Helper()
	var found []session.EnvironmentSummary
	q := session.EnvironmentQuery{Project: p, Limit: limit}
	for range 1000 {
		page := b.environmentPage(q)
		found = append(found, page.Items...)
		if page.Next == "" {
			return found
		}
		if len(page.Items) < limit {
			b.Fatalf("a page of %d environments, fewer than asked for, is not the last", len(page.Items))
		}
		if between != nil {
			between()
		}
		q.After = page.Next
	}
	b.Fatalf("a thousand pages, and no end")
	return nil
}

// environments are all environments of p.
func (b *storeBench) environments(p access.ProjectID) []session.EnvironmentSummary {
	b.Helper()
	return b.environmentsBy(session.MaxListed, p, nil)
}

func environmentListChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"environments-order", "Environments are listed by (CreatedAt, ID), both descending, on pages of whatever size.", func(b *storeBench) {
			var want []session.EnvironmentSummary
			for i := range 11 {
				want = append(want, session.EnvironmentSummary{Environment: b.shared(nil).environment})
				if i%4 == 3 {
					b.clock.Step(time.Minute)
				}
			}
			slices.SortFunc(want, func(x, y session.EnvironmentSummary) int {
				return cmp.Or(y.Environment.CreatedAt.Compare(x.Environment.CreatedAt), cmp.Compare(y.Environment.ID, x.Environment.ID))
			})
			for _, limit := range []int{1, 4, 11, session.MaxListed} {
				b.same("list", b.environmentsBy(limit, project, nil), want)
			}
		}},
		{"environments-pages", "Pages repeat nothing and leave nothing out, whatever is opened, renamed or deleted in between.", func(b *storeBench) {
			var all []shared
			for i := range 10 {
				all = append(all, b.shared(nil))
				if i%3 == 0 {
					b.clock.Step(time.Second)
				}
			}
			b.clock.Step(time.Second)
			n, seen := 0, map[session.EnvironmentID]int{}
			for _, it := range b.environmentsBy(3, project, func() {
				n++
				b.shared(nil) // newer than all pages to come
				renamed, deleted := b.load(all[9].address()).Environment, b.load(all[8].address()).Environment
				renamed.Name = "renamed"
				b.commit(session.Change{Environment: &renamed}) // on the first page, as what is deleted
				b.commit(session.Change{Environment: &deleted, Retire: true})
			}) {
				seen[it.Environment.ID]++
			}
			if n < 3 {
				b.Fatalf("%d pages: the check is about more", n)
			}
			for _, e := range all {
				if got := seen[e.environment.ID]; got != 1 {
					b.Errorf("environment %s was listed %d times", e.environment.ID, got)
				}
			}
		}},
		{"environments-last-page", "Next is empty on the last page, be it full or not; without any environments the first page is the last.", func(b *storeBench) {
			if p := b.environmentPage(session.EnvironmentQuery{Project: project, Limit: 4}); len(p.Items) != 0 || p.Next != "" {
				b.Errorf("of nothing: got %+v", p)
			}
			for range 4 {
				b.shared(nil)
			}
			if p := b.environmentPage(session.EnvironmentQuery{Project: project, Limit: 4}); len(p.Items) != 4 || p.Next != "" {
				b.Errorf("of all four: got %d items, next %q", len(p.Items), p.Next)
			}
			p := b.environmentPage(session.EnvironmentQuery{Project: project, Limit: 2})
			if len(p.Items) != 2 || p.Next == "" {
				b.Fatalf("of two of four: got %d items, next %q", len(p.Items), p.Next)
			}
			if p = b.environmentPage(session.EnvironmentQuery{Project: project, Limit: 2, After: p.Next}); len(p.Items) != 2 || p.Next != "" {
				b.Errorf("of the other two: got %d items, next %q", len(p.Items), p.Next)
			}
		}},
		{"environments-of-a-project", "A list is of one project, and shows nothing that was deleted.", func(b *storeBench) {
			mine := b.shared(nil)
			far := b.shared(func(c *session.Change) { c.Environment.Project = "far" })
			dead := b.shared(func(c *session.Change) { c.Retire = true })
			b.borrower(dead, nil) // whoever borrows it
			b.same("project", b.environments(project), []session.EnvironmentSummary{{Environment: mine.environment}})
			b.same("another", b.environments("far"), []session.EnvironmentSummary{{Environment: far.environment}})
			b.same("a third", b.environments("none"), []session.EnvironmentSummary(nil))
			gone := mine.environment
			b.commit(session.Change{Environment: &gone, Retire: true})
			b.same("project, all deleted", b.environments(project), []session.EnvironmentSummary(nil))
		}},
		{"environments-summary", "An environment is listed as it is loaded, with the state of its machine; one without a sandbox has none.", func(b *storeBench) {
			for i, s := range inEveryState {
				p := access.ProjectID(strings.Repeat("p", i+1))
				e := b.shared(both(machine(s, alice), func(c *session.Change) { c.Environment.Project = p }))
				b.same("list", b.environments(p), []session.EnvironmentSummary{{Environment: e.environment, Machine: s}})
			}
			c := session.Change{Environment: &session.Environment{ID: session.EnvironmentID(b.id()), Project: project}}
			want := stampedEnvironment(c, b.commit(c))
			b.same("list", b.environments(project), []session.EnvironmentSummary{{Environment: want}})
		}},
		{"environments-bad-input", "A query without a project, a Limit out of range and a malformed After are *access.FieldError, and name the field.", func(b *storeBench) {
			for range 3 {
				b.shared(nil)
			}
			fails := func(field string, q session.EnvironmentQuery) {
				b.Helper()
				var fe *access.FieldError
				if _, err := b.store.Environments(b.Context(), q); !errors.As(err, &fe) || fe.Field != field {
					b.Errorf("Environments(%+v): got error %v, want a *access.FieldError for %s", q, err, field)
				}
			}
			p := b.environmentPage(session.EnvironmentQuery{Project: project, Limit: 1})
			next := p.Next
			if id := string(p.Items[0].Environment.ID); strings.Contains(next, id) {
				b.Errorf("token %q shows the id %s: whoever sees that comes to rely on it", next, id)
			}
			for _, token := range []string{"x", "!", " ", "1", next + "!", "!" + next, next[:4], next[:len(next)/4], "' OR 1=1 --", "\x00"} {
				fails("After", session.EnvironmentQuery{Project: project, Limit: 1, After: token})
			}
			for _, limit := range []int{0, -1, session.MaxListed + 1} {
				fails("Limit", session.EnvironmentQuery{Project: project, Limit: limit})
			}
			fails("Project", session.EnvironmentQuery{Limit: 1})
		}},
	}
}
