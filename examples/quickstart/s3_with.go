//go:build s3

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/bunkroom/bunkroom/drivers/geesefs"
	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/mount"
)

func withS3() error { return nil }

// closeTimeout is how long it may take to write out what was written, and unmount.
const closeTimeout = time.Minute

// openS3 has folders of the bucket mounted on this host, with credentials for
// one folder each that are renewed while they are mounted.
func (f *folders) openS3(ctx context.Context, s *story, rows mount.Store, data string) (mount.Mounter, error) {
	signer, err := s3.New(s3.Config{
		Bucket: f.bucket, Region: f.region, Endpoint: f.endpoint,
		Way: s3.AssumeRole{Role: f.role, Keys: func(context.Context) (s3.Keys, error) {
			return s3.Keys{
				AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: os.Getenv("AWS_SESSION_TOKEN"),
			}, nil
		}},
		TTL: time.Hour, RunDeadline: 10 * time.Minute, // a role grants an hour, where nobody has set another time
	})
	if err != nil {
		return nil, err
	}
	if err := signer.Prove(ctx); err != nil {
		return nil, err
	}
	s.say("The store confines credentials to one folder: those of one were refused another.")
	kept, err := mount.NewKeptSigner(mount.KeptSignerConfig{Signer: signer, Store: rows}) // nothing for what is deleted
	if err != nil {
		return nil, err
	}
	server, err := geesefs.New(geesefs.Config{Signer: kept, Dir: filepath.Join(data, "credentials")})
	if err != nil {
		return nil, err
	}
	host, err := mount.NewHost(ctx, mount.HostConfig{Server: server, Root: filepath.Join(data, "mounts")})
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	f.shut = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		return errors.Join(host.Close(ctx), server.Close())
	}
	return host, nil
}
