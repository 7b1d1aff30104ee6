package sandboxtest

import (
	"io"
	"math"
	"strings"

	"github.com/bunkroom/bunkroom/sandbox"
)

// part reads the part of a file that opts asks for.
func (b *box) part(path string, opts *sandbox.OpenOptions) string {
	b.e.Helper()
	r, err := b.FS().Open(b.e.deadline(), path, opts)
	b.e.ok(err, "open %q with %+v", path, *opts)
	defer r.Close()
	data, err := io.ReadAll(r)
	b.e.ok(err, "read %q with %+v", path, *opts)
	return string(data)
}

var rangeChecks = []check{
	{"Part", "Open reads Limit bytes from Offset, to the end where there is no Limit, and nothing behind the end", func(e *env) {
		b := e.box()
		large := strings.Repeat("0123456789", 100_000)
		for name, text := range map[string]string{"empty": "", "small": "0123456789", "large": large} {
			b.write(name, text)
			for _, from := range []int64{0, 1, 3, 9, 10, 11, 4096, 65_537, 999_999, 1_000_000, 1 << 40, math.MaxInt64} {
				for _, limit := range []int64{0, 1, 3, 10, 4096, 65_536, math.MaxInt64} {
					want := text[min(from, int64(len(text))):]
					if limit > 0 {
						want = want[:min(limit, int64(len(want)))]
					}
					if got := b.part(name, &sandbox.OpenOptions{Offset: from, Limit: limit}); got != want {
						e.fatalf("%s from %d, at most %d: %s, want %s", name, from, limit, brief(got), brief(want))
					}
				}
			}
		}
		b.mkdir("dir")
		_, err := b.FS().Open(e.deadline(), "dir", &sandbox.OpenOptions{Offset: 1})
		e.pathIs(err, "open", "dir", sandbox.ErrIsDir)
	}},
	{"Negative", "a negative Offset or Limit is ErrInvalid", func(e *env) {
		b := e.box()
		b.write("file", "0123456789")
		for _, opts := range []sandbox.OpenOptions{{Offset: -1}, {Limit: -1}, {Offset: 3, Limit: -3}, {Offset: math.MinInt64}} {
			_, err := b.FS().Open(e.deadline(), "file", &opts)
			e.pathIs(err, "open", "file", sandbox.ErrInvalid)
		}
	}},
}
