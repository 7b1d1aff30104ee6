// Package shell stands in for the commands that a master runs on a timetable:
// there are none.
package shell

import (
	"io"

	"google.golang.org/grpc"

	"github.com/seaweedfs/seaweedfs/weed/pb"
	"github.com/seaweedfs/seaweedfs/weed/wdclient"
)

// ResourceHeavy is a tag of commands.
const ResourceHeavy = "resource-heavy"

// Command is one of none.
type Command interface {
	Name() string
	HasTag(tag string) bool
	Do(args []string, env *CommandEnv, out io.Writer) error
}

// Commands are all there are.
var Commands []Command

// ShellOptions are what commands would be run with.
type ShellOptions struct {
	GrpcDialOption grpc.DialOption
	Masters        *string
	FilerGroup     *string
	FilerAddress   pb.ServerAddress
	Directory      string
}

// CommandEnv is what commands would be run in.
type CommandEnv struct{ MasterClient *wdclient.MasterClient }

// NewCommandEnv is for a server that was told to run commands, which this one is not.
func NewCommandEnv(*ShellOptions) *CommandEnv { panic("this server has no commands") }

// SetNoLock changes nothing.
func (*CommandEnv) SetNoLock(bool) {}
