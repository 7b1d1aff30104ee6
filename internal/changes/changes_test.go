package changes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/internal/changes"
	"github.com/bunkroom/bunkroom/sandbox"
)

func created(path string) sandbox.Change {
	return sandbox.Change{Kind: sandbox.ChangeCreated, Path: path}
}

func modified(path string) sandbox.Change {
	return sandbox.Change{Kind: sandbox.ChangeModified, Path: path}
}

var overflow = sandbox.Change{Kind: sandbox.ChangeOverflow}

// read reads to the end.
func read(ctx context.Context, q *changes.Queue) (all []sandbox.Change, end error) {
	for c, err := range q.All(ctx, func() {}) {
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

// Each list of changes, and what is left of it for a reader who comes late, with room for three.
func TestQueue(t *testing.T) {
	a, b, c, d := created("a"), created("b"), created("c"), created("d")
	for name, x := range map[string]struct{ tell, want []sandbox.Change }{
		"none":                      {nil, nil},
		"as many as there is room":  {[]sandbox.Change{a, b, c}, []sandbox.Change{a, b, c}},
		"too many":                  {[]sandbox.Change{a, b, c, d}, []sandbox.Change{a, b, c, overflow}},
		"far too many":              {[]sandbox.Change{a, b, c, d, a, b, c, d}, []sandbox.Change{a, b, c, overflow}},
		"an overflow of the kernel": {[]sandbox.Change{a, overflow, overflow, b}, []sandbox.Change{a, overflow, b}},
		"an overflow at the end":    {[]sandbox.Change{a, b, overflow, c, d}, []sandbox.Change{a, b, overflow}},
		"again and again":           {[]sandbox.Change{modified("a"), modified("a"), modified("a"), modified("b"), modified("a")}, []sandbox.Change{modified("a"), modified("b"), modified("a")}},
		"made twice":                {[]sandbox.Change{a, a}, []sandbox.Change{a, a}},
	} {
		q := changes.NewQueue(3)
		for _, c := range x.tell {
			q.Tell(c)
		}
		over := errors.New("over")
		q.End(over, false)
		q.End(errors.New("later"), true)
		q.Tell(a)
		got, err := read(t.Context(), q)
		if diff := cmp.Diff(x.want, got); diff != "" || err != over {
			t.Errorf("%s: ends with %v (-want +got)\n%s", name, err, diff)
		}
	}
}

// Once there is room again changes are told again, after the overflow.
func TestQueueRecovers(t *testing.T) {
	q := changes.NewQueue(2)
	var got []sandbox.Change
	for range 5 {
		q.Tell(created("x"))
	}
	for c, err := range q.All(t.Context(), func() {}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, c); c == overflow {
			q.Tell(created("y"))
			q.End(errors.New("over"), false)
		}
		if len(got) == 4 {
			break
		}
	}
	if want := []sandbox.Change{created("x"), created("x"), overflow, created("y")}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

// An end at once drops what waits; the context's is no error; whoever breaks off is done too.
func TestQueueEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, over := changes.NewQueue(9), errors.New("over")
		q.Tell(created("x"))
		q.End(over, true)
		if got, err := read(t.Context(), q); len(got) != 0 || err != over {
			t.Errorf("told %v, %v", got, err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		q, done := changes.NewQueue(9), 0
		q.Tell(created("x"))
		ended := make(chan string)
		go func() {
			said := ""
			for c, err := range q.All(ctx, func() { done++; q.End(over, true) }) {
				said += fmt.Sprint(c.Path, err)
			}
			ended <- said
		}()
		synctest.Wait() // it has read one and waits for more
		cancel()
		if said := <-ended; said != "x<nil>" || done != 1 {
			t.Errorf("told %q, done %d times", said, done)
		}

		q = changes.NewQueue(9)
		q.Tell(created("x"))
		for range q.All(t.Context(), func() { done++ }) {
			break
		}
		if done != 2 {
			t.Errorf("done %d times", done)
		}
	})
}
