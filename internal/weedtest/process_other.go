//go:build !linux

package weedtest

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
