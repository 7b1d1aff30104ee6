package sandbox_test

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
)

// However large a file is, to carry it over takes the memory of a piece of it, on both sides together.
func TestTarTakesLittleMemory(t *testing.T) {
	sb := localBox(t)
	if err := sb.FS().Mkdir(t.Context(), "from"); err != nil {
		t.Fatal(err)
	}
	const size = 128 << 20
	large := filepath.Join(sb.Workdir(), "from/large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, size); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, w := io.Pipe()
	go func() {
		_, err := sandbox.ExportTar(t.Context(), sb, "from", w, nil)
		w.CloseWithError(err)
	}()
	report, err := sandbox.ImportTar(t.Context(), sb, "to", r, nil)
	runtime.ReadMemStats(&after)
	if err != nil || report.Bytes != size {
		t.Errorf("%+v, %v", report, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("it took %d KiB of memory", took>>10)
	}
}
