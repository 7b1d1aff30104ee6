package memory_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/sandboxtest"
)

// commands are the suite's commands by the names of handlePrograms.
var commands = sandboxtest.Commands{
	Echo:      func(text string) []string { return []string{"echo", text} },
	EchoErr:   func(text string) []string { return []string{"echo-err", text} },
	Cat:       func() []string { return []string{"cat"} },
	Exit:      func(code int) []string { return []string{"exit", strconv.Itoa(code)} },
	KillSelf:  func() []string { return []string{"kill-self"} },
	Env:       func(name string) []string { return []string{"env", name} },
	Dir:       func() []string { return []string{"dir"} },
	WriteFile: func(path, text string) []string { return []string{"write", path, text} },
	ReadFile:  func(path string) []string { return []string{"cat", path} },
	Block:     func(text string) []string { return []string{"block", text} },
	Stubborn:  func(text string) []string { return []string{"stubborn", text} },
	Flood:     func(n int64) []string { return []string{"flood", strconv.FormatInt(n, 10)} },
	Reach:     func(host string) []string { return []string{"reach", host} },
	Reaching:  func(host, path string) []string { return []string{"reaching", host, path} },
}

// handlePrograms registers the programs of commands. What is stubborn ends with t.
func handlePrograms(t *testing.T, boxes *memory.Sandboxes) {
	boxes.Handle("cat", memory.Coreutils()["cat"])
	boxes.Handle("echo", func(_ context.Context, c *memory.Command) int {
		_, err := io.WriteString(c.Stdout, c.Argv[1])
		return code(err)
	})
	boxes.Handle("echo-err", func(_ context.Context, c *memory.Command) int {
		_, err := io.WriteString(c.Stderr, c.Argv[1])
		return code(err)
	})
	boxes.Handle("exit", func(_ context.Context, c *memory.Command) int {
		n, _ := strconv.Atoi(c.Argv[1])
		return n
	})
	boxes.Handle("kill-self", func(_ context.Context, c *memory.Command) int { return c.Killed(sandbox.SignalKill) })
	boxes.Handle("env", func(_ context.Context, c *memory.Command) int {
		_, err := io.WriteString(c.Stdout, c.Getenv(c.Argv[1]))
		return code(err)
	})
	boxes.Handle("dir", func(_ context.Context, c *memory.Command) int {
		_, err := io.WriteString(c.Stdout, c.Dir)
		return code(err)
	})
	boxes.Handle("write", func(ctx context.Context, c *memory.Command) int {
		return code(sandbox.WriteFile(ctx, c.FS, c.Path(c.Argv[1]), []byte(c.Argv[2]), nil))
	})
	boxes.Handle("block", func(ctx context.Context, c *memory.Command) int {
		fmt.Fprint(c.Stdout, c.Argv[1])
		<-ctx.Done()
		return 1
	})
	boxes.Handle("stubborn", func(_ context.Context, c *memory.Command) int {
		fmt.Fprint(c.Stdout, c.Argv[1])
		<-t.Context().Done()
		return 0
	})
	boxes.Handle("reach", func(_ context.Context, c *memory.Command) int { return code(c.Reach(c.Argv[1])) })
	boxes.Handle("reaching", func(ctx context.Context, c *memory.Command) int {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			if c.Reach(c.Argv[1]) == nil {
				sandbox.WriteFile(ctx, c.FS, c.Path(c.Argv[2]), []byte("x"), nil)
			}
		}
		return 1
	})
	boxes.Handle("flood", func(_ context.Context, c *memory.Command) int {
		left, _ := strconv.ParseInt(c.Argv[1], 10, 64)
		letters := bytes.Repeat([]byte("abcdefghijklmnopqrstuvwxyz"), 1000)
		for left > 0 {
			n, err := c.Stdout.Write(letters[:min(left, int64(len(letters)))])
			if err != nil {
				return 1
			}
			left -= int64(n)
		}
		return 0
	})
}

// code is the exit code of a program that ends with err.
func code(err error) int {
	if err != nil {
		return 1
	}
	return 0
}
