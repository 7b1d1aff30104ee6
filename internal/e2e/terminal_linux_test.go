package e2e

import (
	"context"
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/sandbox"
)

// echoes is how many letters are typed and come back in one turn.
const echoes = 200

// Letters that are typed one by one on a local terminal, each once the one
// before has come back from the program, against a terminal of creack/pty.
func BenchmarkTerminalEcho(b *testing.B) {
	const raw = "stty raw -echo; printf r; exec cat"
	p, err := local.New(local.Config{Root: b.TempDir(), Unconfined: true})
	fine(b, err)
	defer p.Close()
	m, err := p.Create(b.Context(), sandbox.CreateRequest{Name: "echo-g1"})
	fine(b, err)
	sb, err := p.Attach(b.Context(), m.Ref)
	fine(b, err)
	defer sb.Close()
	s, _ := sandbox.As[sandbox.TerminalStarter](sb)
	ours, err := s.StartTerminal(b.Context(), sandbox.Cmd{Argv: []string{"sh", "-c", raw}}, sandbox.TerminalSize{Columns: 80, Rows: 24})
	fine(b, err)
	defer ours.Close()
	cmd := exec.Command("sh", "-c", raw)
	peer, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 80, Rows: 24})
	fine(b, err)
	defer func() {
		cmd.Process.Kill()
		peer.Close()
		cmd.Wait()
	}()

	letter, buf := []byte("x"), make([]byte, 1)
	_, err = io.ReadFull(peer, buf)
	fine(b, err)
	at := int64(0)
	echo := func(n int) { // the letter that is read first has been typed before
		for c, err := range ours.Output(context.Background(), at) {
			fine(b, err)
			if at = c.Off + int64(len(c.Data)); n == 0 {
				return
			}
			n--
			_, err = ours.Write(letter)
			fine(b, err)
		}
		b.Fatal("the terminal has ended")
	}
	echo(0)
	var a, c []time.Duration
	for b.Loop() {
		began := time.Now()
		_, err := ours.Write(letter)
		fine(b, err)
		echo(echoes - 1)
		a = append(a, time.Since(began))
		began = time.Now()
		for range echoes {
			_, err := peer.Write(letter)
			fine(b, err)
			_, err = io.ReadFull(peer, buf)
			fine(b, err)
		}
		c = append(c, time.Since(began))
	}
	slices.Sort(a)
	slices.Sort(c)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(a[len(a)/2].Nanoseconds())/echoes, "ours-ns")
	b.ReportMetric(float64(c[len(c)/2].Nanoseconds())/echoes, "peer-ns")
	b.ReportMetric(float64(a[len(a)/2])/float64(c[len(c)/2]), "ratio")
}

func fine(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}
