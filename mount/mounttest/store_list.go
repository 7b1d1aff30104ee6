package mounttest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

func listChecks() []storeCheck {
	return []storeCheck{
		{"order", "List has the oldest first, page by page, each row once, and no page is short but the last (mounts trap 14)", checkOrder},
		{"filters", "List has what was asked for: of the scope, the session, the agent, and with archived ones or without", checkFilters},
		{"protected", "List leaves out protected rows before it counts, and goes by nothing but their purpose (mounts traps 11, 12)", checkProtected},
		{"bad pages", "List refuses a limit or a token that is none, and a list of every scope", checkBadPages},
	}
}

// walk lists all pages of q.
func walk(ctx context.Context, s mount.Store, q mount.ListQuery) (all []mount.Row, err error) {
	for {
		page, err := s.List(ctx, q)
		switch {
		case err != nil:
			return nil, err
		case len(page.Items) > q.Limit:
			return nil, fmt.Errorf("a page has %d rows, and %d are a page", len(page.Items), q.Limit)
		case page.Next != "" && len(page.Items) < q.Limit:
			return nil, fmt.Errorf("a page of %d rows, which are %d, is not the last one", len(page.Items), q.Limit)
		case page.Next != "" && page.Next == q.After:
			return nil, errors.New("a page is followed by itself")
		}
		all = append(all, page.Items...)
		if q.After = page.Next; q.After == "" {
			return all, nil
		}
	}
}

// listed compares what is listed, as slugs in order.
func listed(ctx context.Context, s mount.Store, q mount.ListQuery, want ...string) error {
	all, err := walk(ctx, s, q)
	if err != nil {
		return err
	}
	var got []string
	for _, r := range all {
		if r.Scope != q.Scope {
			return fmt.Errorf("%+v: a row of %s", q, r.Scope)
		}
		got = append(got, r.Slug)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("%+v: got %q, want %q", q, got, want)
	}
	return nil
}

func checkOrder(ctx context.Context, s mount.Store) error {
	var want []mount.Row
	for n := range 7 {
		// Ids fall while dates rise; the slugs are in no order.
		r, err := s.GetOrCreate(ctx, storeRow(100-n, "project:p", fmt.Sprint("slug ", n*3%7)))
		if err != nil {
			return err
		}
		want = append(want, r)
	}
	slices.SortStableFunc(want, func(a, b mount.Row) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return slices.Compare([]byte(a.ID), []byte(b.ID))
	})
	if _, err := s.GetOrCreate(ctx, want[0]); err != nil { // used, it stays where it is
		return err
	}
	for _, limit := range []int{1, 2, 3, 6, 7, 8, mount.MaxListed} {
		got, err := walk(ctx, s, mount.ListQuery{Scope: "project:p", Limit: limit})
		if err != nil {
			return err
		}
		if len(got) != len(want) {
			return fmt.Errorf("%d at a time: %d rows, want %d", limit, len(got), len(want))
		}
		for i := range got {
			if err := sameRow(fmt.Sprintf("row %d of pages of %d", i, limit), got[i], want[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkFilters(ctx context.Context, s mount.Store) error {
	for n, r := range []struct {
		scope, slug string
		session     access.SessionID
		agent       access.AgentID
		archived    bool
	}{
		{"project:p", "a", "s1", "", false},
		{"project:p", "b", "s2", "", false},
		{"project:p", "c", "", "x", false},
		{"project:p", "d", "", "X", false},
		{"project:p", "e", "s1", "", true},
		{"project:p", "f", "", "x", true},
		{"project:p", "g", "", "", false},
		{"project:P", "h", "s1", "", false},
		{"user:p", "i", "", "x", false},
	} {
		row := storeRow(n+1, r.scope, r.slug)
		row.Session, row.Agent = r.session, r.agent
		stored, err := s.Create(ctx, row)
		if err == nil && r.archived {
			_, err = s.Update(ctx, stored.ID, mount.Change{Archived: &r.archived})
		}
		if err != nil {
			return err
		}
	}
	for _, c := range []struct {
		q    mount.ListQuery
		want []string
	}{
		{mount.ListQuery{}, []string{"a", "b", "c", "d", "g"}},
		{mount.ListQuery{Archived: true}, []string{"a", "b", "c", "d", "e", "f", "g"}},
		{mount.ListQuery{Session: "s1"}, []string{"a"}},
		{mount.ListQuery{Session: "s1", Archived: true}, []string{"a", "e"}},
		{mount.ListQuery{Agent: "x"}, []string{"c"}},
		{mount.ListQuery{Agent: "x", Archived: true}, []string{"c", "f"}},
		{mount.ListQuery{Session: "s1", Agent: "x", Archived: true}, nil},
		{mount.ListQuery{Session: "s3"}, nil},
	} {
		for _, c.q.Limit = range []int{1, mount.MaxListed} {
			c.q.Scope = "project:p"
			if err := listed(ctx, s, c.q, c.want...); err != nil {
				return err
			}
		}
	}
	return listed(ctx, s, mount.ListQuery{Scope: "project:absent", Limit: 1})
}

func checkProtected(ctx context.Context, s mount.Store) error {
	var want []string
	for n := range 12 {
		r := storeRow(n+1, "project:p", fmt.Sprintf("__bkr__session__%d__attachments", n))
		r.Kind, r.Session, r.Agent = mount.KindSession, "s", ""
		if n%3 == 2 { // it only looks as the others do
			want = append(want, r.Slug)
		} else {
			r.Purpose = mount.PurposeAttachments
		}
		if _, err := s.GetOrCreate(ctx, r); err != nil {
			return err
		}
	}
	for _, q := range []mount.ListQuery{
		{Scope: "project:p", Limit: 2},
		{Scope: "project:p", Limit: 4},
		{Scope: "project:p", Session: "s", Archived: true, Limit: 1},
	} {
		if err := listed(ctx, s, q, want...); err != nil {
			return err
		}
	}
	return nil
}

func checkBadPages(ctx context.Context, s mount.Store) error {
	if _, err := s.Create(ctx, storeRow(1, "project:p", "slug")); err != nil {
		return err
	}
	for _, c := range []struct {
		field string
		q     mount.ListQuery
	}{
		{"Limit", mount.ListQuery{Scope: "project:p"}},
		{"Limit", mount.ListQuery{Scope: "project:p", Limit: -1}},
		{"Limit", mount.ListQuery{Scope: "project:p", Limit: mount.MaxListed + 1}},
		{"After", mount.ListQuery{Scope: "project:p", Limit: 1, After: "no token"}},
		{"Scope", mount.ListQuery{Limit: 1}},
	} {
		page, err := s.List(ctx, c.q)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != c.field || page.Items != nil {
			return fmt.Errorf("%+v: got %+v and error %v, want a FieldError of %s", c.q, page, err, c.field)
		}
	}
	return nil
}
