package memory

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Coreutils returns a few programs that many commands are made of, without
// their options: cat, echo, false, pwd, sleep (one duration, as in Go) and
// true. There is no shell. The map is the caller's:
//
//	for name, h := range memory.Coreutils() {
//		boxes.Handle(name, h)
//	}
func Coreutils() map[string]Handler {
	return map[string]Handler{
		"true":  func(context.Context, *Command) int { return 0 },
		"false": func(context.Context, *Command) int { return 1 },
		"echo": func(_ context.Context, c *Command) int {
			fmt.Fprintln(c.Stdout, strings.Join(c.Argv[1:], " "))
			return 0
		},
		"pwd": func(_ context.Context, c *Command) int {
			fmt.Fprintln(c.Stdout, c.Dir)
			return 0
		},
		"cat":   cat,
		"sleep": sleep,
	}
}

func cat(ctx context.Context, c *Command) int {
	if len(c.Argv) == 1 {
		if _, err := io.Copy(c.Stdout, c.Stdin); err != nil {
			return complain(c, err)
		}
	}
	code := 0
	for _, name := range c.Argv[1:] {
		file, err := c.FS.Open(ctx, c.Path(name), nil)
		if err == nil {
			_, err = io.Copy(c.Stdout, file)
			file.Close()
		}
		if err != nil {
			code = complain(c, err)
		}
	}
	return code
}

func sleep(ctx context.Context, c *Command) int {
	d, err := time.ParseDuration(strings.Join(c.Argv[1:], " "))
	if err != nil {
		return complain(c, err)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return 0
	case <-ctx.Done():
		return complain(c, context.Cause(ctx))
	}
}

func complain(c *Command, err error) int {
	fmt.Fprintf(c.Stderr, "%s: %v\n", c.Argv[0], err)
	return 1
}
