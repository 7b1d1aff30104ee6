// Package geesefs makes durable folders available by the program geesefs
// (https://github.com/yandex-cloud/geesefs, version 0.43 or later), which
// mounts a prefix of a bucket as a FUSE file system. The program is not part of
// this package and has to be installed, with fusermount3.
//
// [Server] runs it on this host, as a child for each folder; package mount's
// Host makes a Mounter of it. [Inside] runs it in sandboxes that nothing can be
// bound into, where the image has it.
//
//	server, err := geesefs.New(geesefs.Config{Signer: signer, Dir: "/run/myapp/geesefs"})
//	if err != nil { … }
//	defer server.Close()
//
// # Credentials
//
// The program has credentials for one folder only, and none of them is in its
// arguments or its environment. It is given a profile whose
// credential_process prints a file, and runs that again each time the expiry
// that the file tells has passed: that is how they are renewed under a live
// mount ([mount.Renewer]). What prints is cat: it takes a few
// milliseconds, reads one file and has nothing to break, while the host's own
// program, run again, would first have to know that it is not to start as the
// host. The file has mode 0600, lies in a directory of mode 0700 that belongs
// to this process, is replaced as a whole, and is gone when the folder is no
// longer served. A process of a confined sandbox on this host sees neither the program nor the file. One that
// is not confined runs as the host's user, and can read both: there an agent has
// what the credentials of every folder open that is served meanwhile. In a sandbox, who has the user id that the program runs as
// can read it: the agent has there what its folder's credentials open.
//
// # What such a folder is not
//
// Object storage has no links, modes, owners or times of its own, and geesefs
// keeps them as metadata that a listing does not return. So on a plain S3
// server, in a directory that is listed before its files are looked at one by
// one, after every mount anew: symbolic links show as empty files, and modes,
// owners and times are the defaults. [Limits] says so to programs.
// There are no hard links at all. A workspace with node_modules, virtual
// environments or a checkout of git does not belong here; an agent's notes and
// documents do.
//
// A database does not belong here either. SQLite in WAL mode hangs, for there
// is no shared memory, and no other mode is safe, for locks hold on one host
// only and the last writer of a file wins.
//
// # Working directories of sessions
//
// Such a folder may be one ([mount.Manager.CarryWorkdir]), for what is said above to belong
// here. The lock lets one process of the host in at a time. The program knows nothing of it: what it
// had under way when the lock was lost, or when the host's process died, may land
// after somebody else has begun to write. That is why a [Server] does not say
// that its folders are fenced ([mount.Fencer]), and the outcome shows it.
//
// # When a file is in the storage
//
// A file is written out when it is closed, but a close does not wait for that,
// and does not tell where it failed. fsync does both: who must know calls it.
// Stop waits for all that was written. When the host's process dies, the program writes
// out what is on its way and ends; when the program or the machine dies, what
// was closed in the last moments and not synced is lost.
//
// Other hosts see a file once their caches forget what was there before, after
// about a minute, or at once after Refresh.
//
// Hosts are Linux. Elsewhere [Server] answers sandbox.ErrUnsupported.
package geesefs
