package mount_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// calls are all methods that name a mount.
func (d *desk) calls() map[string]func(a access.Actor, id mount.ID) (mount.Row, error) {
	ctx := d.Context()
	return map[string]func(a access.Actor, id mount.ID) (mount.Row, error){
		"get":       func(a access.Actor, id mount.ID) (mount.Row, error) { return d.catalog.Get(ctx, a, id) },
		"archive":   func(a access.Actor, id mount.ID) (mount.Row, error) { return d.catalog.Archive(ctx, a, id) },
		"unarchive": func(a access.Actor, id mount.ID) (mount.Row, error) { return d.catalog.Unarchive(ctx, a, id) },
		"edit": func(a access.Actor, id mount.ID) (mount.Row, error) {
			return d.catalog.Edit(ctx, a, id, mount.Edit{Name: new("x")})
		},
	}
}

// What is absent, somebody else's, personal or protected gives one answer to
// each call: the same value, and the same bytes but for the id. The audit
// hears of what was denied, and nothing of what is not there.
func TestAbsentForeignAndProtectedAreAlike(t *testing.T) {
	d := newDesk(t)
	const absent = mount.ID("0192f0c1-2ab4-7cde-8f01-23455e0c3f1a")
	foreign := d.made(d.catalog.Create(t.Context(), as("ana"), mount.Custom{Project: "app", Slug: "a"}))
	personal := d.made(d.catalog.Create(t.Context(), as("ana"), mount.Custom{Slug: "a"}))
	protected := d.made(d.catalog.AttachmentsMount(t.Context(), as("bob"), "web", "s"))
	outside := access.Actor{User: "ana", Scope: access.ScopeOf("web")}
	for name, call := range d.calls() {
		for _, c := range []struct {
			what  string
			actor access.Actor
			id    mount.ID
			event access.Reason // 0 = none
		}{
			{"absent", as("bob"), absent, 0},
			{"another project's", as("bob"), foreign.ID, access.ReasonNotMember},
			{"another project's, to who may in it but for the credential", outside, foreign.ID, access.ReasonOutOfScope},
			{"personal", as("bob"), personal.ID, access.ReasonNotOwner},
			{"protected, to who has made it", as("bob"), protected.ID, access.ReasonProtected},
			{"protected, to the owner of its project", as("ana"), protected.ID, access.ReasonProtected},
			{"to nobody", access.Actor{}, foreign.ID, access.ReasonNoUser},
		} {
			d.events = nil
			row, err := call(c.actor, c.id)
			want := fmt.Sprintf("%v: %s", mount.ErrNotFound, c.id)
			if !errors.Is(err, mount.ErrNotFound) || err.Error() != want || row != (mount.Row{}) {
				t.Errorf("%s, %s: got %+v, %v; want %s", name, c.what, row, err, want)
			}
			heard := len(d.events) == 1 && d.events[0].Reason == c.event && d.events[0].Object == string(c.id)
			if c.event == 0 && len(d.events) > 0 || c.event != 0 && !heard {
				t.Errorf("%s, %s: events %+v, want reason %v", name, c.what, d.events, c.event)
			}
		}
	}
	if got, err := d.store.Get(t.Context(), protected.ID); err != nil || got != protected {
		t.Errorf("the protected one became %+v, %v", got, err)
	}
	again := d.made(d.catalog.AttachmentsMount(t.Context(), as("ana"), "web", "s"))
	if again.ID != protected.ID || !again.Protected() || again.Name != "attachments" || again.Session != "s" {
		t.Errorf("who serves attachments gets %+v", again)
	}
}

// Who sees may look, who may run code uses and edits, who manages edits. A
// viewer has no folder made or carried. (Mounts trap 16)
func TestWhoMayDoWhat(t *testing.T) {
	const (
		allowed = ""
		hidden  = "not_found"
	)
	d := newDesk(t)
	row := d.made(d.catalog.Create(t.Context(), as("ana"), mount.Custom{Project: "web", Slug: "a"}))
	ctx := t.Context()
	looks := map[string]func(a access.Actor) error{
		"get":  func(a access.Actor) error { _, err := d.catalog.Get(ctx, a, row.ID); return err },
		"list": func(a access.Actor) error { return listing(d.catalog.List(ctx, a, mount.Query{Project: "web"})) },
	}
	edits := map[string]func(a access.Actor) error{
		"edit":        func(a access.Actor) error { _, err := d.catalog.Edit(ctx, a, row.ID, mount.Edit{}); return err },
		"archive":     func(a access.Actor) error { _, err := d.catalog.Archive(ctx, a, row.ID); return err },
		"unarchive":   func(a access.Actor) error { _, err := d.catalog.Unarchive(ctx, a, row.ID); return err },
		"attachments": func(a access.Actor) error { _, err := d.catalog.AttachmentsMount(ctx, a, "web", "s"); return err },
		"archive session": func(a access.Actor) error {
			_, err := d.catalog.ArchiveSession(ctx, a, "web", "s", true)
			return err
		},
		"create": func(a access.Actor) error {
			_, err := d.catalog.Create(ctx, a, mount.Custom{Project: "web", Slug: "a"})
			if errors.Is(err, mount.ErrExists) {
				return nil // it was let in
			}
			return err
		},
	}
	uses := map[string]func(a access.Actor) error{
		"session mount": func(a access.Actor) error { _, err := d.catalog.SessionMount(ctx, a, "web", "s", ""); return err },
		"agent mount":   func(a access.Actor) error { _, err := d.catalog.AgentMount(ctx, a, "web", "reviewer", ""); return err },
	}
	for _, c := range []struct {
		actor           access.Actor
		look, edit, use string // the codes
	}{
		{as("bob"), allowed, allowed, allowed},
		{as("vera"), allowed, "forbidden", "forbidden"},
		{as("adam"), allowed, allowed, "forbidden"},
		{as("eve"), hidden, hidden, hidden},
		{access.Actor{User: "bob", Agent: "clerk"}, allowed, "forbidden", "forbidden"},
		{access.Actor{User: "bob", Agent: "reviewer"}, allowed, allowed, allowed},
		{access.Actor{User: "ana", Scope: access.ScopeOf("app")}, hidden, hidden, hidden},
	} {
		for _, group := range []struct {
			calls map[string]func(access.Actor) error
			want  string
		}{{looks, c.look}, {edits, c.edit}, {uses, c.use}} {
			for name, call := range group.calls {
				asked := len(d.people.Questions())
				d.events = nil
				err := call(c.actor)
				if code := codeOf(err); code != group.want {
					t.Errorf("%s of %+v: got %v (%s), want %q", name, c.actor, err, code, group.want)
				}
				if n := len(d.people.Questions()) - asked; n != 1 {
					t.Errorf("%s of %+v: the host was asked %d times", name, c.actor, n)
				}
				if denied := group.want != allowed; (len(d.events) == 1) != denied {
					t.Errorf("%s of %+v: events %+v", name, c.actor, d.events)
				}
			}
		}
	}
}

// listing is an empty page as the denial that it hides.
func listing(page mount.Page, err error) error {
	if err == nil && len(page.Items) == 0 {
		return mount.ErrNotFound
	}
	return err
}

func codeOf(err error) string {
	if err == nil {
		return ""
	}
	var p interface {
		Problem() (int, string, string)
	}
	if !errors.As(err, &p) {
		return "fault"
	}
	_, code, _ := p.Problem()
	return code
}

// What nobody could find out allows nothing and accuses nobody.
func TestUndecidedIsNoDenial(t *testing.T) {
	d := newDesk(t)
	row := d.made(d.catalog.Create(t.Context(), as("bob"), mount.Custom{Project: "web", Slug: "a"}))
	outage := errors.New("the host is away")
	d.people.Fail(outage)
	for name, call := range d.calls() {
		// Whether there is such a mount must not show.
		if got, err := call(as("bob"), row.ID); !errors.Is(err, mount.ErrNotFound) || got != (mount.Row{}) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	_, create := d.catalog.Create(t.Context(), as("bob"), mount.Custom{Project: "web", Slug: "b"})
	_, list := d.catalog.List(t.Context(), as("bob"), mount.Query{Project: "web"})
	_, agent := d.catalog.AgentMount(t.Context(), as("bob"), "web", "reviewer", "")
	for _, err := range []error{create, list, agent} {
		if !errors.Is(err, mount.ErrUndecided) || !errors.Is(err, outage) {
			t.Errorf("got %v, want ErrUndecided", err)
		}
	}
	if len(d.events) > 0 {
		t.Errorf("events %+v", d.events)
	}
	d.people.Fail(nil)
	own := d.made(d.catalog.Create(t.Context(), as("bob"), mount.Custom{Slug: "own"}))
	d.people.Fail(outage)
	through := access.Actor{User: "bob", Agent: "reviewer"} // sees what is Bob's, and may not edit it as far as anybody knows
	if _, err := d.catalog.Edit(t.Context(), through, own.ID, mount.Edit{}); !errors.Is(err, mount.ErrUndecided) || !errors.Is(err, outage) || len(d.events) > 0 {
		t.Errorf("got %v and events %+v, want ErrUndecided", err, d.events)
	}
	d.people.Fail(nil)
	d.people.RemoveProject("web")
	if _, err := d.catalog.Get(t.Context(), as("bob"), row.ID); !errors.Is(err, mount.ErrNotFound) || len(d.events) > 0 {
		t.Errorf("of a project that is gone: got %v and events %+v", err, d.events)
	}
	d = newDesk(t)
	d.people.Blind(access.WantAgent)
	if _, err := d.catalog.AgentMount(t.Context(), as("bob"), "web", "reviewer", ""); !errors.Is(err, mount.ErrNotFound) {
		t.Errorf("an agent that could not be looked up: got %v", err)
	}
}

func TestEdit(t *testing.T) {
	d := newDesk(t)
	row := d.made(d.catalog.SessionMount(t.Context(), as("bob"), "web", "s", ""))
	got := d.made(d.catalog.Edit(t.Context(), as("adam"), row.ID, mount.Edit{Version: 1, Name: new(" Work "), Meta: new(`{ "a" : 1 }`)}))
	want := row
	want.Version, want.Name, want.Meta, want.UpdatedBy, want.UpdatedAt = 2, "Work", `{"a":1}`, "adam", got.UpdatedAt
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	_, err := d.catalog.Edit(t.Context(), as("bob"), row.ID, mount.Edit{Version: 1, Name: new("Mine")})
	if e, ok := errors.AsType[*mount.VersionError](err); !ok || e.Actual != 2 || codeOf(err) != "conflict" {
		t.Errorf("an edit of what somebody else has edited: got %v", err)
	}
	for field, e := range map[string]mount.Edit{
		"version": {Version: -1}, "name": {Name: new("\x00")}, "description": {Description: new("\xff")}, "meta": {Meta: new("no")},
	} {
		_, err := d.catalog.Edit(t.Context(), as("bob"), row.ID, e)
		d.wantField(field, err, field)
	}
	_, err = d.catalog.Edit(t.Context(), as("bob"), "", mount.Edit{})
	d.wantField("no id", err, "mount")
	// Used again it is as it was edited.
	if again := d.made(d.catalog.SessionMount(t.Context(), as("bob"), "web", "s", "cwd")); again.ID != row.ID || again.Name != "Work" {
		t.Errorf("used again: %+v", again)
	}
}

// Mounts traps 11 and 14: pages are full, ordered, and the same as what Get
// shows; protected rows are in none.
func TestList(t *testing.T) {
	d := newDesk(t)
	var want []mount.ID
	for i := range 9 {
		if i%2 == 1 {
			d.made(d.catalog.AttachmentsMount(t.Context(), as("bob"), "web", access.SessionID(fmt.Sprint("s", i))))
			continue
		}
		want = append(want, d.made(d.catalog.SessionMount(t.Context(), as("bob"), "web", "s", fmt.Sprint("n", 9-i))).ID)
	}
	d.made(d.catalog.Create(t.Context(), as("ana"), mount.Custom{Project: "app", Slug: "other"}))
	d.made(d.catalog.Create(t.Context(), as("ana"), mount.Custom{Slug: "own"}))
	var got []mount.ID
	q := mount.Query{Project: "web", Session: "s", Limit: 2}
	for {
		page, err := d.catalog.List(t.Context(), as("vera"), q)
		if err != nil || page.Next != "" && len(page.Items) != 2 {
			t.Fatalf("page %+v, %v", page, err)
		}
		for _, r := range page.Items {
			got = append(got, r.ID)
			if shown, err := d.catalog.Get(t.Context(), as("vera"), r.ID); err != nil || shown != r {
				t.Errorf("Get has %+v, %v; the list %+v", shown, err, r)
			}
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	for _, c := range []struct {
		actor access.UserID
		q     mount.Query
		want  int
	}{
		{"vera", mount.Query{Project: "web"}, 5},
		{"vera", mount.Query{Project: "web", Session: "s1"}, 0},
		{"vera", mount.Query{Project: "app"}, 0},
		{"vera", mount.Query{Project: "absent"}, 0},
		{"vera", mount.Query{}, 0},
		{"ana", mount.Query{}, 1},
		{"", mount.Query{}, 0},
	} {
		if page, err := d.catalog.List(t.Context(), as(c.actor), c.q); err != nil || len(page.Items) != c.want {
			t.Errorf("%+v of %q: got %+v, %v; want %d", c.q, c.actor, page.Items, err, c.want)
		}
	}
	for field, q := range map[string]mount.Query{
		"project": {Project: "\x00"}, "session": {Session: "\x00"}, "agent": {Agent: "\x00"},
		"Limit": {Project: "web", Limit: mount.MaxListed + 1}, "After": {Project: "web", After: "x"},
	} {
		_, err := d.catalog.List(t.Context(), as("vera"), q)
		d.wantField(field, err, field)
	}
}

// leaky is a store whose lists show what is protected.
type leaky struct {
	mount.Store
	row mount.Row
}

func (s leaky) List(ctx context.Context, q mount.ListQuery) (mount.Page, error) {
	page, err := s.Store.List(ctx, q)
	page.Items = append(page.Items, s.row)
	return page, err
}

// Mounts trap 11: what a store shows all the same, the catalog does not.
func TestListFiltersOnceMore(t *testing.T) {
	d := newDesk(t)
	keep := d.made(d.catalog.AttachmentsMount(t.Context(), as("bob"), "web", "s"))
	page, err := d.catalog.In(leaky{d.store, keep}).List(t.Context(), as("bob"), mount.Query{Project: "web"})
	if err != nil || len(page.Items) > 0 {
		t.Errorf("got %+v, %v", page, err)
	}
}

func TestArchive(t *testing.T) {
	d := newDesk(t)
	row := d.made(d.catalog.Create(t.Context(), as("bob"), mount.Custom{Project: "web", Slug: "a"}))
	shown := func(archived bool) int {
		t.Helper()
		page, err := d.catalog.List(t.Context(), as("vera"), mount.Query{Project: "web", Archived: archived})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Items)
	}
	away := d.made(d.catalog.Archive(t.Context(), as("bob"), row.ID))
	if again := d.made(d.catalog.Archive(t.Context(), as("adam"), row.ID)); !again.Archived() || again != away || again.ArchivedBy != "bob" {
		t.Errorf("archived twice: %+v, then %+v", away, again)
	}
	if shown(false) != 0 || shown(true) != 1 || d.made(d.catalog.Get(t.Context(), as("vera"), row.ID)) != away {
		t.Errorf("lists show %d and with the archive %d", shown(false), shown(true))
	}
	if _, err := d.catalog.Create(t.Context(), as("bob"), mount.Custom{Project: "web", Slug: "a"}); !errors.Is(err, mount.ErrExists) {
		t.Errorf("its slug: got %v, want ErrExists", err)
	}
	back := d.made(d.catalog.Unarchive(t.Context(), as("bob"), row.ID))
	if back.Archived() || back.ArchivedBy != "" || shown(false) != 1 {
		t.Errorf("taken out: %+v", back)
	}
}

func TestArchiveSession(t *testing.T) {
	d := newDesk(t)
	for i := range mount.MaxListed + 5 {
		d.made(d.catalog.SessionMount(t.Context(), as("bob"), "web", "s", fmt.Sprint(i)))
	}
	keep := d.made(d.catalog.AttachmentsMount(t.Context(), as("bob"), "web", "s"))
	other := d.made(d.catalog.SessionMount(t.Context(), as("bob"), "web", "S", ""))
	for _, c := range []struct {
		away bool
		want int
	}{{true, mount.MaxListed + 5}, {true, 0}, {false, mount.MaxListed + 5}, {false, 0}} {
		if n, err := d.catalog.In(leaky{d.store, keep}).ArchiveSession(t.Context(), as("bob"), "web", "s", c.away); err != nil || n != c.want {
			t.Errorf("away %v: changed %d, %v; want %d", c.away, n, err, c.want)
		}
		for _, want := range []mount.Row{keep, other} {
			if got, err := d.store.Get(t.Context(), want.ID); err != nil || got != want {
				t.Errorf("%s became %+v, %v", want.Slug, got, err)
			}
		}
	}
	_, err := d.catalog.ArchiveSession(t.Context(), as("bob"), "web", "", true)
	d.wantField("no session", err, "session")
	if strings.Contains(keep.Slug, "cwd") {
		t.Errorf("attachments are kept in %s", keep.Slug)
	}
}
