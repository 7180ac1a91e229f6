package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A cold start takes three to six seconds on two cores; a machine that compiles at the same time is
// several times slower.
const readyWithin = 3 * time.Minute

// Pause between two looks whether a server is ready.
const lookEvery = 50 * time.Millisecond

// Ports are drawn from below the range that Linux and macOS give to outgoing connections, so that nobody
// gets the port while the server that owns it is being restarted.
const firstPort, portCount = 20000, 10000

var errStopped = errors.New("the control plane is being stopped")

// plane is the control plane: its files, its ports and its processes.
type plane struct {
	folder string
	// Folder of the servers' programs; empty for those in this program.
	assets string
	ports  map[string]int
	// Path of the audit log; empty for none.
	audit, auditPolicy string

	authority, frontProxyAuthority, etcdAuthority *authority
	apiServerServing, etcdServer, etcdClient      pair
	signingKey                                    string
	adminKubeconfig, controllerManagerKubeconfig  string
	client, etcdHTTP                              *http.Client

	// One command at a time.
	commands sync.Mutex
	// How many kubeconfigs were issued.
	issued int
	// Flags beyond ours, as given with the last start.
	extra map[string][]string

	// Guards the two below.
	state   sync.Mutex
	running map[string]*process
	stopped bool
	// A server that ended without being told to.
	failed chan *process
}

func newPlane(folder string, audit bool) (*plane, error) {
	made := &plane{
		folder:     folder,
		assets:     os.Getenv("KUBEBUILDER_ASSETS"),
		ports:      map[string]int{},
		signingKey: filepath.Join(folder, "service-accounts.key"),
		extra:      map[string][]string{},
		running:    map[string]*process{},
		failed:     make(chan *process, 1),
	}
	if made.assets == "" && len(servers) == 0 {
		return nil, errors.New("this program was built without servers: set KUBEBUILDER_ASSETS to a folder with etcd, " +
			"kube-apiserver and kube-controller-manager, or build it with e2e/control-plane/build")
	}
	for _, server := range []string{etcd, apiServer, controllerManager} {
		port, err := freePort(made.ports)
		if err != nil {
			return nil, err
		}
		made.ports[server] = port
	}
	if audit {
		made.audit = filepath.Join(folder, "audit.log")
		made.auditPolicy = filepath.Join(folder, "audit-policy.yaml")
		policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
		if err := os.WriteFile(made.auditPolicy, []byte(policy), 0o600); err != nil {
			return nil, err
		}
	}
	return made, made.makeCredentials()
}

// freePort finds a port on which nobody listens.
func freePort(taken map[string]int) (int, error) {
	const tries = 100
search:
	for range tries {
		port := firstPort + rand.IntN(portCount)
		for _, other := range taken {
			if other == port {
				continue search
			}
		}
		listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("no free port on loopback after %d tries between %d and %d", tries, firstPort, firstPort+portCount)
}

func (p *plane) makeCredentials() error {
	var err error
	keep := func(made *authority, failure error) *authority { err = errors.Join(err, failure); return made }
	p.authority = keep(newAuthority(p.folder, "kubernetes"))
	p.frontProxyAuthority = keep(newAuthority(p.folder, "front-proxy-ca"))
	p.etcdAuthority = keep(newAuthority(p.folder, "etcd-ca"))
	if err != nil {
		return err
	}
	issue := func(issued pair, failure error) pair { err = errors.Join(err, failure); return issued }
	p.apiServerServing = issue(p.authority.server(p.folder, "kube-apiserver"))
	p.etcdServer = issue(p.etcdAuthority.server(p.folder, "etcd"))
	p.etcdClient = issue(p.etcdAuthority.client(p.folder, "kube-apiserver-etcd-client", "kube-apiserver-etcd-client", nil))
	admin := issue(p.authority.client(p.folder, "admin", "kubernetes-admin", []string{"system:masters"}))
	manager := issue(p.authority.client(p.folder, "kube-controller-manager", "system:kube-controller-manager", nil))
	if err = errors.Join(err, newSigningKey(p.signingKey)); err != nil {
		return err
	}
	p.adminKubeconfig = filepath.Join(p.folder, "admin.kubeconfig")
	p.controllerManagerKubeconfig = filepath.Join(p.folder, "kube-controller-manager.kubeconfig")
	if err = errors.Join(
		p.writeKubeconfig(p.adminKubeconfig, "kubernetes-admin", certificateUser(admin)),
		p.writeKubeconfig(p.controllerManagerKubeconfig, "system:kube-controller-manager", certificateUser(manager)),
	); err != nil {
		return err
	}
	if p.client, err = httpClient(p.authority, admin); err != nil {
		return err
	}
	p.etcdHTTP, err = httpClient(p.etcdAuthority, p.etcdClient)
	return err
}

// start runs a server and waits until it serves. Without extra flags it gets those of its last good start.
func (p *plane) start(server string, extra []string) error {
	if len(extra) == 0 {
		extra = p.extra[server]
	}
	child, err := p.launch(server, append(p.arguments(server), extra...))
	if err != nil {
		return err
	}
	if err := p.await(child); err != nil {
		return err
	}
	p.extra[server] = extra
	return nil
}

func (p *plane) launch(server string, arguments []string) (*process, error) {
	path, err := p.program(server)
	if err != nil {
		return nil, err
	}
	p.state.Lock()
	defer p.state.Unlock()
	if p.stopped {
		return nil, errStopped
	}
	if p.running[server] != nil {
		return nil, fmt.Errorf("%s runs already", server)
	}
	child, err := spawn(p.folder, server, path, arguments)
	if err != nil {
		return nil, err
	}
	p.running[server] = child
	go func() {
		<-child.done
		p.state.Lock()
		defer p.state.Unlock()
		if p.running[server] == child {
			delete(p.running, server)
		}
		// Before it is ready, its end is the business of whoever waits for it.
		if child.ready && !child.wanted.Load() {
			select {
			case p.failed <- child:
			default:
			}
		}
	}()
	return child, nil
}

// program is the path of what runs a server: this very program under another name, or an asset.
func (p *plane) program(server string) (string, error) {
	if p.assets == "" {
		return os.Executable()
	}
	path, err := exec.LookPath(filepath.Join(p.assets, server))
	if err != nil {
		return "", fmt.Errorf("KUBEBUILDER_ASSETS has no %s: put it there, or unset KUBEBUILDER_ASSETS to use the servers "+
			"that e2e/control-plane/build builds: %w", server, err)
	}
	return path, nil
}

// await waits until the server is ready, or gone, or out of time.
func (p *plane) await(child *process) error {
	deadline := time.After(readyWithin)
	for {
		reason := p.notReady(child.name)
		if reason == nil && p.markReady(child) {
			return nil
		}
		select {
		case <-child.done:
			if child.wanted.Load() {
				return errStopped
			}
			return fmt.Errorf("%s ended before it was ready; the end of its log:\n%s", child.name, child.tail())
		case <-deadline:
			return fmt.Errorf("%s was not ready within %s: %w; the end of its log:\n%s", child.name, readyWithin, reason, child.tail())
		case <-time.After(lookEvery):
		}
	}
}

// markReady notes that from now on the server must not end by itself; false if it has already.
func (p *plane) markReady(child *process) bool {
	p.state.Lock()
	defer p.state.Unlock()
	select {
	case <-child.done:
		return false
	default:
		child.ready = true
		return true
	}
}

// stop ends one server; false if it did not run.
func (p *plane) stop(server string, signal syscall.Signal) bool {
	p.state.Lock()
	child := p.running[server]
	delete(p.running, server)
	p.state.Unlock()
	if child == nil {
		return false
	}
	child.stop(signal)
	return true
}

// stopAll ends everything for good. Nothing that they keep is needed any more, so it is done the quick way.
func (p *plane) stopAll() {
	p.state.Lock()
	p.stopped = true
	p.state.Unlock()
	for _, server := range []string{controllerManager, apiServer, etcd} {
		p.stop(server, syscall.SIGKILL)
	}
}
