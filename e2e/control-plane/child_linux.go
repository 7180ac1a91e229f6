package main

import "syscall"

// childAttributes: a group of its own, so that Ctrl-C reaches only this program, which then stops
// everything in order; and death with this program, even when that is killed with SIGKILL.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
