package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"google.golang.org/grpc"

	"github.com/seaweedfs/seaweedfs/weed/glog"
	"github.com/seaweedfs/seaweedfs/weed/pb"
)

// part is where one part of the server listens.
type part struct{ port, rpc int }

type options struct {
	ip, bind, dir         string
	master, volume, filer part
	s3                    part
	volumeMB              uint
	volumes               int
	minFree               string // how much of the disk it leaves, as weed takes it
	config, iam           string
	filerSocket, s3Socket string // the filer's is how S3 reaches it
}

// parse takes the flags by the names they have in weed.
func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("weed server", flag.ContinueOnError)
	f.StringVar(&o.ip, "ip", "127.0.0.1", "")
	f.StringVar(&o.bind, "ip.bind", "127.0.0.1", "")
	f.StringVar(&o.dir, "dir", "", "")
	f.UintVar(&o.volumeMB, "master.volumeSizeLimitMB", 64, "")
	f.IntVar(&o.volumes, "volume.max", 8, "")
	f.StringVar(&o.minFree, "volume.minFreeSpace", "1", "")
	f.StringVar(&o.filerSocket, "filer.localSocket", "", "")
	f.StringVar(&o.s3Socket, "s3.localSocket", "", "")
	f.StringVar(&o.config, "s3.config", "", "")
	f.StringVar(&o.iam, "s3.iam.config", "", "")
	for name, p := range map[string]*part{"master": &o.master, "volume": &o.volume, "filer": &o.filer, "s3": &o.s3} {
		f.IntVar(&p.port, name+".port", 0, "")
		f.IntVar(&p.rpc, name+".port.grpc", 0, "")
	}
	// What can't be had any other way here.
	fixed := map[string]string{
		"filer": "true", "s3": "true", "master.telemetry": "false", "volume.preStopSeconds": "0",
		"s3.port.iceberg": "0", "s3.port.lance": "0",
	}
	for name, only := range fixed {
		set := func(value string) error {
			if value != only {
				return fmt.Errorf("this server has only -%s=%s", name, only)
			}
			return nil
		}
		if only == "true" || only == "false" {
			f.BoolFunc(name, "", set)
		} else {
			f.Func(name, "", set)
		}
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.dir == "" || o.config == "" {
		return o, fmt.Errorf("-dir and -s3.config are required")
	}
	return o, nil
}

func (o options) address(p part) pb.ServerAddress { return pb.NewServerAddress(o.ip, p.port, p.rpc) }

func (o options) listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort(o.bind, strconv.Itoa(port)))
}

// serve has a part answer at both of its ports.
func (o options) serve(p part, handler http.Handler, rpc *grpc.Server) error {
	calls, err := o.listen(p.rpc)
	if err != nil {
		return err
	}
	requests, err := o.listen(p.port)
	if err != nil {
		return err
	}
	go func() { glog.Fatal(rpc.Serve(calls)) }()
	serveOn(requests, handler)
	return nil
}

func serveOn(l net.Listener, handler http.Handler) {
	go func() { glog.Fatal((&http.Server{Handler: handler}).Serve(l)) }()
}
