package weedtest

import (
	"encoding/base64"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	loopback = "127.0.0.1"
	provider = "issuer" // the name of the issuer at the server
)

// ports are those the server listens at.
type ports struct{ master, masterRPC, volume, volumeRPC, filer, filerRPC, s3, s3RPC int }

// freePorts are some that nobody listens at now.
func freePorts() (ports, error) {
	var p ports
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	for _, port := range []*int{&p.master, &p.masterRPC, &p.volume, &p.volumeRPC, &p.filer, &p.filerRPC, &p.s3, &p.s3RPC} {
		l, err := net.Listen("tcp", loopback+":0")
		if err != nil {
			return p, err
		}
		held = append(held, l)
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return p, nil
}

// arguments start a server that listens at these ports and no others, calls
// nobody outside, and has its sockets in dir.
func arguments(dir, data, config string, p ports) []string {
	args := []string{
		"server", "-ip=" + loopback, "-ip.bind=" + loopback, "-dir=" + data,
		"-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=40", "-volume.preStopSeconds=0",
		// By itself it refuses to write on a disk that is 99 % full, which leaves gigabytes of a large one.
		"-volume.minFreeSpace=16MiB",
		"-filer", "-filer.localSocket=" + filepath.Join(dir, "filer.sock"),
		"-s3", "-s3.localSocket=" + filepath.Join(dir, "s3.sock"), "-s3.port.iceberg=0", "-s3.port.lance=0",
		"-s3.config=" + config, "-s3.iam.config=" + config,
	}
	for _, f := range []struct {
		name string
		port int
	}{
		{"master.port", p.master}, {"master.port.grpc", p.masterRPC}, {"volume.port", p.volume}, {"volume.port.grpc", p.volumeRPC},
		{"filer.port", p.filer}, {"filer.port.grpc", p.filerRPC}, {"s3.port", p.s3}, {"s3.port.grpc", p.s3RPC},
	} {
		args = append(args, "-"+f.name+"="+strconv.Itoa(f.port))
	}
	return args
}

// writeConfig writes who may what: nobody anything, but the user and the role.
func writeConfig(name, issuer string, ttl time.Duration) error {
	type object = map[string]any
	type list = []any
	allow := func(actions, resource string) object {
		return object{"Effect": "Allow", "Action": list{actions}, "Resource": list{resource}}
	}
	// A role that anybody may assume could be assumed with a folder's own
	// credentials, and then opens the whole bucket.
	trust := object{"Version": "2012-10-17", "Statement": list{
		object{"Effect": "Allow", "Principal": object{"AWS": "arn:aws:iam::000000000000:user/admin"}, "Action": list{"sts:AssumeRole"}},
		object{"Effect": "Allow", "Principal": object{"Federated": provider}, "Action": list{"sts:AssumeRoleWithWebIdentity"}},
	}}
	text, err := json.Marshal(object{
		"identities": list{object{
			"name": "admin", "actions": list{"Admin", "Read", "Write", "List", "Tagging"},
			"credentials": list{object{"accessKey": AccessKey, "secretKey": SecretKey}},
		}},
		"sts": object{
			"tokenDuration": ttl.String(), "maxSessionLength": "12h", "issuer": "weedtest",
			"signingKey": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))),
		},
		"providers": list{object{"name": provider, "type": "oidc", "enabled": true, "config": object{
			"issuer": issuer, "clientId": Audience, "jwksUri": issuer + "/.well-known/jwks.json",
		}}},
		"policy": object{"defaultEffect": "Deny", "storeType": "memory"},
		"policies": list{object{"name": "All", "document": object{"Version": "2012-10-17", "Statement": list{
			allow("s3:*", "*"),
		}}}},
		"roles": list{object{"roleName": "weedtest", "roleArn": Role, "trustPolicy": trust, "attachedPolicies": list{"All"}}},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o600)
}

// versionIn is the version of the program in the text of the go.mod it is built by.
func versionIn(mod string) (string, bool) {
	for line := range strings.Lines(mod) {
		fields := strings.Fields(line)
		if len(fields) > 0 && fields[0] == "require" {
			fields = fields[1:]
		}
		if len(fields) >= 2 && fields[0] == "github.com/seaweedfs/seaweedfs" {
			return fields[1], true
		}
	}
	return "", false
}
