package files

import (
	"net/http"
	"strings"
)

// Download is the header of an answer that sends a file of that name: its type
// guessed from the name, a disposition with a name that every client can read
// and the true one, and what keeps a browser from running it. With inline, a
// type that is known to be harmless may be shown in the page instead.
func Download(name string, inline bool) http.Header {
	kind := TypeOf(name)
	how := "attachment"
	if inline && harmless(kind) {
		how = "inline"
	}
	h := http.Header{}
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", Disposition(how, name))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	return h
}

// Disposition is a Content-Disposition (RFC 6266) that names a file: with a
// fallback of printable ASCII without quotes and backslashes, and in UTF-8 (RFC 5987).
func Disposition(how, name string) string {
	name = base(strings.TrimRight(name, "/"))
	var plain, encoded strings.Builder
	for _, r := range name {
		switch {
		case r == '"' || r == '\\' || r < 0x20 || r == 0x7f:
		case r < 0x7f && r != '%': // some clients decode a percent sign here
			plain.WriteRune(r)
		default:
			plain.WriteByte('_')
		}
	}
	const digits = "0123456789ABCDEF"
	for _, c := range []byte(strings.ToValidUTF8(name, "\ufffd")) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$&+-.^_`|~", c) >= 0 {
			encoded.WriteByte(c)
		} else {
			encoded.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	fallback := plain.String()
	if strings.Trim(fallback, "._ ") == "" {
		fallback = "download"
	}
	out := how + `; filename="` + fallback + `"`
	if encoded.Len() > 0 && encoded.String() != fallback {
		out += "; filename*=UTF-8''" + encoded.String()
	}
	return out
}

// harmless reports whether a page may show a type: it has no way to run anything.
func harmless(kind string) bool {
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "text/plain; charset=utf-8",
		"audio/mpeg", "audio/wav", "audio/ogg", "video/mp4", "video/webm", "application/pdf":
		return true
	}
	return false
}

// TypeOf is the content type that a name stands for, the same on every
// machine; application/octet-stream where it says nothing.
func TypeOf(name string) string {
	name = base(name)
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return octets
	}
	switch strings.ToLower(name[i+1:]) {
	case "txt", "md", "log", "csv", "tsv", "go", "py", "rs", "ts", "tsx", "jsx", "c", "h", "cc", "cpp", "java", "rb", "sh",
		"yaml", "yml", "toml", "ini", "cfg", "conf", "sql", "diff", "patch", "gitignore", "mod", "sum":
		return "text/plain; charset=utf-8"
	case "html", "htm":
		return "text/html; charset=utf-8"
	case "css":
		return "text/css; charset=utf-8"
	case "js", "mjs":
		return "text/javascript; charset=utf-8"
	case "json":
		return "application/json"
	case "xml":
		return "application/xml"
	case "svg":
		return "image/svg+xml"
	case "png":
		return "image/png"
	case "jpg", "jpeg":
		return "image/jpeg"
	case "gif":
		return "image/gif"
	case "webp":
		return "image/webp"
	case "avif":
		return "image/avif"
	case "mp3":
		return "audio/mpeg"
	case "wav":
		return "audio/wav"
	case "ogg":
		return "audio/ogg"
	case "mp4":
		return "video/mp4"
	case "webm":
		return "video/webm"
	case "pdf":
		return "application/pdf"
	case "zip":
		return "application/zip"
	case "gz", "tgz":
		return "application/gzip"
	}
	return octets
}

const octets = "application/octet-stream"
