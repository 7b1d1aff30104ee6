package id_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/google/uuid"
)

func TestNewIsCanonicalVersion7AndSorts(t *testing.T) {
	made := make([]string, 2000)
	for i := range made {
		made[i] = id.New()
	}
	if !slices.IsSorted(made) {
		t.Error("ids don't sort by when they were minted")
	}
	if all := slices.Compact(slices.Clone(made)); len(all) != len(made) {
		t.Errorf("%d of %d ids differ", len(all), len(made))
	}
	for _, s := range []string{made[0], made[len(made)-1]} {
		u, err := uuid.Parse(s)
		if err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 {
			t.Errorf("%s: version %v, %v", s, u.Version(), err)
		}
		if canonical, ok := id.Canonical(s); !ok || canonical != s {
			t.Errorf("%s is not canonical: %s, %v", s, canonical, ok)
		}
	}
}

func TestNewFromManyGoroutines(t *testing.T) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[string]bool{}
	for range 8 {
		wg.Go(func() {
			for range 200 {
				s := id.New()
				mu.Lock()
				seen[s] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 1600 {
		t.Errorf("%d of 1600 ids differ", len(seen))
	}
}

func TestCanonical(t *testing.T) {
	const canonical = "018f4e3a-7b1c-7d2e-9f00-0123456789ab"
	for _, c := range []struct {
		says, in string
		ok       bool
	}{
		{"itself", canonical, true},
		{"upper case", strings.ToUpper(canonical), true},
		{"mixed case", "018F4e3A-7b1c-7D2E-9f00-0123456789aB", true},
		{"without dashes", strings.ReplaceAll(canonical, "-", ""), true},
		{"in braces", "{" + canonical + "}", true},
		{"a urn", "urn:uuid:" + canonical, true},
		{"a urn in upper case", "URN:UUID:" + strings.ToUpper(canonical), true},
		{"empty", "", false},
		{"a name", "agent-1", false},
		{"too short", canonical[1:], false},
		{"too long", canonical + "0", false},
		{"not hexadecimal", "g" + canonical[1:], false},
		{"dashes elsewhere", "018f4e3a7-b1c-7d2e-9f00-0123456789ab", false},
		{"spaces around it", " " + canonical, false},
		{"another urn", "urn:uuix:" + canonical, false},
		{"digits that only look so", strings.Replace(canonical, "0", "٠", 1), false},
	} {
		got, ok := id.Canonical(c.in)
		if ok != c.ok || ok && got != canonical || !ok && got != "" {
			t.Errorf("%s: %q is %q, %v", c.says, c.in, got, ok)
		}
	}
}

// Named ids are frozen: they are part of stored slugs. The constants were
// computed with Python 3.11, not with this program:
//
//	python3 -c 'import uuid
//	dns = uuid.NAMESPACE_DNS
//	print(uuid.uuid5(uuid.uuid5(uuid.uuid5(dns, "bunkroom"), "mounts"), "agent-1"), uuid.uuid5(dns, "bunkroom"))'
func TestNamedKnownAnswer(t *testing.T) {
	const (
		below = "54dba22a-2bf5-512b-9646-cc1a0595799f"
		plain = "935ae2e3-5a57-595a-b410-f1e364ab10c5"
	)
	if got := id.Named("agent-1", "bunkroom", "mounts"); got != below {
		t.Errorf("%s, want %s", got, below)
	}
	if got := id.Named("bunkroom"); got != plain {
		t.Errorf("%s, want %s", got, plain)
	}
	if id.Named("agent-1", "mounts", "bunkroom") == below {
		t.Error("the order of namespaces counts for nothing")
	}
}
