package sqlite

import "syscall"

// networkFS names the file system of a folder if it is one of those whose
// locks or shared memory can't be relied on between processes or hosts.
// FUSE is among them whatever is behind it, for it can't be told.
func networkFS(folder string) (string, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return "", err
	}
	return networkName(uint32(s.Type)), nil
}

// networkName names a file system by its magic number, as in statfs(2); "" = it is none of them.
func networkName(magic uint32) string {
	switch magic {
	case 0x6969:
		return "nfs"
	case 0x517B:
		return "smb"
	case 0xFF534D42, 0xFE534D42:
		return "cifs"
	case 0x01021997:
		return "9p"
	case 0x65735546:
		return "fuse"
	case 0x5346414F, 0x6B414653:
		return "afs"
	case 0x73757245:
		return "coda"
	case 0x564C:
		return "ncp"
	case 0x00C36400:
		return "ceph"
	case 0x0BD00BD0:
		return "lustre"
	case 0x01161970:
		return "gfs2"
	case 0x7461636F:
		return "ocfs2"
	}
	return ""
}
