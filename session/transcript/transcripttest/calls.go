package transcripttest

import (
	"encoding/json"
	"fmt"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// settles settles one call.
func settles(e transcript.EntryID, c transcript.CallID, status transcript.CallStatus, result string) transcript.Change {
	s := transcript.Settlement{CallAddress: transcript.CallAddress{Entry: e, Call: c}, Status: status}
	if result != "" {
		s.Result = json.RawMessage(result)
	}
	return transcript.Change{Settle: []transcript.Settlement{s}}
}

func starts(e transcript.EntryID, c transcript.CallID) transcript.Change {
	return transcript.Change{Start: []transcript.CallAddress{{Entry: e, Call: c}}}
}

// call is a call of an entry as it is stored.
func (b *bench) call(e transcript.EntryID, id transcript.CallID) transcript.Call {
	b.Helper()
	for _, p := range b.get(talk, e).Parts {
		if p.Call != nil && p.Call.ID == id {
			return *p.Call
		}
	}
	b.Fatalf("entry %s has no call %s", e, id)
	return transcript.Call{}
}

func callChecks() []check {
	return []check{
		{"settled-at-once", "Calls that come settled keep each its own result, and those that have none have none, wherever among them.", func(b *bench) {
			b.create(talk)
			const many = 12
			ids := make([]transcript.CallID, many)
			for i := range ids {
				ids[i] = transcript.CallID(fmt.Sprint("c", i))
			}
			for _, at := range []int{0, 1, many - 1, many} { // which of them has a result; many: all have
				name := transcript.EntryID(fmt.Sprint("a", at))
				e, next := calls(name, ids...), calls(name+"next", "c1")
				if last := next.Parts[1].Call; at == 1 {
					last.Status = transcript.CallPending
				} else {
					last.Status, last.Result = transcript.CallFailed, json.RawMessage(`"after"`)
				}
				for i := range ids {
					switch c := e.Parts[1+i].Call; {
					case at == i || at == many:
						c.Status, c.Result = transcript.CallSucceeded, json.RawMessage(fmt.Sprintf(`{"exit":%d}`, i))
					case i%3 == 0:
						c.Status = transcript.CallDenied
					default:
						c.Status = transcript.CallPending
					}
				}
				b.commit(transcript.Change{Append: []transcript.NewEntry{e, next}})
				b.same("the calls", b.get(talk, name).Parts, e.Parts)
				b.same("the call after them", b.get(talk, name+"next").Parts, next.Parts)
			}
		}},
		{"settle", "A call is pending, perhaps running, then settled for good; nothing else of its entry changes. (invariant 3)", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{calls("a", "c1", "c2", "c3")}})
			before := b.get(talk, "a")
			bytes := b.load(talk).Bytes
			b.commit(starts("a", "c1"))
			b.commit(starts("a", "c1")) // is running
			b.commit(settles("a", "c1", transcript.CallSucceeded, `{"exit":0}`))
			b.commit(settles("a", "c3", transcript.CallDenied, ""))
			want := before
			want.Parts = append([]transcript.Part{}, before.Parts...)
			settled := func(i int, status transcript.CallStatus, result string) {
				c := *before.Parts[i].Call
				c.Status, c.Result = status, nil
				if result != "" {
					c.Result = json.RawMessage(result)
				}
				want.Parts[i].Call = &c
			}
			settled(1, transcript.CallSucceeded, `{"exit":0}`)
			settled(3, transcript.CallDenied, "")
			b.same("the entry", b.get(talk, "a"), want)
			if got := b.load(talk).Bytes - bytes; got != int64(len(`{"exit":0}`)) {
				b.Errorf("the result took %d bytes", got)
			}
			var happened []transcript.Fact
			for _, f := range b.facts(talk, 0, 0) {
				if f.Kind != transcript.FactAppended {
					f.Seq = 0
					happened = append(happened, f)
				}
			}
			of := func(i int, status transcript.CallStatus) *transcript.Call {
				c := *before.Parts[i].Call
				c.Status = status
				return &c
			}
			b.same("what happened", happened, []transcript.Fact{
				{Kind: transcript.FactCallStarted, Entry: "a", Call: of(1, transcript.CallRunning)},
				{Kind: transcript.FactCallSettled, Entry: "a", Call: of(1, transcript.CallSucceeded)},
				{Kind: transcript.FactCallSettled, Entry: "a", Call: of(3, transcript.CallDenied)},
			})
			b.sound(talk)
		}},
		{"settle-once", "The same settlement again changes nothing; another is *SettledError, and so is a start.", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{calls("a", "c1", "c2", "c3")}})
			first := settles("a", "c1", transcript.CallFailed, `{"exit":1}`)
			b.commit(first)
			b.commit(settles("a", "c2", transcript.CallSucceeded, ""))
			b.commit(settles("a", "c3", transcript.CallSucceeded, string(data(2*transcript.InlineBytes, "x"))))
			before := b.picture(talk)
			b.commit(first)
			b.commit(settles("a", "c1", transcript.CallFailed, ` { "exit" : 1 } `))
			b.commit(settles("a", "c3", transcript.CallSucceeded, string(data(2*transcript.InlineBytes, "x"))))
			after := b.picture(talk)
			after.Row.UpdatedAt = before.Row.UpdatedAt
			b.same("after the same again", after, before)
			for what, c := range map[string]transcript.Change{
				"another status":       settles("a", "c1", transcript.CallSucceeded, `{"exit":1}`),
				"another result":       settles("a", "c1", transcript.CallFailed, `{"exit":2}`),
				"no result":            settles("a", "c1", transcript.CallFailed, ""),
				"a result":             settles("a", "c2", transcript.CallSucceeded, `null`),
				"another large result": settles("a", "c3", transcript.CallSucceeded, string(data(2*transcript.InlineBytes, "y"))),
				"a start":              starts("a", "c1"),
			} {
				b.refuses(what, c, as[*transcript.SettledError], "a")
			}
		}},
		{"settle-null", "A result may be null, which is not the same as none.", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{calls("a", "c1", "c2")}})
			b.commit(settles("a", "c1", transcript.CallSucceeded, "null"))
			b.commit(settles("a", "c2", transcript.CallSucceeded, ""))
			if got := b.call("a", "c1"); string(got.Result) != "null" {
				b.Errorf("got result %q, want null", got.Result)
			}
			if got := b.call("a", "c2"); got.Result != nil {
				b.Errorf("got result %q, want none", got.Result)
			}
		}},
		{"settle-nothing", "A call that is not there is ErrNotFound.", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{calls("a", "c1"), calls("b", "c2")}})
			for what, at := range map[string]transcript.CallAddress{
				"of no entry": {Entry: "zz", Call: "c1"}, "of no call": {Entry: "a", Call: "zz"}, "of another entry": {Entry: "a", Call: "c2"},
			} {
				b.refuses("start "+what, transcript.Change{Start: []transcript.CallAddress{at}}, is(transcript.ErrNotFound), string(at.Entry), string(at.Call), string(talk))
				b.refuses("settle "+what, settles(at.Entry, at.Call, transcript.CallFailed, ""), is(transcript.ErrNotFound), string(at.Entry), string(at.Call))
			}
		}},
		{"start-and-settle", "A change can start a call and settle it, and settle many.", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{calls("a", "c1", "c2"), calls("b", "c1")}})
			c := starts("a", "c1")
			c.Settle = append(settles("a", "c1", transcript.CallFailed, `1`).Settle, settles("b", "c1", transcript.CallSucceeded, `2`).Settle...)
			b.commit(c)
			if got := b.call("a", "c1"); got.Status != transcript.CallFailed || string(got.Result) != "1" {
				b.Errorf("got %+v", got)
			}
			if got := b.call("b", "c1"); got.Status != transcript.CallSucceeded || string(got.Result) != "2" {
				b.Errorf("got %+v", got)
			}
			if got := b.call("a", "c2"); got.Status != transcript.CallPending {
				b.Errorf("got %+v", got)
			}
		}},
		{"find-call", "FindCall finds every entry that has a call of that id, in the order of seq.", func(b *bench) {
			b.create(talk)
			b.create(other)
			b.commit(transcript.Change{Append: []transcript.NewEntry{calls("a", "c1", "c2"), calls("b", "c3")}})
			b.commit(transcript.Change{Append: []transcript.NewEntry{calls("c", "c1")}, After: transcript.After("a")})
			b.commit(transcript.Change{Conversation: other, Append: []transcript.NewEntry{calls("d", "c1")}})
			for id, want := range map[transcript.CallID][]transcript.EntryID{"c1": {"a", "c"}, "c3": {"b"}, "zz": {}, "C1": {}} {
				found, err := b.store.FindCall(b.Context(), talk, id)
				if err != nil {
					b.Fatalf("FindCall: %v", err)
				}
				b.same("those with "+string(id), ids(found), want)
				for _, e := range found {
					b.same("one of them", e, b.get(talk, e.ID))
				}
			}
		}},
	}
}
