package files

import (
	"mime"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// mounts trap 31.
func TestDisposition(t *testing.T) {
	for _, c := range []struct{ rule, name, want string }{
		{"a plain name is itself", "report (1).md", `attachment; filename="report (1).md"; filename*=UTF-8''report%20%281%29.md`},
		{"and needs no second form", "report.md", `attachment; filename="report.md"`},
		{"quotes and backslashes are left out of the fallback", `a"b\c.txt`, `attachment; filename="abc.txt"; filename*=UTF-8''a%22b%5Cc.txt`},
		{"other letters are in the second form", "é.txt", `attachment; filename="_.txt"; filename*=UTF-8''%C3%A9.txt`},
		{"only the last segment counts", "a/b/c.txt", `attachment; filename="c.txt"`},
		{"a line break can't end the header", "a\r\nSet-Cookie: x", `attachment; filename="aSet-Cookie: x"; filename*=UTF-8''a%0D%0ASet-Cookie%3A%20x`},
		{"a name of which nothing is left has one", "履", `attachment; filename="download"; filename*=UTF-8''%E5%B1%A5`},
		{"no name is none", "", `attachment; filename="download"`},
		{"a percent sign is not taken for an escape", "50%25.txt", `attachment; filename="50_25.txt"; filename*=UTF-8''50%2525.txt`},
	} {
		if got := Disposition("attachment", c.name); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.rule, got, c.want)
		}
	}
}

func TestDispositionsCanBeReadByOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringN(1, 40, -1).Draw(t, "name")
		if strings.Contains(name, "/") || !strings.ContainsFunc(name, func(r rune) bool { return r > ' ' }) {
			return
		}
		got := Disposition("attachment", name)
		for i := range len(got) {
			if got[i] < ' ' || got[i] > '~' {
				t.Fatalf("%q holds the byte %x", got, got[i])
			}
		}
		how, params, err := mime.ParseMediaType(got)
		if err != nil || how != "attachment" || params["filename"] != name {
			t.Fatalf("%q of %q is read as %v, %v", got, name, params, err)
		}
	})
}

func TestDownloadsAreNotRun(t *testing.T) {
	for _, c := range []struct {
		name      string
		inline    bool
		kind, how string
	}{
		{"a.png", true, "image/png", "inline"},
		{"a.PNG", false, "image/png", "attachment"},
		{"a.html", true, "text/html; charset=utf-8", "attachment"},
		{"a.svg", true, "image/svg+xml", "attachment"},
		{"a.js", true, "text/javascript; charset=utf-8", "attachment"},
		{"a.xml", true, "application/xml", "attachment"},
		{"a.b/Makefile", true, "application/octet-stream", "attachment"},
		{".gitignore", true, "text/plain; charset=utf-8", "inline"},
	} {
		h := Download(c.name, c.inline)
		if h.Get("Content-Type") != c.kind || !strings.HasPrefix(h.Get("Content-Disposition"), c.how+";") ||
			h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s: %v", c.name, h)
		}
	}
	for _, ext := range []string{"css", "json", "jpg", "gif", "webp", "avif", "mp3", "wav", "ogg", "mp4", "webm", "pdf", "zip", "gz"} {
		if kind := TypeOf("x." + ext); kind == octets {
			t.Errorf("%s has no type", ext)
		} else if _, _, err := mime.ParseMediaType(kind); err != nil {
			t.Errorf("%s: %v", ext, err)
		}
	}
}
