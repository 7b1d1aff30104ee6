package sqlstore

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// A token says where a page ended, and says the same when it comes back.
func TestTokenRoundTrip(t *testing.T) {
	for _, want := range []token{
		{time.UnixMicro(1_772_580_723_456_789).UTC(), "0199a3c4-7d2e-7f10-8a51-2b6c9d0e4f77"},
		{time.UnixMicro(-5).UTC(), "with:colon"},
		{time.UnixMicro(0).UTC(), strings.Repeat("x", access.MaxID)},
	} {
		s := want.String()
		if got, ok := parseToken(s); !ok || got != want {
			t.Errorf("%v: got %v, %t", want, got, ok)
		}
		if strings.ContainsAny(s, "+/=") {
			t.Errorf("%q can't stand in a URL as it is", s)
		}
	}
}

// What is no token, or one of another version, is refused.
func TestTokenRefuses(t *testing.T) {
	encoded := base64.RawURLEncoding.EncodeToString
	good := token{time.UnixMicro(1).UTC(), "id"}.String()
	for _, bad := range []string{
		"x", "!", good + "=", good + "\n", encoded(nil), encoded([]byte("1")), encoded([]byte("1:2")), encoded([]byte("1:2:")),
		encoded([]byte("2:2:id")), encoded([]byte("1:now:id")), encoded([]byte("1:9999999999999999999:id")), encoded([]byte(":1:id")), encoded([]byte("1:+1:id")),
		encoded([]byte("1:1:i\x00d")), encoded([]byte("1:1:i\xffd")), encoded([]byte("1:1:" + strings.Repeat("x", access.MaxID+1))),
	} {
		if got, ok := parseToken(bad); ok {
			t.Errorf("%q: got %v", bad, got)
		}
	}
}
