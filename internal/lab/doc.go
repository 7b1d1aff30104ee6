// Package lab holds no code. Its tests take the whole path of a folder, on real
// components: credentials that the STS of an S3 server mints and refuses once
// they have expired, a FUSE file system, and processes that are killed.
//
// The server is SeaweedFS (see weedtest). What mounts is geesefs where that is
// on PATH, else the stand-in for it, internal/tools/geesefs.
//
// By default credentials live for seconds, which the server grants only to who
// asks for no time. With those that a host gets, of fifteen minutes at the least,
//
//	make soak
//
// takes half an hour.
package lab
