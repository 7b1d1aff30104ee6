package main

import (
	"context"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gorilla/mux"
	"github.com/seaweedfs/raft/protobuf"
	"google.golang.org/grpc"

	"github.com/seaweedfs/seaweedfs/weed/pb"
	"github.com/seaweedfs/seaweedfs/weed/pb/master_pb"
	"github.com/seaweedfs/seaweedfs/weed/pb/volume_server_pb"
	"github.com/seaweedfs/seaweedfs/weed/security"
	"github.com/seaweedfs/seaweedfs/weed/server"
	"github.com/seaweedfs/seaweedfs/weed/server/constants"
	"github.com/seaweedfs/seaweedfs/weed/stats"
	"github.com/seaweedfs/seaweedfs/weed/storage"
	"github.com/seaweedfs/seaweedfs/weed/storage/types"
	"github.com/seaweedfs/seaweedfs/weed/util"
)

// fileMB is the largest piece that is stored as one.
const fileMB = 256

// dial is how one part calls another.
func dial(part string) grpc.DialOption { return security.LoadClientTLS(util.GetViper(), "grpc."+part) }

// startMaster starts what says where a piece goes: alone, and so at once its own leader.
func startMaster(o options) error {
	self := o.address(o.master)
	peers := map[string]pb.ServerAddress{string(self): self}
	router := mux.NewRouter()
	master := weed_server.NewMasterServer(router, &weed_server.MasterOption{
		Master: self, MetaFolder: o.dir, VolumeSizeLimitMB: uint32(o.volumeMB), FileSizeLimitMB: fileMB,
		MaxParallelVacuumPerServer: 1, VacuumIntervalSeconds: 840, GarbageThreshold: 0.3,
		MetricsIntervalSec: 15, SingleMaster: true, ReleaseAllocOnFirstReport: true,
		SingleVolumeReporter: util.JoinHostPort(o.ip, o.volume.port),
	}, peers)
	raft, err := weed_server.NewRaftServer(&weed_server.RaftServerOption{
		GrpcDialOption: dial("master"), Peers: peers, ServerAddr: self, DataDir: filepath.Join(o.dir, "m"+strconv.Itoa(o.master.port)),
		Topo: master.Topo, RaftResumeState: true, SingleMaster: true,
		HeartbeatInterval: 300 * time.Millisecond, ElectionTimeout: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	if !raft.HasExistingState() {
		if err := raft.Bootstrap(); err != nil {
			return err
		}
	}
	master.SetRaftServer(raft)
	rpc := pb.NewGrpcServer(security.LoadServerTLS(util.GetViper(), "grpc.master"))
	master_pb.RegisterSeaweedServer(rpc, master)
	protobuf.RegisterRaftServer(rpc, raft)
	if err := o.serve(o.master, router, rpc); err != nil {
		return err
	}
	go master.MasterClient.KeepConnectedToMaster(context.Background())
	return nil
}

// startVolume starts what keeps the pieces.
func startVolume(o options) error {
	requests := http.NewServeMux()
	at := util.JoinHostPort(o.ip, o.volume.port)
	volume := weed_server.NewVolumeServer(
		requests, requests, o.ip, o.volume.port, o.volume.rpc, at, util.GetVolumeServerId("", o.ip, o.volume.port),
		[]string{o.dir}, []int32{int32(o.volumes)}, util.MustParseMinFreeSpace(o.minFree, ""), []types.DiskType{types.ToDiskType("")}, [][]string{nil},
		"", storage.NeedleMapInMemory,
		[]pb.ServerAddress{o.address(o.master)}, constants.VolumePulsePeriod, "", "",
		nil, false, "proxy", 0, 0, 0, fileMB, 0, 0, time.Minute, time.Minute, true, 4, 0, false,
		stats.DiskIOProbeConfig{}, storage.DefaultSyncBatchOption,
	)
	rpc := pb.NewGrpcServer(security.LoadServerTLS(util.GetViper(), "grpc.volume"))
	volume_server_pb.RegisterVolumeServerServer(rpc, volume)
	return o.serve(o.volume, requests, rpc)
}
