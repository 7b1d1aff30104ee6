//go:build !linux

package e2e

import "syscall"

func diesWithTest() *syscall.SysProcAttr { return nil }
