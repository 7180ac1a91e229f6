// Control-plane runs a Kubernetes control plane on loopback: etcd, kube-apiserver and, on request,
// kube-controller-manager. All three are linked into this program, which runs itself once for each,
// under its name. See README.md.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

const usage = `usage: control-plane [FLAGS]              run until the standard input ends or SIGTERM comes
       control-plane control SOCKET WORDS  send one command, print its answer

flags:
`

func main() {
	if server := servers[filepath.Base(os.Args[0])]; server != nil {
		server()
		return
	}
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "control-plane:", err)
		os.Exit(1)
	}
}

func command(arguments []string) error {
	if len(arguments) > 0 && arguments[0] == "control" {
		if len(arguments) < 3 {
			return errors.New("control needs the path of a socket and a command")
		}
		return control(arguments[1], arguments[2:])
	}
	flags := flag.NewFlagSet("control-plane", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	options := options{}
	flags.StringVar(&options.folder, "folder", "", "keep certificates, kubeconfigs, logs and data in this new or empty `folder` "+
		"(default a temporary one, removed at the end)")
	flags.BoolVar(&options.audit, "audit", false, "log every request's metadata to audit.log in the folder")
	flags.BoolVar(&options.manager, "controller-manager", false, "start kube-controller-manager too")
	flags.BoolVar(&options.stay, "stay", false, "run on when the standard input ends")
	if err := flags.Parse(arguments); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; --help tells what there is", flags.Arg(0))
	}
	return run(options)
}

// options of a run.
type options struct {
	folder               string
	audit, manager, stay bool
}

func run(options options) error {
	// A reader that went away is no reason to leave servers and files behind.
	signal.Ignore(syscall.SIGPIPE)
	end := make(chan struct{})
	stop := sync.OnceFunc(func() { close(end) })
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() { <-signals; stop() }()

	folder, remove, err := prepareFolder(options.folder)
	if err != nil {
		return err
	}
	defer remove()
	made, err := newPlane(folder, options.audit)
	if err != nil {
		return err
	}
	defer made.stopAll()

	// The parent may go away at any time, also during the start.
	stdin, lines := io.Pipe()
	go func() {
		_, _ = io.Copy(lines, os.Stdin)
		if !options.stay {
			stop()
		}
		_ = lines.Close()
	}()
	started := make(chan error, 1)
	go func() { started <- made.startAll(options.manager) }()
	select {
	case err := <-started:
		if err != nil {
			return err
		}
	case <-end:
		return nil
	}

	if err := made.listen(stop); err != nil {
		return err
	}
	go made.serve(stdin, os.Stdout, stop)
	select {
	case <-end:
		return nil
	case child := <-made.failed:
		return fmt.Errorf("%s ended by itself (%s); the end of its log:\n%s", child.name, child.command.ProcessState, child.tail())
	}
}

// prepareFolder gives the folder, and what to do with it at the end.
func prepareFolder(wanted string) (string, func(), error) {
	if wanted == "" {
		folder, err := os.MkdirTemp("", "control-plane-")
		return folder, func() { _ = os.RemoveAll(folder) }, err
	}
	folder, err := filepath.Abs(wanted)
	if err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", nil, err
	}
	entries, err := os.ReadDir(folder)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("the folder %s is not empty", folder)
	}
	return folder, func() {}, err
}

func (p *plane) startAll(manager bool) error {
	wanted := []string{etcd, apiServer}
	if manager {
		wanted = append(wanted, controllerManager)
	}
	for _, server := range wanted {
		if err := p.start(server, nil); err != nil {
			return err
		}
	}
	return nil
}

// listen serves commands on a socket in the folder, for others than the parent, and says that all is ready.
func (p *plane) listen(shutdown func()) error {
	socket := filepath.Join(p.folder, "control")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				p.serve(connection, connection, shutdown)
			}()
		}
	}()
	version, err := p.version()
	if err != nil {
		return err
	}
	ready := answer{
		"url": p.url(), "kubeconfig": p.adminKubeconfig, "version": version,
		"folder": p.folder, "control": socket,
	}
	if p.audit != "" {
		ready["audit"] = p.audit
	}
	return json.NewEncoder(os.Stdout).Encode(ready)
}

// control sends one command and prints its answer; an answer that is an error makes it fail.
func control(socket string, words []string) error {
	connection, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer connection.Close()
	if _, err := fmt.Fprintln(connection, strings.Join(words, " ")); err != nil {
		return err
	}
	line, err := bufio.NewReader(connection).ReadString('\n')
	if errors.Is(err, io.EOF) && line == "" && words[0] == "shutdown" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	var failure struct {
		Error string `json:"error"`
	}
	if json.Unmarshal([]byte(line), &failure) == nil && failure.Error != "" {
		return errors.New(failure.Error)
	}
	fmt.Print(line)
	return nil
}
