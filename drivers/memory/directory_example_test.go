package memory_test

import (
	"context"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
)

// A project with its owner and a member who may run code in it.
func ExampleNewDirectory() {
	people := memory.NewDirectory()
	people.AddProject("garden", "ann", "pro")
	people.AddMember("garden", "bob", access.RoleMember)
	people.SetCode("bob", "garden", true)

	ask := access.Question{Actor: access.Actor{User: "bob"}, Project: "garden", Want: access.WantRole | access.WantCode | access.WantBilling}
	facts, err := people.Facts(context.Background(), ask)
	if err != nil {
		fmt.Println(err)
		return
	}
	session := access.SessionFacts{Owner: "bob", Project: "garden"}
	fmt.Println(facts.Role, "pays:", facts.Payer, "plan:", facts.Plan)
	fmt.Println("may run code:", access.RunCode(ask.Actor, session, "", facts).Allow)

	people.RemoveMember("garden", "bob")
	facts, err = people.Facts(context.Background(), ask)
	fmt.Println("removed:", access.RunCode(ask.Actor, session, "", facts).Allow, err)
	// Output:
	// member pays: ann plan: pro
	// may run code: true
	// removed: false <nil>
}
