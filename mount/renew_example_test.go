package mount_test

import (
	"context"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// mintFunc is a signer of a storage that exists for this example only.
type mintFunc func(g mount.Grant) mount.Credentials

func (f mintFunc) Sign(_ context.Context, g mount.Grant) (mount.Credentials, error) { return f(g), nil }

// Credentials for a quarter of an hour are told to be good for 13 minutes, and
// replaced after 8.
func ExampleNewRenewer() {
	ctx := context.Background()
	begin := time.Now()
	renewer, err := mount.NewRenewer(mount.RenewerConfig{
		Signer: mintFunc(func(g mount.Grant) mount.Credentials {
			return mount.Credentials{Bucket: "folders", Prefix: g.Prefix, AccessKey: "id", SecretKey: "hush", Expires: time.Now().Add(15 * time.Minute)}
		}),
		Grant: mount.Grant{Prefix: "mounts/project%3aweb/0192f0c1-2ab4-7cde-8f01-23455e0c3f1a/"},
		Install: func(_ context.Context, c mount.Credentials, report time.Time) error {
			fmt.Println(c.Bucket, "reported for", report.Sub(begin).Round(time.Minute))
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := renewer.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	s := renewer.State()
	fmt.Println("generation", s.Generation, "renewed after", s.Lease.Renew.Sub(begin).Round(time.Minute))
	fmt.Println(renewer.Stop(ctx))
	// Output:
	// folders reported for 13m0s
	// generation 1 renewed after 8m0s
	// <nil>
}
