package mount_test

// hostRootVar is the variable by which this program, run as a child, is a host over that root.
const hostRootVar = "BUNKROOM_TEST_HOST_ROOT"

func hostChild() int { return 0 }
