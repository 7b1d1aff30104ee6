package e2e

import "syscall"

// diesWithTest ends a replica with the test's process, however that ends.
func diesWithTest() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
