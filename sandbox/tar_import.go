package sandbox

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// ImportTar makes what an archive in the format of tar holds, in the
// directory path, which is made where it is missing. The archive need not be
// trusted. It must not be compressed, and is read no further than to its end. A nil opts is all defaults.
//
// Nothing is made outside the directory. What has a name that is absolute, has ".." in it or is no text is
// left out. Nothing is made through a link, whether that was in the archive or there before: where a directory
// belongs and something else stands, the entry is left out, unless it is the directory's own, which takes its place.
// That holds against the archive. Against a process in the sandbox that puts links there meanwhile it
// is the [FS] that confines, to the sandbox.
//
// Of several entries with one name the later wins, and what was there before gives way likewise: a file is replaced all at
// once, once the new one is whole; never a directory by something else. Missing directories are made.
// A symbolic link gets the text it has, wherever that leads. A hard link becomes a copy of the file it names, which
// must be in the directory by then. Devices, pipes and the like are left out. The report tells what was.
//
// Files have the permission bits of the archive, never others such as setuid. Where the sandbox is an [AttrSetter]
// directories have them too, once all is there, and both have their times; the directory path keeps its own.
//
// After an error what was made stays, and the report tells how much that is; the file at which it
// happened is as it was before. ErrArchive: what was read is no archive, or not all of one; the text says
// how far it came. [*TarLimitError]: it has more than opts allow, be it that it only says so. Else the error is
// that of r, of the sandbox, or ctx's cause where that has ended: it is looked at whenever r has returned.
func ImportTar(ctx context.Context, sb Sandbox, path string, r io.Reader, opts *TarOptions) (TarReport, error) {
	t, err := newTarRun(ctx, sb, path, opts)
	if err != nil {
		return TarReport{}, fmt.Errorf("sandbox: import into %q: %w", path, err)
	}
	in := &tarInput{tarRun: t, r: r}
	m := &tarImport{tarRun: t, in: tar.NewReader(in), dirs: map[string]tarAttrs{}}
	if err = t.fsys.Mkdir(ctx, path); err == nil {
		err = m.entries(in)
	}
	if err == nil {
		err = m.finish()
	}
	if err != nil {
		err = fmt.Errorf("sandbox: import into %q: %w", path, err)
	}
	return t.report, err
}

// tarInput is the archive, with what is to be known of how it ended.
type tarInput struct {
	*tarRun
	r    io.Reader
	n    int64 // how far it was read
	err  error // that is not the archive's
	over bool  // read to the end of r
}

func (i *tarInput) Read(p []byte) (int, error) {
	if i.err = i.ended(); i.err != nil {
		return 0, i.err
	}
	n, err := i.r.Read(p)
	i.n += int64(n)
	switch {
	case err == io.EOF && n > 0: // asked again, it says so again
		err = nil
	case err == io.EOF:
		i.over = true
	case err != nil:
		i.err = err
	}
	return n, err
}

type tarImport struct {
	*tarRun
	in   *tar.Reader
	dirs map[string]tarAttrs // what directories are given at the end
	sure string              // a directory that was found to be one, and all above it
}

// entries reads the archive from end to end.
func (m *tarImport) entries(in *tarInput) error {
	name := ""
	broken := func(err error) error {
		if in.err != nil {
			return in.err
		}
		return fmt.Errorf("%w: at byte %d, after %d entries, the last of them %q: %w", ErrArchive, in.n, m.report.Entries, short(name), err)
	}
	for {
		h, err := m.in.Next()
		switch {
		case err == io.EOF && !in.over:
			return nil
		case err == io.EOF: // without the mark that every archive ends with
			return broken(io.ErrUnexpectedEOF)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath): // of names we think ourselves
			return broken(err)
		}
		name = h.Name
		if err := m.count(name); err != nil {
			return err
		}
		m.progress(name)
		read, err := m.entry(h)
		switch {
		case read && err != nil:
			return broken(err)
		case err != nil:
			return err
		}
	}
}

// maxTarDepth is how many elements a name may have.
const maxTarDepth = 255

// tarName is the clean name of an entry, relative to the directory, where that is allowed.
func tarName(name string) (clean string, ok bool) {
	if name == "" || len(name) > maxTarName || path.IsAbs(name) || strings.IndexByte(name, 0) >= 0 || !utf8.ValidString(name) {
		return "", false
	}
	all := strings.Split(strings.TrimSuffix(name, "/"), "/") // with which those of directories end
	bad := slices.ContainsFunc(all, func(e string) bool { return e == ".." || len(e) > 255 })
	return path.Clean(name), !bad && len(all) <= maxTarDepth
}

// entry makes one entry. read tells that the error is of reading the archive.
func (m *tarImport) entry(h *tar.Header) (read bool, err error) {
	if h.Typeflag == tar.TypeXGlobalHeader { // about the whole archive: nothing that matters here
		return false, nil
	}
	name, ok := tarName(h.Name)
	isDir := h.Typeflag == tar.TypeDir
	switch {
	case !ok, name == "." && !isDir:
		m.skip(h.Name, TarName)
		return false, nil
	case name == ".":
		return false, nil
	}
	if !isDir && h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeCont && h.Typeflag != tar.TypeGNUSparse &&
		h.Typeflag != tar.TypeLink && h.Typeflag != tar.TypeSymlink {
		m.skip(name, TarKind)
		return false, nil
	}
	attrs := tarAttrs{mode: fs.FileMode(h.Mode) & fs.ModePerm, modTime: h.ModTime}
	switch h.Typeflag {
	case tar.TypeDir:
		return false, m.directory(name, attrs)
	case tar.TypeSymlink:
		return false, m.link(name, h.Linkname)
	case tar.TypeLink:
		return false, m.hardLink(name, h.Linkname, attrs)
	}
	if err := m.room(name, h.Size); err != nil {
		return false, err
	}
	return m.file(name, m.in, attrs)
}

// lstat is what is at a name; its kind is KindUnknown where nothing is.
func (m *tarImport) lstat(name string) (FileInfo, error) {
	info, err := m.fsys.Lstat(m.ctx, m.at(name))
	if errors.Is(err, fs.ErrNotExist) {
		return FileInfo{}, nil
	}
	return info, err
}

// way makes the directories above a name that are missing, and says what is
// at the name. ok is false where it can't be made, as is noted then.
func (m *tarImport) way(name string, isDir bool) (old FileInfo, ok bool, err error) {
	if above := path.Dir(name); above != "." {
		if ok, err := m.leads(above, name); !ok {
			return old, false, err
		}
	}
	old, err = m.lstat(name)
	if err == nil && old.IsDir() && !isDir {
		m.skip(name, TarInTheWay)
		return old, false, nil
	}
	return old, err == nil, err
}

// leads makes sure that above and all that is above it are directories, for the sake of name.
func (m *tarImport) leads(above, name string) (ok bool, err error) {
	if above == m.sure || strings.HasPrefix(m.sure, above+"/") {
		return true, nil
	}
	all := strings.Split(above, "/")
	for i := range all {
		info, err := m.lstat(path.Join(all[:i+1]...))
		switch {
		case err != nil:
			return false, err
		case info.Kind == KindUnknown:
			for range all[i:] {
				if err := m.count(name); err != nil {
					return false, err
				}
			}
			if err := m.fsys.Mkdir(m.ctx, m.at(above)); err != nil {
				return false, err
			}
			m.sure = above
			return true, nil
		case !info.IsDir():
			m.skip(name, TarThrough)
			return false, nil
		}
	}
	m.sure = above
	return true, nil
}

func (m *tarImport) directory(name string, attrs tarAttrs) error {
	old, ok, err := m.way(name, true)
	if !ok {
		return err
	}
	if old.Kind != KindUnknown && !old.IsDir() {
		if err := m.fsys.Remove(m.ctx, m.at(name), nil); err != nil {
			return err
		}
	}
	if !old.IsDir() {
		if err := m.fsys.Mkdir(m.ctx, m.at(name)); err != nil {
			return err
		}
	}
	m.dirs[name] = attrs
	m.report.Entries++
	return nil
}

// put has something made at a name: where that is taken, under a passing name
// beside it, which then takes its place; so a link there is replaced and not followed.
func (m *tarImport) put(name string, old FileInfo, mk func(at string) (read bool, err error)) (read bool, err error) {
	at := m.at(name)
	if old.Kind != KindUnknown {
		at = path.Join(path.Dir(at), ".bunkroom-tar-"+rand.Text())
	}
	if read, err = mk(at); err != nil {
		return read, err
	}
	if old.Kind != KindUnknown {
		if err := m.fsys.Rename(m.ctx, at, m.at(name), nil); err != nil {
			return false, errors.Join(err, m.undo(at))
		}
	}
	m.report.Entries++
	return false, nil
}

func (m *tarImport) file(name string, r io.Reader, attrs tarAttrs) (read bool, err error) {
	old, ok, err := m.way(name, false)
	if !ok {
		return false, err
	}
	return m.put(name, old, func(at string) (read bool, err error) {
		// A mode of 0 would mean the default.
		w, err := m.fsys.Create(m.ctx, at, &CreateOptions{Exclusive: true, Mode: cmp.Or(attrs.mode, 0o400)})
		if err != nil {
			return false, err
		}
		if _, read, err = m.copy(w, r, name); err != nil {
			return read, errors.Join(err, w.Abort())
		}
		if err := w.Close(); err != nil {
			return false, err
		}
		if err := m.set(at, attrs, attrs.mode == 0); err != nil {
			return false, errors.Join(err, m.undo(at))
		}
		return false, nil
	})
}

// tarUndo is how long to remove one file may take.
const tarUndo = 10 * time.Second

// undo removes a file that was made and is not to be there, even where ctx has ended.
func (m *tarImport) undo(at string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), tarUndo)
	defer cancel()
	return m.fsys.Remove(ctx, at, &RemoveOptions{MissingOK: true})
}

func (m *tarImport) link(name, target string) error {
	switch {
	case m.links == nil:
		m.skip(name, TarNoLinks)
		return nil
	case target == "" || len(target) >= maxTarName || strings.IndexByte(target, 0) >= 0 || !utf8.ValidString(target):
		m.skip(name, TarName)
		return nil
	}
	old, ok, err := m.way(name, false)
	if !ok {
		return err
	}
	_, err = m.put(name, old, func(at string) (bool, error) { return false, m.links.Symlink(m.ctx, target, at) })
	return err
}

// hardLink copies the file target to name. Not a name of the archive but the file counts: it
// is the one that was made of the name last.
func (m *tarImport) hardLink(name, target string, attrs tarAttrs) error {
	info, ok, err := m.target(target)
	switch {
	case err != nil:
		return err
	case !ok:
		m.skip(name, TarNoTarget)
		return nil
	}
	if err := m.room(name, info.Size); err != nil {
		return err
	}
	r, err := m.fsys.Open(m.ctx, m.at(path.Clean(target)), nil)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = m.file(name, io.LimitReader(r, info.Size), attrs)
	return err
}

// target finds the file that a hard link names, through directories only.
func (m *tarImport) target(target string) (info FileInfo, ok bool, err error) {
	name, ok := tarName(target)
	if !ok || name == "." {
		return info, false, nil
	}
	all := strings.Split(name, "/")
	for i := range all {
		want := KindDir
		if i == len(all)-1 {
			want = KindFile
		}
		if info, err = m.lstat(path.Join(all[:i+1]...)); err != nil || info.Kind != want {
			return info, false, err
		}
	}
	return info, true, nil
}

// set gives a file or directory what the archive says of it, where that can be done.
func (m *tarImport) set(at string, attrs tarAttrs, mode bool) error {
	if m.attrs == nil {
		return nil
	}
	if mode {
		if err := m.attrs.Chmod(m.ctx, at, attrs.mode); err != nil {
			return err
		}
	}
	return m.attrs.Chtimes(m.ctx, at, attrs.modTime)
}

// finish gives the directories what only the last of their entries leaves to
// them, and what would have kept entries out of them; those within others first.
func (m *tarImport) finish() error {
	if m.attrs == nil {
		return nil
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(m.dirs))) {
		info, err := m.lstat(name)
		if err != nil {
			return err
		}
		if !info.IsDir() { // somebody in the sandbox was at it
			continue
		}
		if err := m.set(m.at(name), m.dirs[name], true); err != nil {
			return err
		}
	}
	return nil
}
