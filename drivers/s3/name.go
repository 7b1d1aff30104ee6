package s3

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// The lengths that a name of a session may have, and what it is where a grant
// is for no run. No run's name has an equals sign unless its hash follows.
const (
	minName        = 2
	maxRoleName    = 64
	maxFederation  = 32
	nameOfNobody   = "run=none"
	hashCharacters = 16
)

// sessionName is what the storage calls the session of a run, in its log of
// who did what. A run that can be one is its own name. Every other is cut,
// with "-" for what is not allowed, and ends with "=" and a hash of the run, so
// that no two runs have one name.
func sessionName(run string, most int) string {
	if run == "" {
		return nameOfNobody
	}
	if len(run) >= minName && len(run) <= most && !strings.ContainsFunc(run, notInName) {
		return run
	}
	sum := sha256.Sum256([]byte(run))
	keep := most - 1 - hashCharacters
	var b strings.Builder
	for _, c := range run {
		if b.Len() == keep {
			break
		}
		if notInName(c) {
			c = '-'
		}
		b.WriteRune(c)
	}
	return b.String() + "=" + hex.EncodeToString(sum[:hashCharacters/2])
}

// notInName reports what is not allowed in a name as it is: all but
// letters, digits and some marks, and the equals sign, which is ours.
func notInName(c rune) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return false
	}
	return !strings.ContainsRune("_+,.@-", c)
}
