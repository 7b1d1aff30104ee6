package sqlite

import "testing"

// The magic numbers of statfs(2) that stand for network file systems, and some that don't.
func TestNetworkNames(t *testing.T) {
	for magic, want := range map[uint32]string{
		0x6969: "nfs", 0x517B: "smb", 0xFF534D42: "cifs", 0xFE534D42: "cifs", 0x01021997: "9p", 0x65735546: "fuse",
		0xEF53: "", 0x58465342: "", 0x9123683E: "", 0x01021994: "", 0x794C7630: "", 0x2FC12FC1: "", // ext4, xfs, btrfs, tmpfs, overlay, zfs
	} {
		if got := networkName(magic); got != want {
			t.Errorf("%#x is %q, want %q", magic, got, want)
		}
	}
	if _, err := networkFS("/no/such/folder"); err == nil {
		t.Error("a folder that is not there has a file system")
	}
}
