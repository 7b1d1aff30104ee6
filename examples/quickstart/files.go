package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/bunkroom/bunkroom/sandbox"
)

// copyTree copies the files and links below repo into the working directory,
// without the data directory if that lies below. It returns a file to sign:
// the first of README.md and whatever else there is.
func (s *story) copyTree(ctx context.Context, sb sandbox.Sandbox, repo string) (first string, err error) {
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	err = filepath.WalkDir(repo, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(repo, path)
		if err != nil {
			return err
		}
		switch {
		case path == s.Data:
			return filepath.SkipDir
		case !utf8.ValidString(d.Name()):
			s.say("Left out %q: paths in a sandbox are UTF-8.", rel)
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case s.Files == 50_000:
			return fmt.Errorf("%s has more than %d files: too many for a demonstration", repo, s.Files)
		case d.Type()&fs.ModeSymlink != 0 && links != nil:
			text, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return links.Symlink(ctx, text, rel)
		case d.IsDir():
			return sb.FS().Mkdir(ctx, rel)
		case !d.Type().IsRegular():
			return nil
		}
		if rel == "README.md" || first == "" && !strings.HasPrefix(rel, ".git/") {
			first = rel
		}
		s.Files++
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return sandbox.WriteFile(ctx, sb.FS(), rel, data, &sandbox.CreateOptions{Mode: info.Mode().Perm()})
	})
	if err == nil && first == "" {
		err = fmt.Errorf("%s has no files", repo)
	}
	return first, err
}

// directoryAt is the absolute path, without links, of a directory.
func directoryAt(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return "", errors.Join(err, fmt.Errorf("%s is not a directory", path))
	}
	return filepath.Abs(path)
}

// keySecret reads the secret that keys are derived from, or makes one: whole, or not at all.
func keySecret(path string) ([]byte, error) {
	secret, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	secret = make([]byte, sandbox.MinSecret)
	rand.Read(secret)
	if err := os.WriteFile(path+".new", secret, 0o600); err != nil {
		return nil, err
	}
	return secret, os.Rename(path+".new", path)
}
