package mount_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/bunkroom/bunkroom/mount"
)

// Trap 79: a caller set the agent of a mount that was made by hand, and it
// turned up as the agent's. Whose a folder is, is the service's own: there is no
// field for it, and nothing that a caller may choose makes it an agent's.
func TestNobodyMakesAnAgentsFolderByHand(t *testing.T) {
	var fields []string
	for f := range reflect.TypeFor[mount.Custom]().Fields() {
		fields = append(fields, f.Name)
	}
	if want := []string{"Project", "Session", "Slug", "Name", "Description", "Meta"}; !slices.Equal(fields, want) {
		t.Errorf("a caller says %q of a mount, want %q: what is new may name whose it is", fields, want)
	}
	fields = nil
	for f := range reflect.TypeFor[mount.Edit]().Fields() {
		fields = append(fields, f.Name)
	}
	if want := []string{"Version", "Name", "Description", "Meta"}; !slices.Equal(fields, want) {
		t.Errorf("a caller changes %q of a mount, want %q", fields, want)
	}
	d := newDesk(t)
	for _, n := range []mount.Custom{
		{Project: "web", Slug: "reviewer", Name: "reviewer", Meta: `{"agent":"reviewer","agent_id":"reviewer","kind":"agent"}`},
		{Project: "web", Session: "s", Slug: "default", Name: "reviewer"},
	} {
		row := d.made(d.catalog.Create(t.Context(), as("bob"), n))
		if row.Agent != "" || row.Kind == mount.KindAgent {
			t.Errorf("%+v is an agent's", row)
		}
	}
	page, err := d.catalog.List(t.Context(), as("bob"), mount.Query{Project: "web", Agent: "reviewer"})
	if err != nil || len(page.Items) != 0 {
		t.Errorf("the agent has %+v, %v", page.Items, err)
	}
	if row, err := d.catalog.FindAgentMount(t.Context(), as("bob"), "web", "reviewer", ""); !errors.Is(err, mount.ErrNotFound) {
		t.Errorf("the agent's folder is %+v, %v", row, err)
	}
}
