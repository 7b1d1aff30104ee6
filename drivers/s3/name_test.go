package s3

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSessionName(t *testing.T) {
	const uuid = "0192f0c1-2ab4-7cde-8f01-23456789abcd"
	for _, c := range []struct {
		rule, run string
		most      int
		want      string
	}{
		{"an id is its own name", uuid, maxRoleName, uuid},
		{"all that is allowed stays", "a_B+9,.@-", maxRoleName, "a_B+9,.@-"},
		{"no run has a name too", "", maxRoleName, "run=none"},
		{"which no run has", "run=none", maxRoleName, "run-none=HASH"},
		{"what is too short is hashed", "a", maxRoleName, "a=ca978112ca1bbdca"},
		{"what is too long is cut and hashed", uuid, maxFederation, "0192f0c1-2ab4-7=HASH"},
		{"what is not allowed is a dash", "a b/ü", maxRoleName, "a-b--=HASH"},
	} {
		sum := sha256.Sum256([]byte(c.run))
		want := strings.Replace(c.want, "HASH", hex.EncodeToString(sum[:8]), 1)
		if got := sessionName(c.run, c.most); got != want {
			t.Errorf("%s: %q, want %q", c.rule, got, want)
		}
	}
}

// Every run has a name that STS takes, and no two have the same.
func TestSessionNamesStayApart(t *testing.T) {
	allowed := regexp.MustCompile(`^[\w+=,.@-]+$`)
	run := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-c=/ü]{0,3}`), rapid.StringMatching(`[a-b]{31,66}`))
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{maxRoleName, maxFederation}).Draw(t, "most")
		a := run.Draw(t, "a")
		name := sessionName(a, most)
		if len(name) < minName || len(name) > most || !allowed.MatchString(name) {
			t.Fatalf("%q is called %q", a, name)
		}
		for _, b := range []string{run.Draw(t, "b"), name, a + "/", "/" + a, strings.ReplaceAll(a, "/", "-")} {
			if b != a && sessionName(b, most) == name {
				t.Fatalf("%q and %q are both called %q", a, b, name)
			}
		}
	})
}
