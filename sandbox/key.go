package sandbox

import (
	"crypto/hmac"
	"crypto/sha3"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"github.com/bunkroom/bunkroom/access"
)

// ID is a sandbox's id, minted by Bunkroom.
type ID string

// Key is a sandbox's stable identity towards its provider, derived once (see
// [DeriveKey]) and then stored: a stored key wins over a derived one, for ever.
type Key string

// Incarnation is the provider's identity of one existing machine. Two machines
// never share one, even where they share a name.
type Incarnation string

// MinSecret is the least length of a key secret, in bytes. A shorter one counts as none.
const MinSecret = 32

const (
	keyPrefix    = "bkr-"                // frozen: another prefix orphans every machine
	keyNamespace = "bunkroom-sandbox:v1" // frozen likewise; one namespace per kind of id
	nameKeyBytes = 44                    // with "-g" and 17 digits a name has at most 63 bytes
)

// DeriveKey derives the key of a sandbox from the host's secret, the tenant
// (the payer when the sandbox first had a machine) and the sandbox's id:
//
//	"bkr-" + hex(HMAC-SHA3-256(secret, "bunkroom-sandbox:v1" NUL tenant NUL id))
//
// An empty tenant or id, one that holds a NUL byte, or a secret of under
// [MinSecret] bytes is refused with a [*access.FieldError]: a key is never
// derived from a guess.
func DeriveKey(secret []byte, tenant access.UserID, id ID) (Key, error) {
	if len(secret) < MinSecret {
		return "", &access.FieldError{Field: "KeySecret", Rule: fmt.Sprintf("must have at least %d bytes, has %d", MinSecret, len(secret))}
	}
	for _, in := range []struct{ field, value string }{{"tenant", string(tenant)}, {"sandbox id", string(id)}} {
		if in.value == "" || strings.IndexByte(in.value, 0) >= 0 {
			return "", &access.FieldError{Field: in.field, Rule: "must not be empty or hold a NUL byte"}
		}
	}
	mac := hmac.New(func() hash.Hash { return sha3.New256() }, secret)
	mac.Write([]byte(keyNamespace + "\x00" + string(tenant) + "\x00" + string(id)))
	return Key(keyPrefix + hex.EncodeToString(mac.Sum(nil))), nil
}

// Name is the provider's name of the machine of one generation: the first 44
// bytes of the key, "-g" and the decimal generation, at most 63 bytes. A
// generation is never used again, so neither is a name, and to destroy by
// name is safe.
func Name(key Key, generation int64) string {
	head := string(key)
	if len(head) > nameKeyBytes {
		head = head[:nameKeyBytes]
	}
	return head + "-g" + strconv.FormatInt(generation, 10)
}
