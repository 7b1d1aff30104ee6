package transcript_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/session/transcript"
)

func TestCommon(t *testing.T) {
	span := func(tree string, branch, from, to int64) transcript.Span {
		return transcript.Span{Tree: tree, Branch: branch, From: from, To: to}
	}
	trunk := span("t", 1, 1, 10)
	for _, c := range []struct {
		rule string
		a, b []transcript.Span
		want int64
	}{
		{"nothing has nothing in common", nil, nil, 0},
		{"nor with anything", nil, []transcript.Span{trunk}, 0},
		{"a path has itself in common", []transcript.Span{trunk}, []transcript.Span{trunk}, 10},
		{"with what it goes on to", []transcript.Span{trunk, span("t", 20, 11, 12)}, []transcript.Span{trunk}, 10},
		{"two branches have what is before the first of them", []transcript.Span{span("t", 1, 1, 3), span("t", 20, 4, 9)}, []transcript.Span{trunk}, 3},
		{"two from one place have that", []transcript.Span{span("t", 1, 1, 3), span("t", 20, 4, 9)}, []transcript.Span{span("t", 1, 1, 3), span("t", 30, 4, 4)}, 3},
		{"branches of a branch", []transcript.Span{span("t", 1, 1, 3), span("t", 20, 4, 9)}, []transcript.Span{span("t", 1, 1, 3), span("t", 20, 4, 6), span("t", 40, 7, 8)}, 6},
		{"two roots have nothing", []transcript.Span{trunk}, []transcript.Span{span("t", 50, 1, 4)}, 0},
		{"nor have two trees", []transcript.Span{trunk}, []transcript.Span{span("u", 1, 1, 10)}, 0},
		{"a fork by reference has what it reads of its source", []transcript.Span{trunk}, []transcript.Span{span("t", 1, 1, 5), span("u", 60, 6, 7)}, 5},
	} {
		if got := transcript.Common(c.a, c.b); got != c.want {
			t.Errorf("%s: got %d, want %d", c.rule, got, c.want)
		}
		if got := transcript.Common(c.b, c.a); got != c.want {
			t.Errorf("%s, the other way round: got %d, want %d", c.rule, got, c.want)
		}
	}
}

func TestFold(t *testing.T) {
	set := func(pairs ...string) map[string]json.RawMessage {
		m := map[string]json.RawMessage{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = json.RawMessage(pairs[i+1])
		}
		return m
	}
	type delta = transcript.StateDelta
	for _, c := range []struct {
		rule   string
		deltas []delta
		want   transcript.State
	}{
		{"of nothing it is empty, and there", nil, transcript.State{}},
		{"what is set later holds", []delta{{Set: set("a", "1", "b", "1")}, {Set: set("a", "2")}}, set("a", "2", "b", "1")},
		{"what is deleted is gone", []delta{{Set: set("a", "1")}, {Delete: []string{"a", "never"}}}, transcript.State{}},
		{"null is a value", []delta{{Set: set("a", "null")}}, set("a", "null")},
		{"one change deletes before it sets", []delta{{Set: set("a", "1")}, {Delete: []string{"a"}, Set: set("a", "2")}}, set("a", "2")},
		{"whole begins anew", []delta{{Set: set("a", "1")}, {Whole: true, Set: set("b", "2")}, {Set: set("c", "3")}}, set("b", "2", "c", "3")},
	} {
		if d := cmp.Diff(c.want, transcript.Fold(c.deltas...)); d != "" {
			t.Errorf("%s: %s", c.rule, d)
		}
	}
}

// Case 22: the state at an entry is that of its path, however it is folded: what
// is kept of an earlier fold can be gone on from. And a fold writes to nothing it is given.
func TestFoldGoesOn(t *testing.T) {
	keys := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		var deltas []transcript.StateDelta
		for range rapid.IntRange(0, 8).Draw(t, "deltas") {
			d := transcript.StateDelta{Whole: rapid.IntRange(0, 4).Draw(t, "whole") == 0, Delete: rapid.SliceOfN(keys, 0, 2).Draw(t, "delete"), Set: map[string]json.RawMessage{}}
			for _, key := range rapid.SliceOfN(keys, 0, 2).Draw(t, "set") {
				d.Set[key] = json.RawMessage(rapid.SampledFrom([]string{"1", "2", "null"}).Draw(t, "value"))
			}
			deltas = append(deltas, d)
		}
		at := rapid.IntRange(0, len(deltas)).Draw(t, "at")
		whole := transcript.Fold(deltas...)
		snapshot := transcript.StateDelta{Whole: true, Set: transcript.Fold(deltas[:at]...)}
		if d := cmp.Diff(whole, transcript.Fold(append([]transcript.StateDelta{snapshot}, deltas[at:]...)...)); d != "" {
			t.Fatal(d)
		}
		if d := cmp.Diff(whole, transcript.Fold(deltas...)); d != "" {
			t.Fatalf("folded again: %s", d)
		}
	})
}

func TestUsage(t *testing.T) {
	u, v := transcript.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, CostMicros: 5}, transcript.Usage{Input: 10, Output: 20, CacheRead: 30, CacheWrite: 40, CostMicros: 50}
	sum := transcript.Usage{Input: 11, Output: 22, CacheRead: 33, CacheWrite: 44, CostMicros: 55}
	if u.Add(v) != sum || sum.Minus(v) != u {
		t.Errorf("got %+v and %+v", u.Add(v), sum.Minus(v))
	}
}
