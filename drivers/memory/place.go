package memory

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// place is where something stands in a list.
type place struct {
	active time.Time
	id     string
}

// newest orders places as lists do: latest first, and by id, descending, where that is equal.
func newest(a, b place) int {
	return cmp.Or(b.active.Compare(a.active), cmp.Compare(b.id, a.id))
}

// token is the place as a page token. The leading 1 is the version of its form.
func (p place) token() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "1 %d %s", p.active.UnixMicro(), p.id))
}

func parsePlace(token string) (place, bool) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return place{}, false
	}
	parts := strings.SplitN(string(text), " ", 3)
	if len(parts) != 3 || parts[0] != "1" || parts[2] == "" {
		return place{}, false
	}
	micros, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return place{}, false
	}
	return place{time.UnixMicro(micros).UTC(), parts[2]}, true
}
