package main

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
)

// indented shows the first lines of what is written to it, indented.
type indented struct {
	w     io.Writer
	lines int
	mid   bool // a line has begun
}

func (i *indented) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		switch {
		case i.lines == 12 && !i.mid:
			io.WriteString(i.w, "    …\n")
		case i.lines < 12 && !i.mid:
			fmt.Fprintf(i.w, "    %s", line)
		case i.lines < 12:
			i.w.Write(line)
		}
		if i.mid = !bytes.HasSuffix(line, []byte("\n")); !i.mid {
			i.lines++
		}
	}
	return len(p), nil
}

func (s *story) table() {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	confined := "nothing was run"
	if s.Confined {
		confined = "yes, by bubblewrap"
	} else if s.Works > 0 {
		confined = "NO: bubblewrap can't be used here, commands had all of your rights"
	}
	fmt.Fprintf(w, "\nconfined\t%s\n", confined)
	fmt.Fprintf(w, "files copied into the sandbox\t%d\n", s.Files)
	fmt.Fprintf(w, "machines made, proven gone\t%d, %d\n", s.Made, s.Destroyed)
	fmt.Fprintf(w, "time worked\t%.1f s in %d works, for %v\n", s.Seconds, s.Works, s.Bill.Before-s.Bill.After)
	fmt.Fprintf(w, "notes kept in\t%s\n", s.Notes)
	for _, p := range s.Promises {
		kept := "kept"
		if !p.Kept {
			kept = "BROKEN"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.What, kept, p.Detail)
	}
	w.Flush()
	s.Bill.print(s.out)
}
