package sandboxtest

import (
	"bytes"
	"io"
	"runtime"
)

// heap is how many bytes this process has on its heap.
func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

var streamChecks = []check{
	{"Bounded", "a large file is written, and read, in less than 16 MiB of memory", func(e *env) {
		const size, most = 64 << 20, 16 << 20
		b := e.box()
		block := bytes.Repeat([]byte("0123456789abcdef"), 16<<10)
		runtime.GC()
		before := heap()
		within := func(at int) {
			e.Helper()
			if grown := heap() - before; at%(4<<20) == 0 && grown > most {
				e.fatalf("after %d bytes the heap is %d bytes larger", at, grown)
			}
		}
		w, err := b.FS().Create(e.deadline(), "large", nil)
		e.ok(err, "create")
		for n := 0; n < size; n += len(block) {
			if _, err := w.Write(block); err != nil {
				e.fatalf("write at %d: %v", n, err)
			}
			within(n)
		}
		e.ok(w.Close(), "close")
		within(0)
		r, err := b.FS().Open(e.deadline(), "large", nil)
		e.ok(err, "open")
		defer r.Close()
		got := make([]byte, len(block))
		for n := 0; n < size; n += len(got) {
			if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, block) {
				e.fatalf("at %d it differs: %v", n, err)
			}
			within(n)
		}
		if n, err := r.Read(got); n != 0 || err != io.EOF {
			e.fatalf("behind the end: %d bytes, %v", n, err)
		}
	}},
}
