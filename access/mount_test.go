package access_test

import (
	"errors"
	"testing"

	"github.com/bunkroom/bunkroom/access"
)

var (
	folder     = access.MountFacts{Owner: "ada", Project: "p"} // of Ada's session, or of an agent of the project
	folderOwn  = access.MountFacts{Owner: "ada"}
	attachment = access.MountFacts{Owner: "ada", Project: "p", Protected: true}
)

// The permissions of a folder, by who asks: a member who may not run code is its viewer.
func TestMountPermissions(t *testing.T) { // mounts trap 16
	for _, c := range []struct {
		says            string
		role            access.Role
		code            access.Tri
		view, edit, use bool
	}{
		{"no member has anything, whatever else he may", access.RoleNone, access.Yes, false, false, false},
		{"nor has who is not known to be one", access.RoleUnknown, access.Yes, false, false, false},
		{"a viewer looks, and signs nothing", access.RoleMember, access.No, true, false, false},
		{"who is not known to be more is a viewer", access.RoleMember, access.Unknown, true, false, false},
		{"an editor edits and uses", access.RoleMember, access.Yes, true, true, true},
		{"an admin edits by that, and uses as an editor", access.RoleAdmin, access.No, true, true, false},
		{"so does the owner, who can always clear out what costs money", access.RoleOwner, access.Unknown, true, true, false},
		{"and uses it with the right to run code", access.RoleOwner, access.Yes, true, true, true},
	} {
		for _, owner := range []access.UserID{"ada", "bob", ""} { // who opened it makes no difference in a project
			m := access.MountFacts{Owner: owner, Project: "p"}
			f := facts(c.role, c.code)
			for name, got := range map[string][2]bool{
				"view": {access.ViewMount(as("bob"), m, f).Allow, c.view},
				"edit": {access.EditMount(as("bob"), m, f).Allow, c.edit},
				"use":  {access.UseMount(as("bob"), m, f).Allow, c.use},
			} {
				if got[0] != got[1] {
					t.Errorf("%s: %s of a folder of %q: %v", c.says, name, owner, got[0])
				}
			}
		}
	}
	viewer := facts(access.RoleMember, access.No)
	denied(t, access.UseMount(as("bob"), folder, viewer), access.ReasonNoCode)
	denied(t, access.EditMount(as("bob"), folder, viewer), access.ReasonViewOnly)
}

func TestPersonalFoldersAreNeverShared(t *testing.T) { // S-12: nor by any role in any project
	everything := facts(access.RoleOwner, access.Yes)
	everything.Agent, everything.AgentCode = access.Yes, access.Yes
	for _, d := range []access.Decision{
		access.ViewMount(as("bob"), folderOwn, everything),
		access.EditMount(as("bob"), folderOwn, everything),
		access.UseMount(as("bob"), folderOwn, everything),
	} {
		denied(t, d, access.ReasonNotOwner)
		if !d.Hidden {
			t.Errorf("%+v tells a stranger that there is one", d)
		}
	}
	allowed(t, access.ViewMount(as("ada"), folderOwn, access.Facts{}))
	allowed(t, access.EditMount(as("ada"), folderOwn, access.Facts{}))
	denied(t, access.UseMount(as("ada"), folderOwn, access.Facts{}), access.ReasonNoCode)
	allowed(t, access.UseMount(as("ada"), folderOwn, access.Facts{Code: access.Yes}))
	confined := access.Actor{User: "ada", Scope: access.ScopeOf("p")} // T-50
	denied(t, access.ViewMount(confined, folderOwn, everything), access.ReasonOutOfScope)
	// A folder of nobody's and no project's is not everybody's.
	denied(t, access.ViewMount(as(""), access.MountFacts{}, everything), access.ReasonNoUser)
	denied(t, access.ViewMount(as("bob"), access.MountFacts{}, everything), access.ReasonNotOwner)
}

func TestRemovedMembersLoseTheFolders(t *testing.T) { // T-46, T-47
	for _, f := range []access.Facts{facts(access.RoleNone, access.Yes), {}, {Project: access.No, Role: access.RoleOwner, Code: access.Yes}} {
		for _, d := range []access.Decision{access.ViewMount(as("ada"), folder, f), access.EditMount(as("ada"), folder, f), access.UseMount(as("ada"), folder, f)} {
			if d.Allow || !d.Hidden {
				t.Errorf("%+v with %+v", d, f)
			}
		}
	}
}

func TestAgentsHaveNoFolderOnAnothersRight(t *testing.T) { // T-48
	f := facts(access.RoleOwner, access.Yes)
	helper := access.Actor{User: "ada", Agent: "helper"}
	for _, f.AgentCode = range []access.Tri{access.Unknown, access.No} {
		allowed(t, access.ViewMount(helper, folder, f))
		denied(t, access.EditMount(helper, folder, f), access.ReasonAgentNoCode)
		denied(t, access.UseMount(helper, folder, f), access.ReasonAgentNoCode)
		allowed(t, access.UseMount(as("ada"), folder, f)) // no agent asks
	}
	f.AgentCode = access.Yes
	allowed(t, access.EditMount(helper, folder, f))
	allowed(t, access.UseMount(helper, folder, f))
	// What is personal is the assistant's to work on, and no agent's.
	denied(t, access.EditMount(helper, folderOwn, f), access.ReasonAgentNoCode)
	denied(t, access.UseMount(helper, folderOwn, f), access.ReasonAgentNoCode)
	f.Code = access.No
	denied(t, access.UseMount(helper, folder, f), access.ReasonNoCode) // nor does it lend its own
}

func TestProtectedFoldersAreAbsent(t *testing.T) { // T-44: to their own project's owner too
	absent := errors.New("mount: not found: 1")
	f := facts(access.RoleOwner, access.Yes)
	for verb, d := range map[string]access.Decision{
		"view": access.ViewMount(as("ada"), attachment, f), "edit": access.EditMount(as("ada"), attachment, f), "use": access.UseMount(as("ada"), attachment, f),
	} {
		if denied(t, d, access.ReasonProtected); d.Err(verb, "1", absent) != absent {
			t.Errorf("%s: told apart from what is not there", verb)
		}
	}
	// A stranger's denial is not even in the audit about that.
	denied(t, access.ViewMount(as("eve"), attachment, facts(access.RoleNone, access.Yes)), access.ReasonNotMember)
}
