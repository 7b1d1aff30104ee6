//go:build !linux

package pgtest

import "syscall"

func attributes(owner) *syscall.SysProcAttr { return nil }
