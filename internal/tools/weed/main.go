// Command weed is the part of SeaweedFS that tests use, as one process: its
// master, its volume server, its filer on LevelDB, and S3 with STS and IAM. It
// takes those arguments of "weed server" that internal/weedtest gives, and no others.
//
// It is a program of its own because building the whole of weed takes three
// times as long: weed links every database, queue and cloud that it can be
// used with. Those parts of the packages linked here that reach for one are
// replaced by what lies in the folder less, path by path, before the build.
package main

import (
	"fmt"
	"os"

	"github.com/seaweedfs/seaweedfs/weed/glog"
	"github.com/seaweedfs/seaweedfs/weed/util"
	"github.com/seaweedfs/seaweedfs/weed/util/fla9"
	"github.com/seaweedfs/seaweedfs/weed/util/http"
)

func main() {
	fla9.Parse() // how to log
	args := fla9.Args()
	if len(args) == 0 || args[0] != "server" {
		fmt.Fprintln(os.Stderr, "usage: weed [-logtostderr] server FLAGS")
		os.Exit(2)
	}
	o, err := parse(args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	// By itself it takes no new kinds of files any more once a part remembers another cluster, as after
	// a start at other ports. There is but one here.
	util.GetViper().Set("master.volume_growth.freeze_on_topology_mismatch", false)
	util.SetOutboundLocalIP(o.bind)
	http.InitGlobalHttpClient()
	for _, start := range []struct {
		name string
		part func(options) error
	}{{"master", startMaster}, {"volume server", startVolume}, {"filer", startFiler}, {"S3", startS3}} {
		if err := start.part(o); err != nil {
			glog.Fatalf("%s: %v", start.name, err)
		}
	}
	select {}
}
