package sqlstore

import (
	"embed"
	"io"
	"io/fs"
	"strings"
)

//go:embed migrations/*/*.sql
var embedded embed.FS

// Migrations returns the migrations of a dialect, in which "bunkroom_" stands for the prefix.
func Migrations(dialect string) fs.FS {
	sub, err := fs.Sub(embedded, "migrations/"+dialect)
	if err != nil { // it is no name of a folder
		panic(err)
	}
	return sub
}

// PrefixedMigrations returns them with a prefix of its own; empty = "bunkroom_".
func PrefixedMigrations(dialect, prefix string) (fs.FS, error) {
	prefix, err := checkPrefix(prefix)
	if err != nil {
		return nil, err
	}
	return prefixedFS{Migrations(dialect), prefix}, nil
}

// prefixedFS is a flat folder of text files with prefix in place of "bunkroom_".
type prefixedFS struct {
	files  fs.FS
	prefix string
}

func (p prefixedFS) Open(name string) (fs.File, error) {
	f, err := p.files.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if info.IsDir() {
		return prefixedDir{f, p}, nil
	}
	defer f.Close()
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	text := prefixed(string(raw), p.prefix)
	return prefixedFile{strings.NewReader(text), sized{info, int64(len(text))}}, nil
}

// sized is a file's description with the length that it has with the prefix.
type sized struct {
	fs.FileInfo
	size int64
}

func (s sized) Size() int64 { return s.size }

type prefixedFile struct {
	*strings.Reader
	info sized
}

func (f prefixedFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f prefixedFile) Close() error               { return nil }

type prefixedDir struct {
	fs.File
	of prefixedFS
}

func (d prefixedDir) ReadDir(n int) ([]fs.DirEntry, error) {
	list, ok := d.File.(fs.ReadDirFile)
	if !ok {
		return nil, fs.ErrInvalid
	}
	entries, err := list.ReadDir(n)
	for i, e := range entries {
		info, statErr := fs.Stat(d.of, e.Name())
		if statErr != nil {
			return nil, statErr
		}
		entries[i] = fs.FileInfoToDirEntry(info)
	}
	return entries, err
}
