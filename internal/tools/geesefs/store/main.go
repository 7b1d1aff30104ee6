// Command store is an object store for tests, in memory, behind a check of who
// asks: an access key says itself until when it is good, and a session token
// for what. All keys have one secret, by which requests are signed.
//
//	store BUCKET SECRET
//
// It listens on a port of its own of this machine, writes its base URL as its
// first line, and ends when its input does. GET /-/keys answers with how many
// different access keys it has accepted, and how many requests refused.
package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: store BUCKET SECRET")
	}
	backend := s3mem.New()
	if err := backend.CreateBucket(os.Args[1]); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s\n", listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	d := &door{bucket: os.Args[1], secret: os.Args[2], behind: gofakes3.New(backend).Server(), accepted: map[string]bool{}}
	log.Fatal(http.Serve(listener, d))
}

// door lets in who has a key that is good now, for what is below its prefix.
type door struct {
	bucket, secret string
	behind         http.Handler

	mu       sync.Mutex
	accepted map[string]bool
	refused  int
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/-/keys" {
		d.mu.Lock()
		defer d.mu.Unlock()
		fmt.Fprintln(w, len(d.accepted), d.refused)
		return
	}
	key, code := d.check(r, time.Now())
	d.mu.Lock()
	if code == "" {
		d.accepted[key] = true
	} else {
		d.refused++
	}
	d.mu.Unlock()
	if code != "" {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>refused</Message></Error>", code)
		return
	}
	d.behind.ServeHTTP(w, r)
}

// check returns the access key, and the code of the refusal where there is one.
// A key is "until-" and milliseconds since 1970, a token the prefix in base64.
func (d *door) check(r *http.Request, now time.Time) (key, code string) {
	_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	key, _, ok := strings.Cut(rest, "/")
	until, err := strconv.ParseInt(strings.TrimPrefix(key, "until-"), 10, 64)
	prefix, bad := base64.URLEncoding.DecodeString(r.Header.Get("X-Amz-Security-Token"))
	switch {
	case !ok || err != nil || bad != nil || len(prefix) == 0:
		return key, "InvalidAccessKeyId"
	case !now.Before(time.UnixMilli(until)):
		return key, "ExpiredToken"
	}
	if signed, err := d.signed(r, key); err != nil || !signed {
		return key, "SignatureDoesNotMatch"
	}
	if !strings.HasPrefix(r.URL.Path+"/", "/"+d.bucket+"/") {
		return key, "NoSuchBucket"
	}
	object := strings.TrimPrefix(r.URL.Path, "/"+d.bucket)
	object = strings.TrimPrefix(object, "/")
	if object == "" {
		object = r.URL.Query().Get("prefix")
	}
	if !strings.HasPrefix(object, string(prefix)) {
		return key, "AccessDenied"
	}
	return key, ""
}

// signed reports whether a request has the signature that it would have if we made it.
func (d *door) signed(r *http.Request, key string) (bool, error) {
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return false, err
	}
	parts := strings.Split(r.Header.Get("Authorization"), "/")
	if len(parts) < 5 {
		return false, nil
	}
	_, names, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	names, _, _ = strings.Cut(names, ",")
	again, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(), nil)
	if err != nil {
		return false, err
	}
	for name := range strings.SplitSeq(names, ";") {
		switch name {
		case "content-length":
			again.ContentLength = r.ContentLength
		case "host", "x-amz-date", "x-amz-security-token":
		default:
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	credentials := aws.Credentials{AccessKeyID: key, SecretAccessKey: d.secret, SessionToken: r.Header.Get("X-Amz-Security-Token")}
	err = v4.NewSigner().SignHTTP(r.Context(), credentials, again, r.Header.Get("X-Amz-Content-Sha256"), parts[3], parts[2], at,
		func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	if err != nil {
		return false, err
	}
	_, got, _ := strings.Cut(r.Header.Get("Authorization"), "Signature=")
	_, want, _ := strings.Cut(again.Header.Get("Authorization"), "Signature=")
	return got == want && got != "", nil
}
