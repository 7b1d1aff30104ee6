package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bunkroom/bunkroom/drivers/dir"
	"github.com/bunkroom/bunkroom/mount"
)

// folders is where the agents' folders are: directories, or a bucket.
type folders struct {
	kind                           string
	endpoint, region, bucket, role string

	where string       // as it is told at the end
	shut  func() error // what open has opened; nil = nothing
}

// The kinds of folders there are.
const (
	asDirs = "dir"
	inS3   = "s3"
)

func folderFlags() *folders {
	f := &folders{}
	flag.StringVar(&f.kind, "mounts", asDirs, "where the agents' folders are: dir or s3")
	flag.StringVar(&f.endpoint, "endpoint", os.Getenv("AWS_ENDPOINT_URL"), "with -mounts s3: base `URL` of the store and of its STS; empty = AWS ($AWS_ENDPOINT_URL)")
	flag.StringVar(&f.region, "region", os.Getenv("AWS_REGION"), "with -mounts s3: its region ($AWS_REGION)")
	flag.StringVar(&f.bucket, "bucket", "", "with -mounts s3: `name` of the bucket")
	flag.StringVar(&f.role, "role", "", "with -mounts s3: `ARN` of the role that opens it")
	return f
}

// valid reports whether it was asked for rightly.
func (f *folders) valid() bool {
	return f.kind == asDirs && f.bucket == "" && f.role == "" || f.kind == inS3 && f.bucket != "" && f.role != ""
}

// dataDir is the data directory where none is given. What is mounted may not
// be in a temporary directory, which anybody cleans up.
func (f *folders) dataDir() string {
	base := os.TempDir()
	if cache, err := os.UserCacheDir(); err == nil && f.kind == inS3 {
		base = cache
	}
	return filepath.Join(base, "bunkroom-quickstart")
}

// usable says what is missing on this machine, and how to get it.
func (f *folders) usable() error {
	if f.kind == asDirs {
		return nil
	}
	var missing []error
	if _, err := os.Stat("/dev/fuse"); err != nil {
		missing = append(missing, errors.New("-mounts s3 needs FUSE, and there is no /dev/fuse: a container is given it with --device /dev/fuse --cap-add SYS_ADMIN"))
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		missing = append(missing, errors.New("-mounts s3 needs fusermount3 on PATH: install the package fuse3, as make deps does"))
	}
	if _, err := exec.LookPath("geesefs"); err != nil {
		missing = append(missing, errors.New("-mounts s3 needs geesefs on PATH, version 0.43 or later: get it from https://github.com/yandex-cloud/geesefs/releases"))
	}
	if os.Getenv("AWS_ACCESS_KEY_ID") == "" || os.Getenv("AWS_SECRET_ACCESS_KEY") == "" {
		missing = append(missing, errors.New("-mounts s3 needs the keys of a user in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"))
	}
	if len(missing) > 0 {
		return errors.Join(missing...)
	}
	return withS3()
}

// open makes what carries folders. It is closed also after an error.
func (f *folders) open(ctx context.Context, s *story, rows mount.Store, data string) (mount.Mounter, error) {
	if f.kind == inS3 {
		f.where = fmt.Sprintf("bucket %s", f.bucket)
		return f.openS3(ctx, s, rows, data)
	}
	f.where = filepath.Join(data, "folders")
	return dir.New(f.where)
}

// close closes what was opened. It also works when the run was interrupted.
func (f *folders) close(s *story) {
	if f.shut == nil {
		return
	}
	err := f.shut()
	detail := ""
	if err != nil {
		detail = err.Error()
	}
	s.promise("no folder stays mounted", err == nil, detail)
}
