package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/internal/weedtest"
	"github.com/bunkroom/bunkroom/mount/mounttest"
)

// world is what -mounts s3 needs: a store with a bucket, and geesefs or its stand-in on PATH.
type world struct {
	path string
	args []string
	data string
}

func newWorld(t *testing.T) world {
	t.Helper()
	confined(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		need.Missing(t, need.FUSE, err.Error())
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		need.Missing(t, need.FUSE, "no fusermount3 on PATH")
	}
	var server weedtest.Server
	at := server.Start(t)
	t.Cleanup(server.Stop)
	owner := sdk.New(sdk.Options{
		Region: weedtest.Region, BaseEndpoint: &at.Endpoint, UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: weedtest.AccessKey, SecretAccessKey: weedtest.SecretKey}, nil
		}),
	})
	if _, err := owner.CreateBucket(t.Context(), &sdk.CreateBucketInput{Bucket: aws.String("agents")}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", weedtest.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", weedtest.SecretKey)
	w := world{path: os.Getenv("PATH"), data: mounttest.HostRoot(t)}
	if _, err := exec.LookPath("geesefs"); err != nil {
		bin := t.TempDir()
		build(t, "../../internal/tools/geesefs", "-o", bin, "./geesefs")
		w.path = bin + string(os.PathListSeparator) + w.path
	}
	w.args = []string{"-mounts", "s3", "-endpoint", at.Endpoint, "-bucket", "agents", "-role", weedtest.Role, "-data", w.data, "-repo", "testdata"}
	return w
}

func build(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"build", "-buildvcs=false"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
}

// On a real store and a real FUSE mount: as its users start it; then killed with
// all that serves its folders while a folder is mounted; and again, with the notes of both.
func TestS3(t *testing.T) {
	need.Long(t, "the program is built with the SDK, and runs three times")
	w := newWorld(t)
	s, told := tell(t, program(t), w.path, w.args...)
	if !strings.Contains(told, "those of one were refused another") || s.Notes != "bucket agents" {
		t.Errorf("notes kept in %q:\n%s", s.Notes, told)
	}
	if last := s.Promises[len(s.Promises)-1]; last.What != "no folder stays mounted" {
		t.Errorf("the last promise: %+v", last)
	}
	if entries, err := os.ReadDir(filepath.Join(w.data, "folders")); !os.IsNotExist(err) {
		t.Errorf("folders are kept here too: %v, %v", entries, err)
	}

	bin := filepath.Join(t.TempDir(), "quickstart")
	build(t, ".", "-tags", "s3", "-o", bin, ".")
	killed := exec.Command(bin, w.args...)
	killed.Env = append(os.Environ(), "PATH="+w.path)
	midway(t, killed)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	s, told = tell(t, bin, w.path, w.args...)
	if !strings.Contains(told, "which an earlier run left open") || s.Promises[5].Detail != "3 lines" {
		t.Errorf("the notes of all runs are kept, got %+v:\n%s", s.Promises[5], told)
	}
	if left, err := os.ReadDir(filepath.Join(w.data, "mounts")); err != nil || len(left) != 0 {
		t.Errorf("left mounted: %v, %v", left, err)
	}
}

// Whatever -mounts s3 lacks is said in a sentence each, with exit code 1, and nothing is made.
func TestS3Lacks(t *testing.T) {
	bin, data := program(t), filepath.Join(t.TempDir(), "data")
	for _, c := range []struct {
		name string
		env  []string
		args []string
		says []string
		code int
	}{
		{"programs and keys", []string{"PATH=" + t.TempDir(), "AWS_ACCESS_KEY_ID="}, []string{"-bucket", "agents", "-role", weedtest.Role},
			[]string{"fusermount3", "fuse3", "geesefs", "https://github.com/yandex-cloud/geesefs", "AWS_ACCESS_KEY_ID"}, 1},
		{"a bucket", nil, []string{"-role", weedtest.Role}, []string{"Usage"}, 2},
		{"a role", nil, []string{"-bucket", "agents"}, []string{"Usage"}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(bin, append([]string{"-mounts", "s3", "-data", data}, c.args...)...)
			cmd.Env = append(os.Environ(), c.env...)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != c.code {
				t.Errorf("%v, want exit code %d:\n%s", err, c.code, out)
			}
			for _, says := range c.says {
				if !strings.Contains(string(out), says) {
					t.Errorf("it does not say %q:\n%s", says, out)
				}
			}
			if _, err := os.Stat(data); !os.IsNotExist(err) {
				t.Errorf("the data directory was made: %v", err)
			}
		})
	}
}
