package s3_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/mount"
)

const (
	bucketName = "agents"
	id1        = "0192f0c1-2ab4-7cde-8f01-23456789abcd"
	folder     = mount.Prefix("mounts/project%3ap/" + id1 + "/")
)

const golden = `{"Version":"2012-10-17","Statement":[` +
	`{"Effect":"Allow","Action":["s3:GetObject","s3:GetObjectAttributes","s3:ListMultipartUploadParts","s3:PutObject","s3:DeleteObject","s3:AbortMultipartUpload"],` +
	`"Resource":"arn:aws:s3:::agents/mounts/project%3ap/0192f0c1-2ab4-7cde-8f01-23456789abcd/*"},` +
	`{"Effect":"Allow","Action":["s3:GetBucketLocation","s3:ListBucketMultipartUploads"],"Resource":"arn:aws:s3:::agents"},` +
	`{"Effect":"Allow","Action":["s3:ListBucket"],"Resource":"arn:aws:s3:::agents",` +
	`"Condition":{"StringLike":{"s3:prefix":"mounts/project%3ap/0192f0c1-2ab4-7cde-8f01-23456789abcd/*"}}}]}`

func TestPolicyIsGolden(t *testing.T) {
	got, err := s3.Policy(bucketName, folder, false)
	if err != nil || got != golden {
		t.Errorf("%v\n got %s\nwant %s", err, got, golden)
	}
	got, err = s3.Policy(bucketName, folder, true)
	if want := strings.Replace(golden, `,"s3:PutObject","s3:DeleteObject","s3:AbortMultipartUpload"`, "", 1); err != nil || got != want {
		t.Errorf("to read only: %v\n got %s\nwant %s", err, got, want)
	}
}

// mounts traps 27, 28 and 29, whatever the prefix.
func TestPolicyRules(t *testing.T) {
	real := []string{ // of the actions there are in IAM
		"s3:GetObject", "s3:GetObjectAttributes", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload",
		"s3:ListMultipartUploadParts", "s3:GetBucketLocation", "s3:ListBucketMultipartUploads", "s3:ListBucket",
	}
	for _, namespace := range []string{"", "prod", "some/where"} {
		prefix, err := mount.PrefixOf(namespace, mount.Row{Scope: "user:ü/..", ID: id1})
		if err != nil {
			t.Fatal(err)
		}
		text, err := s3.Policy(bucketName, prefix, false)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			Statement []struct {
				Effect    string
				Action    []string
				Resource  string
				Condition map[string]map[string]string
			}
		}
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Statement {
			below, whole := strings.CutPrefix(s.Resource, "arn:aws:s3:::"+bucketName)
			for _, a := range s.Action {
				if !strings.Contains(" "+strings.Join(real, " ")+" ", " "+a+" ") {
					t.Errorf("T-29: %s is no action", a)
				}
				free := a == "s3:GetBucketLocation" || a == "s3:ListBucketMultipartUploads"
				switch {
				case !whole || s.Effect != "Allow":
					t.Errorf("%s on %s", s.Effect, s.Resource)
				case free && (below != "" || s.Condition != nil):
					t.Errorf("T-28: %s has a condition: a mount can't start", a)
				case a == "s3:ListBucket" && s.Condition["StringLike"]["s3:prefix"] != string(prefix)+"*":
					t.Errorf("T-27: it lists %v", s.Condition)
				case !free && a != "s3:ListBucket" && below != "/"+string(prefix)+"*":
					t.Errorf("T-27: %s on %s", a, s.Resource)
				}
			}
		}
		if strings.Count(text, "*") != 2 || !strings.Contains(text, "/*\"}") {
			t.Errorf("a star stands where none belongs, or without a slash before it: %s", text)
		}
	}
}

// The longest prefix there is fits, beside the longest name of a bucket.
func TestLongestPolicyFits(t *testing.T) {
	prefix, err := mount.PrefixOf(strings.Repeat("n", 256), mount.Row{Scope: strings.Repeat("s", 200), ID: id1})
	if err != nil {
		t.Fatal(err)
	}
	text, err := s3.Policy(strings.Repeat("b", 63), prefix, false)
	if err != nil || len(text) > s3.MaxPolicy {
		t.Errorf("%d characters, %v", len(text), err)
	}
}

func TestPolicyRefuses(t *testing.T) {
	for _, c := range []struct {
		rule, field, bucket string
		prefix              mount.Prefix
	}{
		{"no prefix", "Prefix", bucketName, ""},
		{"a slash only", "Prefix", bucketName, "/"},
		{"no slash at the end (T-27)", "Prefix", bucketName, folder[:len(folder)-1]},
		{"two slashes at the end", "Prefix", bucketName, folder + "/"},
		{"a slash before it", "Prefix", bucketName, "/" + folder},
		{"an empty name within", "Prefix", bucketName, "ns//" + folder},
		{"a whole scope", "Prefix", bucketName, "mounts/project%3ap/"},
		{"all mounts", "Prefix", bucketName, "mounts/"},
		{"a folder within the mount", "Prefix", bucketName, folder + "sub/"},
		{"no scope", "Prefix", bucketName, "mounts//" + id1 + "/"},
		{"a scope of dots", "Prefix", bucketName, "mounts/../" + id1 + "/"},
		{"an id in another form", "Prefix", bucketName, mount.Prefix("mounts/p/" + strings.ToUpper(id1) + "/")},
		{"no id", "Prefix", bucketName, "mounts/p/x/"},
		{"another root", "Prefix", bucketName, "files/p/" + id1 + "/"},
		{"a star for any scope", "Prefix", bucketName, "mounts/*/" + id1 + "/"},
		{"a question mark", "Prefix", bucketName, "mounts/?/" + id1 + "/"},
		{"a variable of a policy", "Prefix", bucketName, "mounts/${aws:username}/" + id1 + "/"},
		{"a quote", "Prefix", bucketName, `mounts/"/` + id1 + "/"},
		{"a line break", "Prefix", bucketName, "mounts/\n/" + id1 + "/"},
		{"a namespace of dots", "Prefix", bucketName, "../" + folder},
		{"too long for a policy", "Prefix", bucketName, mount.Prefix("mounts/" + strings.Repeat("s", 1000) + "/" + id1 + "/")},
		{"no bucket", "Bucket", "", folder},
		{"any bucket", "Bucket", "***", folder},
		{"a bucket with a slash", "Bucket", "agents/mounts", folder},
		{"a bucket in capitals", "Bucket", "Agents", folder},
		{"a bucket with an empty part", "Bucket", "a..b", folder},
		{"a bucket that begins with a dash", "Bucket", "-agents", folder},
		{"a bucket whose name is too long", "Bucket", strings.Repeat("b", 64), folder},
	} {
		got, err := s3.Policy(c.bucket, c.prefix, false)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != c.field || got != "" {
			t.Errorf("%s: %q, %v; want %s named", c.rule, got, err, c.field)
		}
	}
}
