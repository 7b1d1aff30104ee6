package pijsonl_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session/transcript"
	"github.com/bunkroom/bunkroom/session/transcript/pijsonl"
)

// A session of pi becomes a conversation here, and what a model is given is what it was given there.
func ExampleOpen() {
	const session = `{"type":"session","version":3,"id":"s1","timestamp":"2026-05-01T07:00:00.000Z","cwd":"/src"}
{"type":"message","id":"a1","parentId":null,"timestamp":"2026-05-01T07:00:01.000Z","message":{"role":"user","content":"Do the tests pass?"}}
{"type":"message","id":"a2","parentId":"a1","timestamp":"2026-05-01T07:00:02.000Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"c1","name":"bash","arguments":{"command":"make test"}}],"usage":{"input":20,"output":9,"cost":{"total":0.0004}},"stopReason":"toolUse"}}
{"type":"message","id":"a3","parentId":"a2","timestamp":"2026-05-01T07:00:03.000Z","message":{"role":"toolResult","toolCallId":"c1","toolName":"bash","content":[{"type":"text","text":"ok"}],"isError":false}}
{"type":"message","id":"a4","parentId":"a3","timestamp":"2026-05-01T07:00:04.000Z","message":{"role":"assistant","content":[{"type":"text","text":"They do."}],"stopReason":"stop"}}
{"type":"label","id":"a5","parentId":"a4","timestamp":"2026-05-01T07:00:05.000Z","targetId":"a4","label":"green"}
`
	ctx, store := context.Background(), memory.New(nil).Transcripts()
	src := strings.NewReader(session) // or an *os.File
	file, err := pijsonl.Open(src, src.Size(), &pijsonl.Options{Actor: "alice"})
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := file.Import(ctx, store, "talk")
	if err != nil {
		fmt.Println(err) // a *transcript.LineError tells the line; nothing was imported
		return
	}
	fmt.Println(file.Header().Dir, "head", t.Head, "usage", t.Usage)
	given, err := store.Context(ctx, "talk", transcript.Position{}, 1000)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range transcript.Project(given) {
		if m.Call != nil {
			fmt.Println(m.Role, m.Call.Name, m.Call.Status, string(m.Call.Result))
			continue
		}
		fmt.Printf("%s %q\n", m.Role, m.Parts[0].Text())
	}
	// Output:
	// /src head after a5 usage {20 9 0 0 400}
	// user "Do the tests pass?"
	// assistant ""
	// tool bash succeeded {"content":[{"type":"text","text":"ok"}]}
	// assistant "They do."
}
