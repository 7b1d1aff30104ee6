package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"

	"github.com/bunkroom/bunkroom/sandbox"
)

// linkName is the link in the working directory that leads to the folders of
// all agents: its text never depends on who works.
const linkName = "agent-files"

// furnish adds to a folder that is there what makes it easy to find. None of
// it is needed, so a failure is logged and nothing more. It comes after the
// bind: what is written to a path before something is bound there is hidden by it.
func (c *carriage) furnish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, furnishTimeout)
	defer cancel()
	c.relink(ctx)
	readme := path.Join(c.outcome.Path, readmeName)
	err := sandbox.WriteFile(ctx, c.sb.FS(), readme, []byte(readmeText), &sandbox.CreateOptions{Exclusive: true})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		c.log.WarnContext(ctx, "README of agent's folder", "session", c.request.Session, "mount", c.outcome.Row.ID, "path", readme, "cause", err)
	}
}

// relink keeps the link as it should be.
func (c *carriage) relink(ctx context.Context) {
	log := c.log.With("session", c.request.Session, "mount", c.outcome.Row.ID)
	link := path.Join(c.sb.Workdir(), linkName)
	state, err := keepLink(ctx, c.sb, sandbox.BindRoot(c.sb), link, c.bringHome)
	level := slog.LevelDebug
	if err != nil && !errors.Is(err, sandbox.ErrUnsupported) {
		level = slog.LevelWarn
	}
	log.Log(ctx, level, "link to agents' folders", "path", link, "state", state.String(), "cause", err)
}

// linkState is what became of a link.
type linkState uint8

const (
	linkFailed linkState = iota
	linkKept
	linkMade
)

func (s linkState) String() string {
	switch s {
	case linkKept:
		return "kept"
	case linkMade:
		return "linked"
	}
	return "failed"
}

// keepLink makes link a symbolic link with the text target, and leaves one that
// has it alone, dangling or not. Another link, an empty file (what some stores
// turn a link into) and an empty directory give way. From a directory with
// entries home takes them first, as far as it can; a file with content
// stays. The error is nil but where the state is failed.
func keepLink(ctx context.Context, sb sandbox.Sandbox, target, link string, home func(ctx context.Context, dir string) error) (linkState, error) {
	links, ok := sandbox.As[sandbox.Symlinker](sb)
	if !ok {
		return linkFailed, fmt.Errorf("%w: no symbolic links in this sandbox", sandbox.ErrUnsupported)
	}
	text, err := links.Readlink(ctx, link)
	var inTheWay error
	switch {
	case err == nil && text == target:
		return linkKept, nil
	case err == nil:
		inTheWay = sb.FS().Remove(ctx, link, nil)
	case errors.Is(err, sandbox.ErrNotLink):
		inTheWay = removeHollow(ctx, sb.FS(), link)
		if errors.Is(inTheWay, sandbox.ErrNotEmpty) {
			inTheWay = errors.Join(home(ctx, link), removeHollow(ctx, sb.FS(), link))
		}
	case !errors.Is(err, fs.ErrNotExist):
		return linkFailed, err
	}
	err = links.Symlink(ctx, target, link)
	if err == nil {
		return linkMade, nil
	}
	// The name is taken: by what could not be removed, or by somebody who made
	// the same link just now. Only the link itself tells which.
	if errors.Is(err, fs.ErrExist) {
		if text, again := links.Readlink(ctx, link); again == nil && text == target {
			return linkKept, nil
		}
	}
	if inTheWay != nil {
		err = inTheWay
	}
	return linkFailed, err
}

// removeHollow removes a file or directory that holds nothing.
func removeHollow(ctx context.Context, fsys sandbox.FS, p string) error {
	info, err := fsys.Stat(ctx, p)
	switch {
	case err != nil:
		return err
	case info.Kind == sandbox.KindDir, info.Kind == sandbox.KindFile && info.Size == 0:
		return fsys.Remove(ctx, p, nil)
	}
	return fmt.Errorf("%w: %s has content of its own", fs.ErrExist, p)
}

// removeStub removes an empty directory that a failed mount left at its
// target. It never removes anything recursively, nor what is no directory:
// behind either could be the folder itself.
func (c *carriage) removeStub(ctx context.Context) error {
	root, name := path.Split(c.outcome.Path)
	for info, err := range c.sb.FS().ReadDir(ctx, path.Clean(root)) {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, sandbox.ErrEscapes):
			return nil // nothing of ours is bound any more, so nothing shows
		case err != nil:
			return err
		case info.Name == name && info.IsDir():
			return c.sb.FS().Remove(ctx, c.outcome.Path, &sandbox.RemoveOptions{MissingOK: true})
		}
	}
	return nil
}
