package memory_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
)

const wantAll = access.WantRole | access.WantCode | access.WantAgent | access.WantBilling

// town is a directory with a project of ann's, a member and two agents.
func town() *memory.Directory {
	d := memory.NewDirectory()
	d.AddProject("p", "ann", "pro")
	d.AddMember("p", "bob", access.RoleMember)
	d.AddAgent("p", "coder", true)
	d.AddAgent("p", "talker", false)
	d.SetCode("ann", "p", true)
	return d
}

// What the directory knows of each question.
func TestDirectoryFacts(t *testing.T) {
	as := func(user access.UserID) access.Actor { return access.Actor{User: user} }
	for _, c := range []struct {
		rule   string
		change func(*memory.Directory)
		q      access.Question
		want   access.Facts
	}{
		{
			"an owner", nil, access.Question{Actor: as("ann"), Project: "p", Owner: "ann", Want: wantAll},
			access.Facts{Project: access.Yes, Role: access.RoleOwner, Code: access.Yes, Payer: "ann", Plan: "pro"},
		}, {
			"a member's session is paid for by the project's owner", nil, access.Question{Actor: as("bob"), Project: "p", Owner: "bob", Want: wantAll},
			access.Facts{Project: access.Yes, Role: access.RoleMember, Code: access.No, Payer: "ann", Plan: "pro"},
		}, {
			"a stranger", nil, access.Question{Actor: as("eve"), Project: "p", Want: access.WantRole | access.WantCode},
			access.Facts{Project: access.Yes, Role: access.RoleNone, Code: access.No},
		}, {
			"nobody", nil, access.Question{Project: "p", Want: access.WantRole | access.WantCode},
			access.Facts{Project: access.Yes, Role: access.RoleNone, Code: access.No},
		}, {
			"a project that never was", nil, access.Question{Actor: as("ann"), Project: "q", Owner: "ann", Want: wantAll},
			access.Facts{Project: access.No, Role: access.RoleNone, Code: access.No},
		}, {
			"a project that has vanished", func(d *memory.Directory) { d.RemoveProject("p") },
			access.Question{Actor: as("ann"), Project: "p", Owner: "ann", Agent: "coder", Want: wantAll},
			access.Facts{Project: access.No, Role: access.RoleNone, Code: access.No, Agent: access.No, AgentProject: "p", AgentCode: access.No},
		}, {
			"a project that came back owes nobody anything", func(d *memory.Directory) {
				d.RemoveProject("p")
				d.AddProject("p", "bob", "")
			},
			access.Question{Actor: as("ann"), Project: "p", Want: access.WantRole | access.WantCode | access.WantBilling},
			access.Facts{Project: access.Yes, Role: access.RoleNone, Code: access.No, Payer: "bob"},
		}, {
			"a new owner", func(d *memory.Directory) { d.AddProject("p", "bob", "free") },
			access.Question{Actor: as("ann"), Project: "p", Want: access.WantRole | access.WantBilling},
			access.Facts{Project: access.Yes, Role: access.RoleNone, Payer: "bob", Plan: "free"},
		}, {
			"who was removed has no rights left", func(d *memory.Directory) {
				d.SetCode("bob", "p", true)
				d.RemoveMember("p", "bob")
			},
			access.Question{Actor: as("bob"), Project: "p", Want: access.WantRole | access.WantCode},
			access.Facts{Project: access.Yes, Role: access.RoleNone, Code: access.No},
		}, {
			"what is personal is paid for by its owner and has no roles", func(d *memory.Directory) {
				d.SetCode("ann", "", true)
				d.SetPlan("ann", "free")
			},
			access.Question{Actor: as("ann"), Owner: "ann", Want: wantAll},
			access.Facts{Code: access.Yes, Payer: "ann", Plan: "free"},
		}, {
			"a right in a project is none in what is personal", nil, access.Question{Actor: as("ann"), Owner: "ann", Want: access.WantCode},
			access.Facts{Code: access.No},
		}, {
			"an agent", nil, access.Question{Actor: as("bob"), Project: "p", Agent: "coder", Want: access.WantAgent},
			access.Facts{Agent: access.Yes, AgentProject: "p", AgentCode: access.Yes},
		}, {
			"an agent that a stranger can't see", nil, access.Question{Actor: as("eve"), Project: "p", Agent: "coder", Want: access.WantAgent},
			access.Facts{Agent: access.No, AgentProject: "p", AgentCode: access.Yes},
		}, {
			"an agent of another project may not run code here", func(d *memory.Directory) { d.AddProject("q", "ann", "") },
			access.Question{Actor: as("ann"), Project: "q", Agent: "coder", Want: access.WantAgent},
			access.Facts{Agent: access.Yes, AgentProject: "p", AgentCode: access.No},
		}, {
			"an agent that was removed", func(d *memory.Directory) { d.RemoveAgent("coder") },
			access.Question{Actor: as("ann"), Project: "p", Agent: "coder", Want: access.WantAgent},
			access.Facts{Agent: access.No, AgentCode: access.No},
		}, {
			"the asking agent needs the right too", nil,
			access.Question{Actor: access.Actor{User: "ann", Agent: "talker"}, Project: "p", Agent: "coder", Want: access.WantAgent},
			access.Facts{Agent: access.Yes, AgentProject: "p", AgentCode: access.No},
		}, {
			"the assistant on an agent's behalf", nil,
			access.Question{Actor: access.Actor{User: "ann", Agent: "coder"}, Project: "p", Want: access.WantAgent},
			access.Facts{AgentCode: access.Yes},
		}, {
			"only what was asked", nil, access.Question{Actor: as("ann"), Project: "p", Owner: "ann", Agent: "coder", Want: access.WantCode},
			access.Facts{Code: access.Yes},
		}, {
			"what it is blind to is unknown, and the rest is not", func(d *memory.Directory) { d.Blind(access.WantRole | access.WantBilling) },
			access.Question{Actor: as("ann"), Project: "p", Owner: "ann", Want: access.WantRole | access.WantCode | access.WantBilling},
			access.Facts{Code: access.Yes},
		},
	} {
		d := town()
		if c.change != nil {
			c.change(d)
		}
		got, err := d.Facts(t.Context(), c.q)
		if err != nil {
			t.Errorf("%s: %v", c.rule, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.rule, diff)
		}
	}
}

// An outage answers nothing, and ends; what was asked meanwhile is remembered.
func TestDirectoryFails(t *testing.T) {
	d := town()
	q := access.Question{Actor: access.Actor{User: "ann"}, Project: "p", Want: access.WantRole}
	outage := errors.New("outage")
	d.Fail(outage)
	got, err := d.Facts(t.Context(), q)
	wantErr(t, "during the outage", err, outage)
	if got != (access.Facts{}) {
		t.Errorf("during the outage: %+v, want nothing", got)
	}
	d.Fail(nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.Facts(gone, q)
	wantErr(t, "for a caller that has gone", err, context.Canceled)
	if _, err = d.Facts(t.Context(), q); err != nil {
		t.Errorf("after the outage: %v", err)
	}
	if got := len(d.Questions()); got != 3 {
		t.Errorf("%d questions, want 3", got)
	}
}

// Questions and changes come from many goroutines at once.
func TestDirectoryAtOnce(t *testing.T) {
	d := town()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { d.AddMember("p", "eve", access.RoleAdmin) })
		wg.Go(func() {
			if _, err := d.Facts(t.Context(), access.Question{Actor: access.Actor{User: "eve"}, Project: "p", Want: wantAll}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := d.Facts(t.Context(), access.Question{Actor: access.Actor{User: "eve"}, Project: "p", Want: access.WantRole})
	if err != nil || got.Role != access.RoleAdmin {
		t.Errorf("role %v, %v, want admin", got.Role, err)
	}
}
