package mount

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
)

const (
	// maxNamespace leaves most of a key's 1,024 bytes to the path.
	maxNamespace = 256
	// maxScope is the most bytes of a scope's segment.
	maxScope = 200
)

// PrefixOf returns where a mount's objects are:
//
//	[namespace/]mounts/<scope>/<mount id>/
//
// Nothing of the row but its ID and Scope counts. In <scope> the letters a to
// z, digits, "-" and "_" stand for themselves and every other byte is "%" and
// two hex digits; a scope too long for that is "+" and its SHA-256. This is
// frozen: with another encoding all files seem to be lost. It holds no
// character that means anything in a policy of S3.
//
// The error is a [*access.FieldError] that names "Row.Scope", "Row.ID" or, as
// [PrefixRoot] does, "Namespace".
func PrefixOf(namespace string, row Row) (Prefix, error) {
	if row.Scope == "" {
		return "", &access.FieldError{Field: "Row.Scope", Rule: "must not be empty"}
	}
	if canonical, ok := id.Canonical(string(row.ID)); !ok || canonical != string(row.ID) {
		return "", &access.FieldError{Field: "Row.ID", Rule: "must be a canonical UUID"}
	}
	root, err := PrefixRoot(namespace)
	if err != nil {
		return "", err
	}
	return root + Prefix(scopeSegment(row.Scope)+"/"+string(row.ID)+"/"), nil
}

// PrefixRoot is what the prefixes of all mounts begin with: "[namespace/]mounts/".
// A namespace keeps installations apart that share a bucket, and may be empty.
// It is one or more names, with slashes between, of letters, digits, ".", "-"
// and "_", and at most 256 bytes; any other is a [*access.FieldError].
func PrefixRoot(namespace string) (Prefix, error) {
	if namespace == "" {
		return "mounts/", nil
	}
	refused := func(rule string) (Prefix, error) {
		return "", &access.FieldError{Field: "Namespace", Rule: rule}
	}
	if len(namespace) > maxNamespace {
		return refused(fmt.Sprintf("must have at most %d bytes", maxNamespace))
	}
	for name := range strings.SplitSeq(namespace, "/") {
		if name == "" || name == "." || name == ".." {
			return refused("must be names with slashes between, none of them empty, . or ..")
		}
		for _, c := range []byte(name) {
			if !letter(c) && !('A' <= c && c <= 'Z') && c != '.' {
				return refused(`must be of letters, digits, ".", "-" and "_"`)
			}
		}
	}
	return Prefix(namespace + "/mounts/"), nil
}

// Check refuses what [PrefixOf] never makes: who grants what is below a prefix
// asks it first. In a policy a star, a question mark or a dollar sign would open
// more than one folder, and so would a prefix that ends within a name. The error
// is a [*access.FieldError] that names "Prefix".
func (p Prefix) Check() error {
	refused := func(rule string) error { return &access.FieldError{Field: "Prefix", Rule: rule} }
	whole, slash := strings.CutSuffix(string(p), "/")
	switch {
	case p == "":
		return refused("must not be empty")
	case !slash:
		return refused("must end with a slash")
	}
	names := strings.Split(whole, "/")
	last := len(names) - 1
	if last < 2 || names[last-2] != "mounts" {
		return refused("must be [namespace/]mounts/<scope>/<mount id>/")
	}
	if canonical, ok := id.Canonical(names[last]); !ok || canonical != names[last] {
		return refused("must end with the canonical UUID of a mount")
	}
	if !isScopeSegment(names[last-1]) {
		return refused("must have the encoded scope of a mount")
	}
	namespace := strings.Join(names[:last-2], "/")
	if _, err := PrefixRoot(namespace); err != nil || namespace == "" && last > 2 {
		return refused("must begin with the namespace of an installation")
	}
	return nil
}

// isScopeSegment reports whether scopeSegment makes it of some scope.
func isScopeSegment(s string) bool {
	if sum, hashed := strings.CutPrefix(s, "+"); hashed {
		raw, err := hex.DecodeString(sum)
		return err == nil && len(raw) == sha256.Size && sum == hex.EncodeToString(raw)
	}
	var scope []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			scope = append(scope, s[i])
			continue
		}
		raw, err := hex.DecodeString(s[i+1 : min(i+3, len(s))])
		if err != nil || len(raw) != 1 {
			return false
		}
		scope, i = append(scope, raw[0]), i+2
	}
	return s != "" && scopeSegment(string(scope)) == s
}

func scopeSegment(scope string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, c := range []byte(scope) {
		if letter(c) {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	if b.Len() > maxScope {
		sum := sha256.Sum256([]byte(scope))
		return "+" + hex.EncodeToString(sum[:])
	}
	return b.String()
}

// letter reports whether a byte of a scope stands for itself.
func letter(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}
