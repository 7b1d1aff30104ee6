package weedtest

import "syscall"

// attributes end the server with this process, however that ends.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
