package access_test

import (
	"errors"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
)

func ExampleSeeSession() {
	session := access.SessionFacts{Owner: "ada", Project: "apollo"}
	absent := errors.New("not found: session 1")

	known := access.Facts{Project: access.Yes, Role: access.RoleMember}
	fmt.Println(access.SeeSession(access.Actor{User: "bob"}, session, known).Allow)

	// Nothing could be found out about eve: she is answered as for an id that does not exist.
	d := access.SeeSession(access.Actor{User: "eve"}, session, access.Facts{})
	fmt.Println(d.Allow, d.Reason, "|", d.Err("see session", "1", absent))
	// Output:
	// true
	// false unknown | not found: session 1
}

func ExampleRunCode() {
	session := access.SessionFacts{Owner: "ada", Project: "apollo"}
	known := access.Facts{Project: access.Yes, Role: access.RoleMember, Code: access.Yes, AgentCode: access.No}
	d := access.RunCode(access.Actor{User: "ada"}, session, "coder", known)
	fmt.Println(d.Err("run code", "session 1", nil))
	// Output: access: denied: run code session 1: agent_no_code
}

func ExampleScopeOf() {
	scope := access.ScopeOf("apollo")
	fmt.Println(scope.Reaches("apollo"), scope.Reaches("gemini"), scope.Reaches(""))
	fmt.Println(access.ScopeOf().Reaches("apollo"), access.Scope{}.Reaches("apollo"))
	// Output:
	// true false false
	// false true
}

func ExampleNewSentinel() {
	errBusy := access.NewSentinel("printer: busy", 409, "busy", "The printer is busy.")
	err := fmt.Errorf("%w: printer 7", errBusy)
	fmt.Println(err, errors.Is(err, errBusy))
	status, code, sentence := errBusy.Problem()
	fmt.Println(status, code, sentence)
	// Output:
	// printer: busy: printer 7 true
	// 409 busy The printer is busy.
}

func ExampleUseMount() {
	folder := access.MountFacts{Project: "apollo"}
	viewer := access.Facts{Project: access.Yes, Role: access.RoleMember, Code: access.No}
	fmt.Println(access.ViewMount(access.Actor{User: "bob"}, folder, viewer).Allow)

	d := access.UseMount(access.Actor{User: "bob"}, folder, viewer)
	status, _, sentence := d.Reason.Problem()
	fmt.Println(d.Allow, d.Reason, "|", status, sentence)
	// Output:
	// true
	// false no_code | 403 You may not run code here.
}
