package sandbox_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

const secret = "0123456789abcdef0123456789abcdef"

func ExampleDeriveKey() {
	key, err := sandbox.DeriveKey([]byte("a secret of at least 32 bytes, kept safe"), "payer-1", "sandbox-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(key), len(sandbox.Name(key, 1)), strings.HasSuffix(sandbox.Name(key, 1), "-g1"))

	_, err = sandbox.DeriveKey([]byte("short"), "payer-1", "sandbox-1")
	fmt.Println(err)
	// Output:
	// 68 47 true
	// invalid KeySecret: must have at least 32 bytes, has 5
}

// The frozen identity towards providers: another key orphans every machine.
// The constants were computed with Python 3.11, not with this program:
//
//	python3 -c 'import hmac, hashlib
//	k = "bkr-" + hmac.new(b"0123456789abcdef0123456789abcdef", b"bunkroom-sandbox:v1\0tenant-1\0sandbox-1", hashlib.sha3_256).hexdigest()
//	print(k, k[:44] + "-g1")'
func TestKeyKnownAnswer(t *testing.T) { // S-04
	const (
		wantKey  = "bkr-fa4f6d1af37e9bcca3e98d3b4aae579270b3111ef3745f2171fcb0b7066ee7b7"
		wantName = "bkr-fa4f6d1af37e9bcca3e98d3b4aae579270b3111e-g1"
	)
	key := derive(t, secret, "tenant-1", "sandbox-1")
	if key != wantKey {
		t.Errorf("key %s, want %s", key, wantKey)
	}
	if name := sandbox.Name(wantKey, 1); name != wantName {
		t.Errorf("name %s, want %s", name, wantName)
	}
}

func derive(t *testing.T, secret string, tenant access.UserID, id sandbox.ID) sandbox.Key {
	t.Helper()
	key, err := sandbox.DeriveKey([]byte(secret), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestKeySeparates(t *testing.T) { // T-11
	keys := map[sandbox.Key]string{}
	for _, s := range []string{secret, secret + "x"} {
		for _, tenant := range []access.UserID{"tenant-1", "tenant-2", "a", "ab"} {
			for _, id := range []sandbox.ID{"sandbox-1", "sandbox-2", "bc", "c"} {
				key := derive(t, s, tenant, id)
				if again := derive(t, s, tenant, id); again != key {
					t.Errorf("%s %s: %s, then %s", tenant, id, key, again)
				}
				what := fmt.Sprintf("secret of %d bytes, %s, %s", len(s), tenant, id)
				if other, taken := keys[key]; taken {
					t.Errorf("%s has the key of %s", what, other)
				}
				keys[key] = what
			}
		}
	}
}

func TestKeyRefuses(t *testing.T) { // T-09, T-10, T-12
	for _, c := range []struct {
		says, secret string
		tenant       access.UserID
		id           sandbox.ID
		field        string
	}{
		{"no secret", "", "tenant-1", "sandbox-1", "KeySecret"},
		{"a secret of 31 bytes counts as none", secret[1:], "tenant-1", "sandbox-1", "KeySecret"},
		{"no tenant: no fallback", secret, "", "sandbox-1", "tenant"},
		{"no sandbox", secret, "tenant-1", "", "sandbox id"},
		{"a NUL would make the message ambiguous", secret, "a\x00b", "c", "tenant"},
		{"a NUL would make the message ambiguous", secret, "a", "b\x00c", "sandbox id"},
		{"a NUL alone", secret, "\x00", "c", "tenant"},
	} {
		key, err := sandbox.DeriveKey([]byte(c.secret), c.tenant, c.id)
		var field *access.FieldError
		if key != "" || !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: key %q, error %v", c.says, key, err)
		}
		if err != nil && c.secret != "" && strings.Contains(err.Error(), c.secret) {
			t.Errorf("%s: the error tells the secret", c.says)
		}
	}
}

func TestNameFitsAndSeparates(t *testing.T) { // rule 2: a name stands for one generation, for ever
	key := derive(t, secret, "tenant-1", "sandbox-1")
	names := map[string]int64{}
	for _, g := range []int64{1, 2, 9, 10, 11, 19, 99, 100, 101, 110, 12345, 99_999_999_999_999_999} {
		name := sandbox.Name(key, g)
		if len(name) > 63 {
			t.Errorf("generation %d: %d bytes, providers take 63", g, len(name))
		}
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("%s: not a host name", name)
		}
		if other, taken := names[name]; taken {
			t.Errorf("generations %d and %d are both %s", g, other, name)
		}
		names[name] = g
		// "…-g1" begins "…-g10": whoever reads a name must read all of it.
		head, tail, _ := cutLast(name, "-g")
		if back, err := strconv.ParseInt(tail, 10, 64); err != nil || back != g || head != string(key[:44]) {
			t.Errorf("%s reads as key %s, generation %d: %v", name, head, back, err)
		}
	}
	if sandbox.Name(key, math.MaxInt64) == sandbox.Name(key, math.MaxInt64-1) {
		t.Error("a name was cut at its generation")
	}
	if other := derive(t, secret, "tenant-2", "sandbox-1"); sandbox.Name(other, 1) == sandbox.Name(key, 1) {
		t.Error("two keys have one name")
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
