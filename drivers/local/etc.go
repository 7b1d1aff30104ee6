//go:build linux

package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// fromEtc is what confined processes see of the host's /etc: what programs
// need to run, and nothing that could be secret. Files that not everybody can
// read are left out all the same.
var fromEtc = [...]string{
	"alternatives", "ca-certificates", "crypto-policies", "debian_version", "fonts", "gai.conf", "host.conf",
	"inputrc", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
	"localtime", "magic", "mime.types", "networks", "os-release", "pki/ca-trust", "pki/tls/certs", "pki/tls/cert.pem",
	"protocols", "python3", "services", "shells", "ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "terminfo", "timezone",
}

// ownEtc is what they see of our own.
var ownEtc = [...][2]string{
	{"passwd", "root:x:0:0:root:/:/usr/sbin/nologin\nsandbox:x:" + insideUser + ":" + insideUser + ":sandbox:" + insideWork + ":/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"},
	{"group", "root:x:0:\nsandbox:x:" + insideUser + ":\nnogroup:x:65534:\n"},
	{"nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
	{"hostname", "sandbox\n"},
	{"hosts", "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n"},
	{"resolv.conf", ""}, // the host's is put in its place, as it is when a process starts
}

// copyEtc makes the /etc of confined processes below root and returns its
// path. Its name is a digest of what it is made from: a provider that finds
// it there, made by itself earlier or by another, takes it as it is.
func copyEtc(root string) (string, error) {
	files, digest, err := listEtc()
	if err != nil {
		return "", err
	}
	final := filepath.Join(root, "etc-"+digest)
	if _, err := os.Lstat(final); err == nil {
		return final, nil
	}
	dir, err := os.MkdirTemp(filepath.Join(root, newDir), "etc-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range files {
		if err := copyEntry(filepath.Join("/etc", name), filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	for _, f := range ownEtc {
		if err := os.WriteFile(filepath.Join(dir, f[0]), []byte(f[1]), 0o644); err != nil {
			return "", err
		}
	}
	if err := os.Rename(dir, final); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return final, nil
}

// listEtc lists the directories, links and files to copy, parents first.
func listEtc() (names []string, digest string, err error) {
	h := sha256.New()
	for _, top := range fromEtc {
		for dir := filepath.Dir(top); dir != "." && !slices.Contains(names, dir); dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join("/etc", top)); err == nil {
				names = append(names, dir)
			}
		}
		err := filepath.WalkDir(filepath.Join("/etc", top), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return skipMissing(err)
			}
			info, err := d.Info()
			if err != nil {
				return skipMissing(err)
			}
			switch mode := info.Mode(); {
			case mode.IsDir() && mode&0o005 != 0o005:
				return fs.SkipDir
			case strings.HasSuffix(path, ".gz"): // manual pages
				return nil
			case mode.IsRegular() && mode&0o004 == 0, !mode.IsRegular() && !mode.IsDir() && mode&fs.ModeSymlink == 0:
				return nil
			}
			name, err := filepath.Rel("/etc", path)
			if err != nil {
				return err
			}
			target, _ := os.Readlink(path)
			fmt.Fprintf(h, "%q %v %d %d %q\n", name, info.Mode(), info.Size(), info.ModTime().UnixNano(), target)
			names = append(names, name)
			return nil
		})
		if err != nil {
			return nil, "", err
		}
	}
	fmt.Fprintf(h, "%q\n", ownEtc)
	return names, hex.EncodeToString(h.Sum(nil)[:8]), nil
}

func skipMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

func copyEntry(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return skipMissing(err)
	}
	switch {
	case info.IsDir():
		return os.MkdirAll(to, 0o755)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return skipMissing(err)
		}
		return os.Symlink(target, to)
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return skipMissing(err)
	}
	return os.WriteFile(to, b, 0o644)
}
