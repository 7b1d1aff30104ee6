package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session/transcript"
)

func say(kind transcript.Kind, id transcript.EntryID, text string) transcript.NewEntry {
	return transcript.NewEntry{ID: id, Kind: kind, Parts: []transcript.Part{transcript.TextPart(text)}}
}

// A conversation is gone back in and taken another way, forked, made shorter
// for the model, and gone on with by another process after the first has died.
func Example() {
	ctx := context.Background()
	store := memory.New(nil).Transcripts()
	must := func(_ any, err error) {
		if err != nil {
			panic(err)
		}
	}
	show := func(what string, c transcript.PathQuery) {
		page, err := store.Path(ctx, c)
		must(nil, err)
		fmt.Print(what, ":")
		for _, e := range page.Entries {
			fmt.Print(" ", e.ID)
		}
		fmt.Println()
	}

	must(store.Create(ctx, "talk"))
	must(store.Commit(ctx, transcript.Change{Conversation: "talk", Append: []transcript.NewEntry{
		say(transcript.KindUser, "q1", "Where is the bug?"), say(transcript.KindAssistant, "a1", "In the parser."),
		say(transcript.KindUser, "q2", "Fix it."), say(transcript.KindAssistant, "a2", "I have rewritten it."),
	}}))

	// Back to before "Fix it.": what comes next is a branch.
	must(store.Commit(ctx, transcript.Change{Conversation: "talk", Head: transcript.After("a1")}))
	must(store.Commit(ctx, transcript.Change{
		Conversation: "talk", Expect: transcript.After("a1"), Append: []transcript.NewEntry{say(transcript.KindUser, "q3", "Only explain it.")},
	}))
	show("here", transcript.PathQuery{Conversation: "talk"})
	show("left", transcript.PathQuery{Conversation: "talk", From: transcript.After("a2")})

	// Somebody who has not seen that is told, and overwrites nothing.
	_, err := store.Commit(ctx, transcript.Change{
		Conversation: "talk", Expect: transcript.After("a1"), Append: []transcript.NewEntry{say(transcript.KindUser, "q4", "And now?")},
	})
	if moved := (*transcript.HeadError)(nil); errors.As(err, &moved) {
		fmt.Println("the head is", moved.Actual)
	}

	// A fork has exactly the path that it begins with.
	must(store.Fork(ctx, transcript.Fork{From: "talk", To: "fork", At: transcript.After("a2"), ByReference: true}))
	show("fork", transcript.PathQuery{Conversation: "fork"})

	// A turn begins, calls a tool, and its process dies. The next one takes over.
	must(store.Commit(ctx, transcript.Change{Conversation: "fork", Fence: 1, Begin: true, Append: []transcript.NewEntry{{
		ID: "a5", Kind: transcript.KindAssistant, Parts: []transcript.Part{{Type: transcript.PartCall, Call: &transcript.Call{ID: "c1", Name: "run", Arguments: []byte(`{"command":"make"}`)}}},
	}}}))
	must(store.Commit(ctx, transcript.Change{Conversation: "fork", Fence: 2, Begin: true}))
	open, err := store.Unsettled(ctx, "fork")
	must(nil, err)
	for _, c := range open.Calls {
		fmt.Println("nobody knows how", c.Call.Name, string(c.Call.Arguments), "ended")
		must(store.Commit(ctx, transcript.Change{Conversation: "fork", Fence: 2, Settle: []transcript.Settlement{
			{CallAddress: transcript.CallAddress{Entry: c.Entry, Call: c.Call.ID}, Status: transcript.CallInterrupted},
		}}))
	}
	_, err = store.Commit(ctx, transcript.Change{Conversation: "fork", Fence: 1, Append: []transcript.NewEntry{say(transcript.KindAssistant, "late", "Done.")}})
	fmt.Println("the first, later:", errors.Is(err, transcript.ErrFenced))

	// What was said first is summarised.
	given, err := store.Context(ctx, "fork", transcript.Position{}, 1000)
	must(nil, err)
	plan, _ := transcript.PlanCompaction(given, func(transcript.Entry) int64 { return 100 }, transcript.CompactionRule{Above: 400, Keep: 200})
	must(store.Commit(ctx, transcript.Change{
		Conversation: "fork", Fence: 2, End: true, Expect: plan.Head,
		Append: []transcript.NewEntry{{ID: "k1", Kind: transcript.KindCompaction, Compaction: plan.Compaction("A bug in the parser was fixed.")}},
	}))
	given, err = store.Context(ctx, "fork", transcript.Position{}, 1000)
	must(nil, err)
	for _, m := range transcript.Project(given) {
		if m.Call != nil {
			fmt.Println(m.Role, m.Call.Name, m.Call.Status)
			continue
		}
		fmt.Println(strings.TrimSpace(fmt.Sprintln(m.Role, m.Entry, m.Parts[0].Text())))
	}

	// Output:
	// here: q3 a1 q1
	// left: a2 q2 a1 q1
	// the head is after q3
	// fork: a2 q2 a1 q1
	// nobody knows how run {"command":"make"} ended
	// the first, later: true
	// user k1 A bug in the parser was fixed.
	// user q2 Fix it.
	// assistant a2 I have rewritten it.
	// assistant a5
	// tool run interrupted
}
