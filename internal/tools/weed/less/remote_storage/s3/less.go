// Package s3 stands in for a cloud that the server of tests can't reach.
package s3

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

// S3CompatibleEndpoint knows none.
func S3CompatibleEndpoint(*remote_pb.RemoteConf) (string, bool) { return "", false }

// UsesDefaultCredentialChain says no.
func UsesDefaultCredentialChain(*remote_pb.RemoteConf) bool { return false }

// ResolvedCredentials finds none.
func ResolvedCredentials(*remote_pb.RemoteConf) (accessKey, secretKey string, ok bool) {
	return "", "", false
}
