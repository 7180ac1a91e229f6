package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// A server that was asked to stop and does not is killed after this. An API server closes its watches
// at once and is gone in about a second.
const patience = 20 * time.Second

// How much of a log is shown when a server fails: enough for a flag error with its reason.
const tailLength = 2000

// process is one running server.
type process struct {
	name    string
	command *exec.Cmd
	logFile string
	// Closed when the process is gone.
	done chan struct{}
	// Set before we end it ourselves, so that its end is no failure.
	wanted atomic.Bool
	// Whether it served once; guarded by the plane's state.
	ready bool
}

// spawner runs what starts processes. The kernel sends a child's death signal when the *thread* that
// started it ends, so that thread must live as long as this program: it is kept by a goroutine that
// never lets go of it.
var spawner = func() chan func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for step := range work {
			step()
		}
	}()
	return work
}()

// spawn starts a server. Its output is appended to FOLDER/NAME.log.
func spawn(folder, name, path string, arguments []string) (*process, error) {
	logFile := filepath.Join(folder, name+".log")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := &exec.Cmd{
		Path:        path,
		Args:        append([]string{name}, arguments...),
		Dir:         folder,
		Env:         environment(),
		Stdout:      log,
		Stderr:      log,
		SysProcAttr: childAttributes(),
	}
	started := make(chan error)
	spawner <- func() { started <- command.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	child := &process{name: name, command: command, logFile: logFile, done: make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(child.done)
	}()
	return child, nil
}

// environment is ours without what etcd and Kubernetes would take for configuration or a proxy.
func environment() []string {
	kept := []string{"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH")}
	for _, name := range []string{"TMPDIR", "GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG"} {
		if value, set := os.LookupEnv(name); set {
			kept = append(kept, name+"="+value)
		}
	}
	return kept
}

// stop asks the process to end, and insists.
func (p *process) stop(signal syscall.Signal) {
	p.wanted.Store(true)
	_ = p.command.Process.Signal(signal)
	select {
	case <-p.done:
	case <-time.After(patience):
		_ = p.command.Process.Kill()
		<-p.done
	}
}

// tail is the end of the log.
func (p *process) tail() string {
	content, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	if len(content) > tailLength {
		content = content[len(content)-tailLength:]
	}
	return string(bytes.TrimSpace(content))
}
