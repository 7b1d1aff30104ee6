package s3

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// MaxPolicy is the most characters that a session policy may have.
const MaxPolicy = 2048

// statement is one of a policy. The order of its fields is that of the text.
type statement struct {
	Effect    string
	Action    []string
	Resource  string
	Condition map[string]map[string]string `json:",omitempty"`
}

// Policy is what credentials for a prefix of a bucket may do, as the session
// policy that they are minted with. It allows three things:
//
//   - the objects below the prefix: to read, and unless readOnly to write and delete them;
//   - of the bucket, its region and the names of unfinished uploads, without a
//     condition: programs that mount it ask for both of all of it, and start with nothing less;
//   - to list what is below the prefix. Who lists has to say so, with the slash at its end.
//
// To begin, fill and finish an upload in parts is to write the object. These
// are no actions of their own, and a policy that names them is refused.
//
// The error is a [*access.FieldError]: "Prefix" where it is not as
// mount.PrefixOf makes it, or so long that the policy would have more than
// MaxPolicy characters; "Bucket" where that can't be a bucket's name.
func Policy(bucket string, prefix mount.Prefix, readOnly bool) (string, error) {
	if err := checkBucket(bucket); err != nil {
		return "", err
	}
	if err := prefix.Check(); err != nil {
		return "", err
	}
	objects := []string{"s3:GetObject", "s3:GetObjectAttributes", "s3:ListMultipartUploadParts"}
	if !readOnly {
		objects = append(objects, "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
	}
	all := "arn:aws:s3:::" + bucket
	below := string(prefix) + "*"
	text, err := json.Marshal(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", []statement{
		{Effect: "Allow", Action: objects, Resource: all + "/" + below},
		{Effect: "Allow", Action: []string{"s3:GetBucketLocation", "s3:ListBucketMultipartUploads"}, Resource: all},
		{Effect: "Allow", Action: []string{"s3:ListBucket"}, Resource: all,
			Condition: map[string]map[string]string{"StringLike": {"s3:prefix": below}}},
	}})
	if err != nil {
		return "", err
	}
	if len(text) > MaxPolicy {
		return "", &access.FieldError{Field: "Prefix", Rule: fmt.Sprintf("makes a session policy of %d characters, of which %d are allowed", len(text), MaxPolicy)}
	}
	return string(text), nil
}

// checkBucket refuses what S3 does not allow as the name of a bucket.
func checkBucket(name string) error {
	refused := func(rule string) error { return &access.FieldError{Field: "Bucket", Rule: rule} }
	if len(name) < 3 || len(name) > 63 {
		return refused("must have 3 to 63 characters")
	}
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || part[0] == '-' || part[len(part)-1] == '-' {
			return refused("must have letters or digits at its ends and around dots")
		}
		for _, c := range []byte(part) {
			if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-') {
				return refused(`must be of lower-case letters, digits, "-" and "."`)
			}
		}
	}
	return nil
}
