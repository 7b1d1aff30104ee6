package talk

import (
	"fmt"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// Stories are all of them, by name.
func Stories() map[string]Story {
	return map[string]Story{
		"append":     appending(),
		"calls":      calling(),
		"draft":      drafting(),
		"turns":      turns(),
		"compaction": compacting(),
		"rewind":     rewinding(),
		"fork":       forking(),
		"import":     importing(),
		"inbox":      inbox(),
		"delivery":   delivery(),
		"status":     status(),
		"purge":      purging(),
	}
}

func appending() Story {
	return Story{Arrange: all(), Steps: []Step{
		create(Main),
		commit(transcript.Change{Append: entries(asks("one"))}),
		commit(transcript.Change{Append: entries(works("a", "a1"), asks("b"), works("c", "c1", "c2"))}),
		commit(transcript.Change{Append: entries(shows("d"), sets("e", "k", `"v"`)), Expect: transcript.After("c")}),
		commit(transcript.Change{Append: entries(asks("f"), asks("g")), After: transcript.After("one")}), // a branch
		commit(transcript.Change{Append: entries(asks("another root")), After: transcript.BeforeRoot(), KeepHead: true}),
	}}
}

func calling() Story {
	at := func(call transcript.CallID) transcript.CallAddress {
		return transcript.CallAddress{Entry: "work", Call: call}
	}
	return Story{
		Arrange: all(begun(), commit(transcript.Change{Append: entries(works("work", "a", "b", "c", "d"))})),
		Steps: []Step{
			commit(transcript.Change{Start: []transcript.CallAddress{at("a"), at("b")}}),
			commit(transcript.Change{Settle: []transcript.Settlement{settles("work", "a", transcript.CallSucceeded, []byte(`{"exit":0}`))}}),
			commit(transcript.Change{
				Settle: []transcript.Settlement{settles("work", "b", transcript.CallFailed, large("b")), settles("work", "c", transcript.CallDenied, nil)},
				Append: entries(works("more", "e")),
			}),
		},
	}
}

func drafting() Story {
	draft := func(id transcript.EntryID, calls ...transcript.CallID) transcript.Change {
		return transcript.Change{Fence: 1, Draft: &transcript.Draft{NewEntry: works(id, calls...)}}
	}
	return Story{Arrange: all(begun()), Steps: []Step{
		commit(transcript.Change{Fence: 1, Begin: true}),
		commit(draft("answer")),
		commit(draft("answer", "a")),
		commit(transcript.Change{Fence: 1, Append: entries(works("answer", "a", "b"))}),
		commit(draft("another", "c")),
		commit(transcript.Change{Fence: 1, Abort: []transcript.EntryID{"another"}}),
		commit(draft("third", "d")),
	}}
}

func turns() Story {
	return Story{
		Arrange: all(begun(), admit(transcript.LaneSteer, asks("i")), admit(transcript.LaneFollowUp, asks("j"))),
		Steps: []Step{
			commit(transcript.Change{Fence: 1, Begin: true, Append: entries(works("work", "a", "b"))}),
			commit(transcript.Change{Fence: 1, Start: []transcript.CallAddress{{Entry: "work", Call: "a"}}, Draft: &transcript.Draft{NewEntry: asks("half")}}),
			input("i", transcript.InputCommand{Claim: 1}),
			commit(transcript.Change{Fence: 2, Begin: true}), // takes over
			commit(transcript.Change{Fence: 2, Abort: []transcript.EntryID{"half"}, Settle: []transcript.Settlement{
				settles("work", "a", transcript.CallInterrupted, nil), settles("work", "b", transcript.CallInterrupted, nil),
			}}),
			commit(transcript.Change{Fence: 2, Hold: true}),
			commit(transcript.Change{Fence: 2, Append: entries(asks("sorry")), End: true}),
			commit(transcript.Change{Fence: 3, Begin: true}),
			commit(transcript.Change{Fence: 3, EndIdle: true}).or(is(transcript.ErrFenced)),
			commit(transcript.Change{Resume: true}),
		},
	}
}

func compacting() Story {
	return Story{Arrange: all(rich()), Steps: []Step{
		commit(transcript.Change{Fence: 1, Begin: true}),
		commit(transcript.Change{Fence: 1, Append: entries(compacts("folded again", "image", "first", "work")), Expect: transcript.After("after")}),
		commit(transcript.Change{Fence: 1, Append: entries(asks("on"), compacts("whole", ""))}),
		commit(transcript.Change{Fence: 1, Append: entries(asks("and on")), End: true}),
	}}
}

func rewinding() Story {
	rewind := func(to transcript.Position, version int64, more transcript.Change) Step {
		more.Head, more.Version = to, version
		return commit(more).or(as[*transcript.VersionError])
	}
	return Story{Arrange: all(rich()), Steps: []Step{
		rewind(transcript.After("second"), 4, transcript.Change{Refs: []transcript.RefChange{{Name: "left", To: transcript.After("after"), Version: -1}}}),
		commit(transcript.Change{Append: entries(says(transcript.KindSummary, "told"), asks("elsewhere"))}),
		rewind(transcript.BeforeRoot(), 6, transcript.Change{Labels: []transcript.LabelChange{{Entry: "told", Label: "summary"}, {Entry: "first", Label: "good", Remove: true}}}),
		commit(transcript.Change{Append: entries(asks("anew"))}),
		commit(transcript.Change{Refs: []transcript.RefChange{{Name: "here", Version: 1}, {Name: "there", To: transcript.BeforeRoot(), Version: 1}}}).or(as[*transcript.VersionError]),
	}}
}

func forking() Story {
	return Story{Arrange: all(rich()), Steps: []Step{
		fork(transcript.Fork{From: Main, To: Other, Refs: true}),
		fork(transcript.Fork{From: Main, To: Third, At: transcript.After("after"), ByReference: true, Refs: true}),
		commit(transcript.Change{Conversation: Third, Append: entries(works("own", "x"))}),
		commit(transcript.Change{Conversation: Third, After: transcript.After("work"), Append: entries(asks("own branch")), Labels: []transcript.LabelChange{{Entry: "image", Label: "seen"}}}),
		fork(transcript.Fork{From: Third, To: Fourth, At: transcript.After("own branch"), Before: true, ByReference: true}),
		commit(transcript.Change{Settle: []transcript.Settlement{settles("work", "open", transcript.CallSucceeded, large("s"))}}), // the forks' is interrupted
	}}
}

func importing() Story {
	long := make([]transcript.NewEntry, 120) // more than one commit of an import
	for i := range long {
		long[i] = asks(transcript.EntryID(fmt.Sprintf("long %03d", i)))
	}
	return Story{
		Arrange: all(rich(), commit(transcript.Change{Append: long})),
		Steps: []Step{
			carry(Main, Other).or(is(transcript.ErrExists)),
			commit(transcript.Change{Conversation: Other, Append: entries(works("on", "x"))}),
		},
	}
}

func inbox() Story {
	edited := says(transcript.KindUser, "a", transcript.Part{Type: "image", Data: large("e")})
	late := as[*transcript.TooLateError]
	stale := as[*transcript.VersionError]
	return Story{Arrange: all(begun()), Steps: []Step{
		admit(transcript.LaneSteer, asks("a")),
		admit(transcript.LaneSteer, shows("b")),
		admit(transcript.LaneFollowUp, asks("c")),
		input("a", transcript.InputCommand{Version: 1, Edit: &edited}).or(stale),
		input("b", transcript.InputCommand{Version: 1, Move: &transcript.Move{Before: "a"}}).or(stale),
		input("c", transcript.InputCommand{Version: 1, Lane: transcript.LaneSteer}).or(stale),
		commit(transcript.Change{Fence: 1, Begin: true}),
		input("a", transcript.InputCommand{Claim: 1}),
		input("a", transcript.InputCommand{Fail: &transcript.Failure{Fence: 1, Error: "no", Attempts: 5}}).or(late),
		input("b", transcript.InputCommand{Claim: 1}),
		input("b", transcript.InputCommand{Release: 1}).or(late),
		input("a", transcript.InputCommand{Claim: 1}),
		input("c", transcript.InputCommand{Cancel: true}),
		commit(transcript.Change{Fence: 1, Append: entries(edited), Promote: []transcript.EntryID{"a"}}),
		commit(transcript.Change{Fence: 1, End: true}).or(is(transcript.ErrFenced)),
		lapse(asks("late")),
		lapse(shows("too late")),
		expire(),
	}}
}

func delivery() Story {
	return Story{
		Arrange: all(begun(), admit(transcript.LaneSteer, asks("a")), admit(transcript.LaneSynthetic, says(transcript.KindSynthetic, "b")), admit(transcript.LaneFollowUp, asks("c")),
			admit(transcript.LaneFollowUp, asks("d"))),
		Steps: []Step{
			commit(transcript.Change{Fence: 1, Begin: true, Append: entries(asks("a"), says(transcript.KindSynthetic, "b")), Promote: []transcript.EntryID{"a", "b"}}),
			commit(transcript.Change{Fence: 1, Append: entries(works("answer", "x"))}),
			input("c", transcript.InputCommand{Claim: 1}),
			commit(transcript.Change{
				Fence: 1, Settle: []transcript.Settlement{settles("answer", "x", transcript.CallSucceeded, []byte(`1`))},
				Append: entries(shows("c")), Promote: []transcript.EntryID{"c"},
			}),
			commit(transcript.Change{Fence: 1, Append: entries(asks("d"), says(transcript.KindAssistant, "bye")), Promote: []transcript.EntryID{"d"}, EndIdle: true}),
		},
	}
}

func status() Story {
	return Story{Arrange: all(rich(), admit(transcript.LaneSteer, asks("i"))), Steps: []Step{
		commit(transcript.Change{Status: transcript.Archived, CancelWaiting: true}),
		commit(transcript.Change{Status: transcript.Active}),
		commit(transcript.Change{Status: transcript.Deleted}).or(is(transcript.ErrNotFound)),
		create(Main), // another
		commit(transcript.Change{Append: entries(works("work", "z"))}),
	}}
}

func purging() Story {
	return Story{
		Arrange: all(rich(), admit(transcript.LaneSteer, shows("i")), commit(transcript.Change{Draft: &transcript.Draft{NewEntry: asks("half")}}),
			fork(transcript.Fork{From: Main, To: Other, ByReference: true, Refs: true}),
			commit(transcript.Change{Conversation: Other, Append: entries(works("own", "x"))}),
			fork(transcript.Fork{From: Other, To: Third, ByReference: true}),
			commit(transcript.Change{Conversation: Third, After: transcript.After("work"), Append: entries(asks("third's"))}),
			fork(transcript.Fork{From: Main, To: Fourth, At: transcript.After("beside work")}),
			commit(transcript.Change{Status: transcript.Deleted, CancelWaiting: true}), commit(transcript.Change{Conversation: Other, Status: transcript.Deleted}),
		),
		Steps: []Step{purge(9)},
	}
}
