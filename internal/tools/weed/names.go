package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gorilla/mux"

	"github.com/seaweedfs/seaweedfs/weed/credential"
	_ "github.com/seaweedfs/seaweedfs/weed/credential/filer_etc"
	"github.com/seaweedfs/seaweedfs/weed/glog"
	"github.com/seaweedfs/seaweedfs/weed/pb"
	"github.com/seaweedfs/seaweedfs/weed/pb/filer_pb"
	"github.com/seaweedfs/seaweedfs/weed/pb/s3_lifecycle_pb"
	"github.com/seaweedfs/seaweedfs/weed/pb/s3_pb"
	"github.com/seaweedfs/seaweedfs/weed/s3api"
	"github.com/seaweedfs/seaweedfs/weed/security"
	"github.com/seaweedfs/seaweedfs/weed/server"
	"github.com/seaweedfs/seaweedfs/weed/util"
)

// chunkMB is from what size on an object is kept in pieces.
const chunkMB = 4

// startFiler starts what knows the names.
func startFiler(o options) error {
	users, err := credential.NewCredentialManagerWithDefaults("")
	if err != nil {
		return err
	}
	if err := users.LoadS3ConfigFile(o.config); err != nil {
		return err
	}
	self := o.address(o.filer)
	requests := http.NewServeMux()
	announce := make(chan struct{})
	filer, err := weed_server.NewFilerServer(requests, requests, &weed_server.FilerOption{
		Masters: pb.ServerAddresses(o.address(o.master)).ToServiceDiscovery(), AnnounceCh: announce, SkipEmptyMembershipConfirm: true,
		MaxMB: chunkMB, DirListingLimit: 1000, DefaultLevelDbDir: filepath.Join(o.dir, "filerldb2"), Host: self,
		AllowedOrigins: []string{"*"}, ExposeDirectoryData: true, TusBasePath: "/.tus", TusSessionExpiry: 24 * time.Hour,
		CredentialManager: users,
	})
	if err != nil {
		return err
	}
	rpc := pb.NewGrpcServer(security.LoadServerTLS(util.GetViper(), "grpc.filer"))
	filer_pb.RegisterSeaweedFilerServer(rpc, filer)
	handler := weed_server.CleanPathHandler(requests)
	if err := o.serve(o.filer, handler, rpc); err != nil {
		return err
	}
	if o.filerSocket != "" {
		if err := os.Remove(o.filerSocket); err != nil && !os.IsNotExist(err) { // of one that was killed
			return err
		}
		socket, err := net.Listen("unix", o.filerSocket)
		if err != nil {
			return err
		}
		serveOn(socket, handler)
	}
	go filer.AnnounceOnceCaughtUp(announce, time.Now())
	return nil
}

// startS3 starts what the tests ask.
func startS3(o options) error {
	filers := []pb.ServerAddress{o.address(o.filer)}
	var has *filer_pb.GetFilerConfigurationResponse
	ask := func(client filer_pb.SeaweedFilerClient) (err error) {
		has, err = client.GetFilerConfiguration(context.Background(), &filer_pb.GetFilerConfigurationRequest{})
		return err
	}
	if err := pb.WithOneOfGrpcFilerClients(false, filers, dial("client"), ask); err != nil {
		return err
	}
	router := mux.NewRouter().SkipClean(true)
	server, err := s3api.NewS3ApiServer(router, &s3api.S3ApiServerOption{
		Filers: filers, Masters: []pb.ServerAddress{o.address(o.master)}, GrpcDialOption: dial("client"),
		Ip: o.ip, BindIp: o.bind, Port: o.s3.port, GrpcPort: o.s3.rpc, LocalFilerSocket: o.filerSocket,
		Config: o.config, IamConfig: o.iam, EnableIam: true, IamReadOnly: true,
		BucketsPath: has.DirBuckets, MaxMB: int32(has.MaxMb), AutoCreateBucket: true, AllowedOrigins: []string{"*"},
	})
	if err != nil {
		return err
	}
	rpc := pb.NewGrpcServer(security.LoadServerTLS(util.GetViper(), "grpc.s3"))
	s3_pb.RegisterSeaweedS3IamCacheServer(rpc, server)
	s3_lifecycle_pb.RegisterSeaweedS3LifecycleInternalServer(rpc, server)
	if err := o.serve(o.s3, router, rpc); err != nil {
		return err
	}
	glog.V(0).Infof("S3 at %s:%d", o.ip, o.s3.port)
	return nil
}
