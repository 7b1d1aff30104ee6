// Package azure stands in for a cloud that the server of tests can't reach.
package azure

import (
	"errors"
	"net/http"

	"github.com/seaweedfs/seaweedfs/weed/pb/remote_pb"
	"github.com/seaweedfs/seaweedfs/weed/remote_storage"
)

// MakeWithHTTPClient makes none.
func MakeWithHTTPClient(*remote_pb.RemoteConf, *http.Client) (remote_storage.RemoteStorageClient, error) {
	return nil, errors.New("this server has no remote storage")
}
