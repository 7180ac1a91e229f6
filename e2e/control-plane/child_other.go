//go:build !linux

package main

import "syscall"

// childAttributes: a group of its own, so that Ctrl-C reaches only this program, which then stops
// everything in order. (Only Linux can tie a child's life to ours: elsewhere a SIGKILL to this program
// leaves the servers behind.)
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
