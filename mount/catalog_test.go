package mount_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
)

// desk is a catalog with its host: project web of Ana, in which Bob may run
// code, Vera may only look, and Adam manages; Eve is nobody there.
type desk struct {
	*testing.T
	store   mount.Store
	people  *memory.Directory
	catalog *mount.Catalog
	events  []access.Event
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, store: memory.New(nil).Mounts(), people: memory.NewDirectory()}
	for _, project := range []access.ProjectID{"web", "app"} {
		d.people.AddProject(project, "ana", "free")
		d.people.SetCode("ana", project, true)
	}
	d.people.AddMember("web", "bob", access.RoleMember)
	d.people.SetCode("bob", "web", true)
	d.people.AddMember("web", "vera", access.RoleMember)
	d.people.AddMember("web", "adam", access.RoleAdmin)
	for _, user := range []access.UserID{"ana", "bob", "eve"} {
		d.people.SetCode(user, "", true)
	}
	d.people.AddAgent("web", "reviewer", true)
	d.people.AddAgent("web", "clerk", false)
	d.people.AddAgent("app", "stranger", true)
	var err error
	d.catalog, err = mount.NewCatalog(mount.CatalogConfig{
		Store: d.store, Directory: d.people,
		Audit: func(_ context.Context, e access.Event) { d.events = append(d.events, e) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func as(user access.UserID) access.Actor { return access.Actor{User: user} }

// made is a row that must have been made.
func (d *desk) made(row mount.Row, err error) mount.Row {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
	return row
}

// rows are all the rows of a scope, protected ones not included.
func (d *desk) rows(scope string) []mount.Row {
	d.Helper()
	page, err := d.store.List(d.Context(), mount.ListQuery{Scope: scope, Archived: true, Limit: mount.MaxListed})
	if err != nil {
		d.Fatal(err)
	}
	return page.Items
}

// wantField wants the refusal of a field.
func (d *desk) wantField(what string, err error, field string) {
	d.Helper()
	if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != field {
		d.Errorf("%s: got %v, want a FieldError of %s", what, err, field)
	}
}

func TestCreateFillsTheServicesColumns(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct {
		rule  string
		actor access.UserID
		n     mount.Custom
		want  mount.Row
	}{
		{"made by hand", "bob", mount.Custom{Project: "web", Slug: "Tax_2026.v2", Name: " Tax ", Description: " all of it\n", Meta: ` {"a": 1} `},
			mount.Row{Scope: "project:web", Slug: "Tax_2026.v2", Kind: mount.KindCustom, Name: "Tax", Description: "all of it", Meta: `{"a":1}`}},
		{"unnamed", "bob", mount.Custom{Project: "web", Slug: "_x"},
			mount.Row{Scope: "project:web", Slug: "_x", Kind: mount.KindCustom, Name: "_x"}},
		{"personal", "eve", mount.Custom{Slug: "_x"},
			mount.Row{Scope: "user:eve", Slug: "_x", Kind: mount.KindCustom, Name: "_x"}},
		{"a session's", "bob", mount.Custom{Project: "web", Session: "any text", Slug: "Tax Projects"},
			mount.Row{Scope: "project:web", Slug: "__bkr__session__819058ab-73c8-5ed2-993f-19db83ef091a__tax-projects", Kind: mount.KindSession, Session: "any text", Name: "Tax Projects"}},
	} {
		row := d.made(d.catalog.Create(t.Context(), as(c.actor), c.n))
		c.want.ID, c.want.Version = row.ID, 1
		c.want.CreatedBy, c.want.UpdatedBy = c.actor, c.actor
		c.want.CreatedAt, c.want.UpdatedAt = row.CreatedAt, row.UpdatedAt
		if row != c.want {
			t.Errorf("%s: got %+v, want %+v", c.rule, row, c.want)
		}
		if again, err := d.catalog.Create(t.Context(), as(c.actor), c.n); !errors.Is(err, mount.ErrExists) || again != (mount.Row{}) {
			t.Errorf("%s, twice: got %+v, %v; want ErrExists", c.rule, again, err)
		}
	}
}

// Mounts trap 8: a caller forged the slug of an agent's folder. What the
// service makes begins with what nobody else may begin with, and what a slug
// may be is asked before anybody is.
func TestCreateRefusesReservedAndBadInput(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct {
		field string
		n     mount.Custom
	}{
		{"slug", mount.Custom{Slug: "__bkr__agent__" + agentUUID + "__default"}},
		{"slug", mount.Custom{Slug: "__bkr__session__x__cwd"}},
		{"slug", mount.Custom{Slug: "__bkr__"}},
		{"slug", mount.Custom{Slug: "__BKR__x"}},
		{"slug", mount.Custom{}},
		{"slug", mount.Custom{Session: "s"}},
		{"slug", mount.Custom{Slug: ".hidden"}},
		{"slug", mount.Custom{Slug: "a/b"}},
		{"slug", mount.Custom{Slug: "a b"}},
		{"slug", mount.Custom{Slug: "ü"}},
		{"slug", mount.Custom{Slug: strings.Repeat("a", 121)}},
		{"name", mount.Custom{Slug: "a", Name: strings.Repeat("n", 121)}},
		{"name", mount.Custom{Session: "s", Slug: "attachments"}},
		{"name", mount.Custom{Session: "s", Slug: "fine", Name: "Attachments"}},
		{"name", mount.Custom{Session: "s", Slug: "!!!"}},
		{"session", mount.Custom{Session: "\x00", Slug: "a"}},
		{"description", mount.Custom{Slug: "a", Description: strings.Repeat("d", mount.MaxDescription+1)}},
		{"description", mount.Custom{Slug: "a", Description: "\x00"}},
		{"meta", mount.Custom{Slug: "a", Meta: `[]`}},
		{"meta", mount.Custom{Slug: "a", Meta: `{`}},
		{"meta", mount.Custom{Slug: "a", Meta: "{\"a\":\"\xff\"}"}},
		{"meta", mount.Custom{Slug: "a", Meta: `{"a":"` + strings.Repeat("m", mount.MaxMeta) + `"}`}},
	} {
		c.n.Project = "web"
		row, err := d.catalog.Create(t.Context(), as("bob"), c.n)
		d.wantField(c.n.Slug, err, c.field)
		if row != (mount.Row{}) {
			t.Errorf("%+v made %+v", c.n, row)
		}
	}
	_, err := d.catalog.Create(t.Context(), as("bob"), mount.Custom{Project: "\xff", Slug: "a"})
	d.wantField("project", err, "project")
	_, err = d.catalog.Create(t.Context(), as("\x00"), mount.Custom{Slug: "a"})
	d.wantField("user", err, "actor.User")
	if all := d.rows("project:web"); len(all) > 0 || len(d.people.Questions()) > 0 {
		t.Errorf("refused input made %+v, and %d questions", all, len(d.people.Questions()))
	}
}

// Mounts trap 3: a folder was made for an agent that was unknown or gone.
// Whether there is storage is asked of nobody here.
func TestAgentMountNeedsTheAgent(t *testing.T) {
	d := newDesk(t)
	row := d.made(d.catalog.AgentMount(t.Context(), as("bob"), "web", "reviewer", ""))
	if row.Kind != mount.KindAgent || row.Agent != "reviewer" || row.Name != "default" || row.CreatedBy != "bob" {
		t.Errorf("got %+v", row)
	}
	d.people.RemoveAgent("reviewer")
	for _, agent := range []access.AgentID{"reviewer", "typo", "stranger"} { // gone, never there, another project's
		got, err := d.catalog.AgentMount(t.Context(), as("bob"), "web", agent, "new")
		if !errors.Is(err, mount.ErrNotFound) || !strings.Contains(err.Error(), string(agent)) || got != (mount.Row{}) {
			t.Errorf("agent %s: got %+v, %v; want ErrNotFound", agent, got, err)
		}
	}
	if got, err := d.catalog.AgentMount(t.Context(), as("ana"), "web", "stranger", ""); !errors.Is(err, mount.ErrNotFound) { // who sees it there has it nowhere else
		t.Errorf("another project's agent: got %+v, %v; want ErrNotFound", got, err)
	}
	if all := d.rows("project:web"); len(all) != 1 || all[0].ID != row.ID {
		t.Errorf("rows %+v", all)
	}
	_, err := d.catalog.AgentMount(t.Context(), as("bob"), "", "reviewer", "")
	d.wantField("an agent's personal folder", err, "project")
	_, err = d.catalog.AgentMount(t.Context(), as("bob"), "web", "", "") // mounts trap 1
	d.wantField("no agent", err, "agent")
	if len(d.events) > 0 {
		t.Errorf("events %+v: what is not there is denied to nobody", d.events)
	}
}

// Mounts trap 2: one agent under two spellings was looked for under one and made under the other.
func TestSpellingsAreOneEverywhere(t *testing.T) {
	d := newDesk(t)
	spellings := []access.AgentID{agentUUID, access.AgentID(strings.ToUpper(agentUUID)), "{" + agentUUID + "}"}
	for _, s := range spellings {
		d.people.AddAgent("web", s, true) // a host that takes any
	}
	row := d.made(d.catalog.AgentMount(t.Context(), as("bob"), "web", spellings[1], ""))
	for _, s := range spellings {
		again := d.made(d.catalog.AgentMount(t.Context(), as("bob"), "web", s, "Default"))
		found := d.made(d.catalog.FindAgentMount(t.Context(), as("vera"), "web", s, ""))
		page, err := d.catalog.List(t.Context(), as("vera"), mount.Query{Project: "web", Agent: s})
		if err != nil || len(page.Items) != 1 || again.ID != row.ID || found.ID != row.ID || page.Items[0].ID != row.ID {
			t.Errorf("%s: made %s, found %s, listed %+v (%v); want %s", s, again.ID, found.ID, page.Items, err, row.ID)
		}
	}
	if row.Agent != agentUUID {
		t.Errorf("the row has agent %s", row.Agent)
	}
}

// Mounts traps 4 and 7: a query made the folder it asked for; and one that was
// put away was not found any more by who used it, but made anew. It is absent
// to who asks, and the same to who uses it.
func TestFindNeverMakesAndUseRevives(t *testing.T) {
	d := newDesk(t)
	absent := func() {
		t.Helper()
		for range 2 {
			if row, err := d.catalog.FindAgentMount(t.Context(), as("vera"), "web", "reviewer", ""); !errors.Is(err, mount.ErrNotFound) || row != (mount.Row{}) {
				t.Errorf("got %+v, %v; want ErrNotFound", row, err)
			}
		}
	}
	absent()
	if all := d.rows("project:web"); len(all) > 0 {
		t.Fatalf("to ask has made %+v", all)
	}
	for _, use := range []func() (mount.Row, error){
		func() (mount.Row, error) { return d.catalog.AgentMount(t.Context(), as("bob"), "web", "reviewer", "") },
		func() (mount.Row, error) { return d.catalog.SessionMount(t.Context(), as("bob"), "web", "s", "") },
	} {
		row := d.made(use())
		d.made(d.catalog.Archive(t.Context(), as("adam"), row.ID))
		absent()
		again := d.made(use())
		if again.ID != row.ID || again.Archived() || again.Version != row.Version+2 {
			t.Errorf("got %+v, want %s out of the archive", again, row.ID)
		}
		d.made(d.catalog.Archive(t.Context(), as("adam"), row.ID))
	}
}

func TestSessionMount(t *testing.T) {
	d := newDesk(t)
	row := d.made(d.catalog.SessionMount(t.Context(), as("bob"), "web", "s", ""))
	if row.Kind != mount.KindSession || row.Session != "s" || row.Agent != "" || row.Name != "cwd" || row.Scope != "project:web" {
		t.Errorf("got %+v", row)
	}
	for _, name := range []string{"cwd", "CWD", " cwd "} { // mounts trap 10
		if again := d.made(d.catalog.SessionMount(t.Context(), as("ana"), "web", "s", name)); again.ID != row.ID {
			t.Errorf("%q is another", name)
		}
	}
	own := d.made(d.catalog.SessionMount(t.Context(), as("eve"), "", "s", ""))
	if own.ID == row.ID || own.Scope != "user:eve" {
		t.Errorf("personal: %+v", own)
	}
	_, err := d.catalog.SessionMount(t.Context(), as("bob"), "web", "", "")
	d.wantField("no session", err, "session")
	_, err = d.catalog.SessionMount(t.Context(), as("bob"), "web", "s", "Attachments")
	d.wantField("reserved", err, "name")
	_, err = d.catalog.AttachmentsMount(t.Context(), as("bob"), "web", "")
	d.wantField("no session", err, "session")
}

func TestNewCatalogNamesTheBadField(t *testing.T) {
	d := newDesk(t)
	for field, c := range map[string]mount.CatalogConfig{
		"Store": {Directory: d.people}, "Directory": {Store: d.store},
	} {
		_, err := mount.NewCatalog(c)
		d.wantField(field, err, field)
	}
	c, err := mount.NewCatalog(mount.CatalogConfig{Store: d.store, Directory: d.people, NewID: func() string { return "x" }})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Create(t.Context(), as("bob"), mount.Custom{Project: "web", Slug: "a"})
	d.wantField("ids that are none", err, "NewID")
	other := memory.New(nil).Mounts()
	d.made(d.catalog.In(other).Create(t.Context(), as("bob"), mount.Custom{Project: "web", Slug: "a"}))
	if _, err := other.Find(t.Context(), "project:web", "a"); err != nil || len(d.rows("project:web")) > 0 {
		t.Errorf("In wrote elsewhere: %v", err)
	}
}
