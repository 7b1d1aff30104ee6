package geesefs

import (
	"encoding/json"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// profile is the name of the one profile in the configuration file.
const profile = "bunkroom"

// call is one run of the program.
type call struct {
	at         location
	allowOther bool
	config     string // the path of the configuration file
	dir        string // the mount point
}

// location is where in which storage a folder is: what can't change under a live mount.
type location struct {
	endpoint, region, bucket string
	prefix                   mount.Prefix
}

func locationOf(c mount.Credentials) location {
	return location{c.Endpoint, c.Region, c.Bucket, c.Prefix}
}

// args are the program's arguments. There is nothing secret in them.
func (c call) args() []string {
	a := []string{
		"-f", // it stays a child that is watched: what puts itself into the background dies unseen
		// Where there is none, this is said: left out, the program takes a
		// provider of its own choosing, and would send it requests for this folder.
		"--endpoint=" + c.at.endpoint,
	}
	if c.at.region != "" {
		a = append(a, "--region="+c.at.region)
	}
	a = append(a,
		"--no-detect",           // the credentials don't open what it would look at
		"--fsync-on-close",      // a file is written out when it is closed, and not minutes later
		"--no-expire-multipart", // the sweep at its start panics over what others have left
		"--enable-perms", "--enable-mtime",
		"--profile="+profile, "--shared-config="+c.config,
	)
	if c.allowOther {
		a = append(a, "-o", "allow_other")
	}
	return append(a, "--", c.at.bucket+":"+string(c.at.prefix), c.dir)
}

// configText is the configuration file: a profile whose credentials are what
// cat prints. All paths are plain, so that nothing in it needs quoting.
func configText(cat, lease string) []byte {
	return []byte("[profile " + profile + "]\ncredential_process = " + cat + " " + lease + "\n")
}

// leaseText is what the process prints, in the form that SDKs of AWS read.
func leaseText(c mount.Credentials, report time.Time) ([]byte, error) {
	return json.Marshal(struct {
		Version         int
		AccessKeyID     string `json:"AccessKeyId"`
		SecretAccessKey string
		SessionToken    string    `json:",omitempty"`
		Expiration      time.Time // they run it again after this
	}{1, c.AccessKey, c.SecretKey, c.SessionToken, report.UTC().Truncate(time.Millisecond)})
}
