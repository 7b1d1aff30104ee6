// Command geesefs stands in for the program of that name in tests: it takes the
// same command line and the same configuration, mounts a real FUSE file system,
// and keeps files as objects in an S3 server. It has what the tests of the
// driver look at and nothing more.
//
//   - Credentials come from credential_process of the named profile, which runs
//     again once the expiry that it printed has passed.
//   - It asks the server nothing before it has mounted.
//   - A file is an object after fsync, soon after its last close, and else once
//     the file system is unmounted. Only fsync says that it failed. About a second
//     after all that it ends.
//   - SIGTERM and SIGINT unmount.
//   - Listings are cached for a minute, or until the extended attribute
//     .invalidate is set.
//   - What the server refuses is EACCES.
//
// STANDIN in its environment makes it fail: stubborn goes on after the file system is
// unmounted, whatever it is sent but SIGKILL; late mounts after a minute only;
// broken ends with exit code 1.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jacobsa/fuse"
	"github.com/jacobsa/fuse/fuseutil"
)

type options struct {
	foreground, allowOther                  bool
	endpoint, region, profile, sharedConfig string
	noDetect, fsyncOnClose, noExpire        bool
	bucket, prefix, dir                     string
}

func parse(args []string) options {
	var o options
	f := flag.NewFlagSet("geesefs", flag.ExitOnError)
	f.BoolVar(&o.foreground, "f", false, "")
	f.StringVar(&o.endpoint, "endpoint", "https://storage.example.net", "")
	f.StringVar(&o.region, "region", "us-east-1", "")
	f.StringVar(&o.profile, "profile", "", "")
	f.StringVar(&o.sharedConfig, "shared-config", "", "")
	f.BoolVar(&o.noDetect, "no-detect", false, "")
	f.BoolVar(&o.fsyncOnClose, "fsync-on-close", false, "")
	f.BoolVar(&o.noExpire, "no-expire-multipart", false, "")
	f.Bool("enable-perms", false, "")
	f.Bool("enable-mtime", false, "")
	mount := f.String("o", "", "")
	_ = f.Parse(args)
	if f.NArg() != 2 {
		log.Fatal("Error: geesefs takes exactly two arguments.")
	}
	o.allowOther = *mount == "allow_other"
	if !o.allowOther && *mount != "" {
		log.Fatalf("unknown mount option %s", *mount)
	}
	o.bucket, o.prefix, _ = strings.Cut(f.Arg(0), ":")
	o.prefix, o.dir = strings.Trim(o.prefix, "/")+"/", f.Arg(1)
	if !o.foreground || !o.noDetect || !o.fsyncOnClose || !o.noExpire {
		log.Fatal("the tests are about a program in the foreground, which detects nothing, writes on close and sweeps nothing")
	}
	return o
}

func (o options) client(ctx context.Context) (*s3.Client, error) {
	c, err := config.LoadDefaultConfig(ctx,
		config.WithSharedConfigFiles([]string{o.sharedConfig}), config.WithSharedCredentialsFiles([]string{}),
		config.WithSharedConfigProfile(o.profile), config.WithRegion(o.region),
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
		config.WithRetryer(func() aws.Retryer { return retry.AddWithMaxAttempts(retry.NewStandard(), 2) }))
	if err != nil {
		return nil, err
	}
	return s3.NewFromConfig(c, func(s *s3.Options) {
		s.UsePathStyle = true
		if o.endpoint != "" {
			s.BaseEndpoint = aws.String(o.endpoint)
		}
	}), nil
}

func main() {
	o := parse(os.Args[1:])
	ctx := context.Background()
	client, err := o.client(ctx)
	if err != nil {
		log.Fatalf("main.FATAL Mounting file system: %v", err)
	}
	fs := newFileSystem(client, o.bucket, o.prefix)
	mode := os.Getenv("STANDIN")
	switch mode {
	case "broken":
		log.Fatal("main.FATAL Mounting file system: it was told to")
	case "late":
		time.Sleep(time.Minute)
	}
	mount := &fuse.MountConfig{FSName: o.bucket, Subtype: "geesefs", DisableWritebackCaching: true, Options: map[string]string{}}
	if o.allowOther {
		mount.Options["allow_other"] = ""
	}
	mounted, err := fuse.Mount(o.dir, fuseutil.NewFileSystemServer(fs), mount)
	if err != nil {
		log.Fatalf("main.FATAL Mounting file system: Mount: %v", err)
	}
	log.Println("main.INFO File system has been successfully mounted.")
	stubborn := mode == "stubborn"
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			log.Printf("main.INFO Received %v, attempting to unmount...", s)
			if !stubborn {
				_ = fuse.Unmount(o.dir)
			}
		}
	}()
	if err := mounted.Join(ctx); err != nil {
		log.Fatalf("main.ERROR Join: %v", err)
	}
	for stubborn {
		time.Sleep(time.Hour)
	}
	if err := fs.flushAll(ctx); err != nil {
		log.Fatalf("main.ERROR flush: %v", err)
	}
	time.Sleep(time.Second)
	log.Println("main.INFO Successfully exiting.")
}
