package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// entry is what a listing says of one name.
type entry struct {
	dir  bool
	size uint64
	at   time.Time
}

// listing is what a directory held when it was asked for.
type listing struct {
	entries map[string]entry
	until   time.Time
}

// uninterrupted is a request's context without its end. A signal to the caller
// interrupts a request, and every few milliseconds the runtime of a caller in
// Go sends one: a request that gave up at that would never be done.
func uninterrupted(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// fetch asks the server for what is in a directory: "" or a path that ends with a slash.
func (fs *fileSystem) fetch(ctx context.Context, dir string) (*listing, error) {
	l := &listing{entries: map[string]entry{}, until: time.Now().Add(cached)}
	pages := s3.NewListObjectsV2Paginator(fs.client, &s3.ListObjectsV2Input{
		Bucket: &fs.bucket, Prefix: aws.String(fs.prefix + dir), Delimiter: aws.String("/"),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(uninterrupted(ctx))
		if err != nil {
			return nil, err
		}
		for _, p := range page.CommonPrefixes {
			name := strings.TrimSuffix(strings.TrimPrefix(aws.ToString(p.Prefix), fs.prefix+dir), "/")
			l.entries[name] = entry{dir: true}
		}
		for _, o := range page.Contents {
			if name := strings.TrimPrefix(aws.ToString(o.Key), fs.prefix+dir); name != "" {
				l.entries[name] = entry{size: uint64(aws.ToInt64(o.Size)), at: aws.ToTime(o.LastModified)}
			}
		}
	}
	return l, nil
}

func (fs *fileSystem) get(ctx context.Context, name string) ([]byte, error) {
	o, err := fs.client.GetObject(uninterrupted(ctx), &s3.GetObjectInput{Bucket: &fs.bucket, Key: aws.String(fs.prefix + name)})
	if err != nil {
		return nil, err
	}
	defer o.Body.Close()
	return io.ReadAll(o.Body)
}

func (fs *fileSystem) put(ctx context.Context, name string, data []byte) error {
	_, err := fs.client.PutObject(uninterrupted(ctx), &s3.PutObjectInput{Bucket: &fs.bucket, Key: aws.String(fs.prefix + name), Body: bytes.NewReader(data)})
	return err
}

func (fs *fileSystem) remove(ctx context.Context, name string) error {
	_, err := fs.client.DeleteObject(uninterrupted(ctx), &s3.DeleteObjectInput{Bucket: &fs.bucket, Key: aws.String(fs.prefix + name)})
	return err
}

// errno is what a process sees of an error of the server.
func errno(err error) error {
	if err == nil {
		return nil
	}
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		switch answer.HTTPStatusCode() {
		case http.StatusForbidden:
			return syscall.EACCES
		case http.StatusNotFound:
			return syscall.ENOENT
		}
	}
	log.Printf("main.ERROR %v", err)
	return syscall.EIO
}
