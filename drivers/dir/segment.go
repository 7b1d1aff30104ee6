package dir

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxSegment is well below the 255 bytes that a file name may have.
const maxSegment = 200

// segment encodes a scope as one element of a path, different scopes
// differently. It is frozen: with another encoding all folders seem to be lost.
//
// Letters a to z, digits, "-" and "_" stand for themselves; every other byte is
// "%" and two hex digits, capitals too, since some file systems can't tell them
// from small letters. What would be too long is "+" and the hash instead, which
// no encoded scope begins with.
func segment(scope string) string {
	const hexDigits = "0123456789abcdef"
	var b strings.Builder
	for _, c := range []byte(scope) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	if b.Len() > maxSegment {
		sum := sha256.Sum256([]byte(scope))
		return "+" + hex.EncodeToString(sum[:])
	}
	return b.String()
}
