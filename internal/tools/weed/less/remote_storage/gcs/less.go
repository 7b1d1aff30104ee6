// Package gcs stands in for a cloud that the server of tests can't reach.
package gcs

import (
	"errors"
	"net/http"

	"github.com/seaweedfs/seaweedfs/weed/pb/remote_pb"
	"github.com/seaweedfs/seaweedfs/weed/remote_storage"
)

// MakeWithHTTPClient makes none.
func MakeWithHTTPClient(*remote_pb.RemoteConf, *http.Client, ...string) (remote_storage.RemoteStorageClient, error) {
	return nil, errors.New("this server has no remote storage")
}

// StaticKeyCredentialTypes are none.
var StaticKeyCredentialTypes []string

// ParseInlineCredentials takes none.
func ParseInlineCredentials(string) (credType, tokenURL string, err error) {
	return "", "", errors.New("this server has no remote storage")
}
