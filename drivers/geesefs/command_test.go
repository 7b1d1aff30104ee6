//go:build linux

package geesefs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// The command line, the configuration and the credentials, word by word.
// Traps 34 and 56 each need one of the words.
func TestWhatTheProgramIsGiven(t *testing.T) {
	at := location{endpoint: "https://store.example.org:8333", region: "eu-central-1", bucket: "folders", prefix: "mounts/project%3aweb/0192f0c1-2ab4-7cde-8f01-23456789abcd/"}
	for _, c := range []struct {
		rule string
		call call
		want string
	}{
		{"a storage of one's own", call{at: at, config: "/run/x/config", dir: "/srv/folders/a b"},
			"-f|--endpoint=https://store.example.org:8333|--region=eu-central-1|--no-detect|--fsync-on-close|--no-expire-multipart|--enable-perms|--enable-mtime|" +
				"--profile=bunkroom|--shared-config=/run/x/config|--|folders:mounts/project%3aweb/0192f0c1-2ab4-7cde-8f01-23456789abcd/|/srv/folders/a b"},
		{"AWS, and other users let in: no endpoint is said to be one, for left out it would be another provider's",
			call{at: location{bucket: "folders", prefix: "mounts/p/i/"}, allowOther: true, config: "/c", dir: "/d"},
			"-f|--endpoint=|--no-detect|--fsync-on-close|--no-expire-multipart|--enable-perms|--enable-mtime|--profile=bunkroom|--shared-config=/c|-o|allow_other|--|folders:mounts/p/i/|/d"},
	} {
		if got := strings.Join(c.call.args(), "|"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.rule, got, c.want)
		}
	}
	if got, want := string(configText("/bin/cat", "/run/x/lease.json")), "[profile bunkroom]\ncredential_process = /bin/cat /run/x/lease.json\n"; got != want {
		t.Errorf("configuration %q, want %q", got, want)
	}
	report := time.Date(2026, 5, 1, 14, 0, 0, 123456789, time.FixedZone("", 7200))
	for _, c := range []struct{ token, want string }{
		{"t", `{"Version":1,"AccessKeyId":"id","SecretAccessKey":"s","SessionToken":"t","Expiration":"2026-05-01T12:00:00.123Z"}`},
		{"", `{"Version":1,"AccessKeyId":"id","SecretAccessKey":"s","Expiration":"2026-05-01T12:00:00.123Z"}`},
	} {
		got, err := leaseText(mount.Credentials{AccessKey: "id", SecretKey: "s", SessionToken: c.token}, report)
		if err != nil || string(got) != c.want {
			t.Errorf("credentials %s, %v; want %s", got, err, c.want)
		}
	}
}

func TestNewRefusesByField(t *testing.T) {
	whole := func() Config { return Config{Signer: &minter{}, Dir: t.TempDir()} }
	for _, c := range []struct {
		rule, field string
		spoil       func(*Config)
	}{
		{"no signer", "Signer", func(c *Config) { c.Signer = nil }},
		{"no directory", "Dir", func(c *Config) { c.Dir = "" }},
		{"a relative one", "Dir", func(c *Config) { c.Dir = "run" }},
		{"the root", "Dir", func(c *Config) { c.Dir = "//" }},
		{"one that a shell would read as two words", "Dir", func(c *Config) { c.Dir += "/a b" }},
		{"or run", "Dir", func(c *Config) { c.Dir += "/$(id)" }},
		{"one that can't be made", "Dir", func(c *Config) { c.Dir = "/dev/null/x" }},
		{"a namespace that is none", "Namespace", func(c *Config) { c.Namespace = "a//b" }},
		{"a program that is an option", "Program", func(c *Config) { c.Program = "-f" }},
		{"a life below nothing", "TTL", func(c *Config) { c.TTL = -1 }},
		{"a time below nothing", "StopTimeout", func(c *Config) { c.StopTimeout = -1 }},
		{"a variable without a name", "Env", func(c *Config) { c.Env = []string{"=x"} }},
		{"or without a value", "Env", func(c *Config) { c.Env = []string{"X"} }},
	} {
		config := whole()
		c.spoil(&config)
		s, err := New(config)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != c.field || s != nil {
			t.Errorf("%s: %v; want a refusal of %s", c.rule, err, c.field)
		}
	}
	s, err := New(whole())
	if err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*mount.Spec){
		"Row.ID":    func(s *mount.Spec) { s.Row.ID = "../../etc" },
		"Row.Scope": func(s *mount.Spec) { s.Row.Scope = "" },
	} {
		bad := spec()
		spoil(&bad)
		if _, err := s.Serve(t.Context(), bad, t.TempDir()); err != nil {
			if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		} else {
			t.Errorf("%s was accepted", field)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// What folders can't keep is said to programs as in the package comment.
func TestLimits(t *testing.T) {
	if l := FolderLimits(); !l.LosesSymlinks || !l.LosesAttributes || !l.NoHardLinks || !l.NoDatabases {
		t.Errorf("%+v", l)
	}
	if !slices.ContainsFunc([]string{"/run/a-b_c.d/E9"}, plain) || slices.ContainsFunc([]string{"a b", "a;b", "a'b", "a\nb", "a%b", "ü"}, plain) {
		t.Error("plain paths are not told from others")
	}
}
