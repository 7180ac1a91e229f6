package main

import (
	"fmt"
	"path/filepath"
)

const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
)

// arguments are the flags of a server. What kubeadm sets is set the same way, so that clients meet what
// they meet in a cluster; the rest is for speed, and for life on loopback without nodes.
func (p *plane) arguments(server string) []string {
	switch server {
	case etcd:
		return p.etcdArguments()
	case apiServer:
		return p.apiServerArguments()
	default:
		return p.controllerManagerArguments()
	}
}

func (p *plane) etcdArguments() []string {
	return []string{
		"--data-dir=" + filepath.Join(p.folder, "etcd"),
		"--listen-client-urls=" + p.etcdURL(),
		"--advertise-client-urls=" + p.etcdURL(),
		// It has no peers: any port will do.
		"--listen-peer-urls=http://127.0.0.1:0",
		"--client-cert-auth",
		"--trusted-ca-file=" + p.etcdAuthority.files.certificateFile,
		"--cert-file=" + p.etcdServer.certificateFile,
		"--key-file=" + p.etcdServer.keyFile,
		"--log-level=warn",
		// The data does not outlive the program.
		"--unsafe-no-fsync",
	}
}

func (p *plane) apiServerArguments() []string {
	arguments := []string{
		"--etcd-servers=" + p.etcdURL(),
		"--etcd-cafile=" + p.etcdAuthority.files.certificateFile,
		"--etcd-certfile=" + p.etcdClient.certificateFile,
		"--etcd-keyfile=" + p.etcdClient.keyFile,

		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", p.ports[apiServer]),
		"--advertise-address=127.0.0.1",
		// Endpoints must not be loopback addresses, and ours is no other.
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + p.apiServerServing.certificateFile,
		"--tls-private-key-file=" + p.apiServerServing.keyFile,
		"--service-cluster-ip-range=10.96.0.0/12",

		"--client-ca-file=" + p.authority.files.certificateFile,
		"--requestheader-client-ca-file=" + p.frontProxyAuthority.files.certificateFile,
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p.signingKey,
		"--service-account-signing-key-file=" + p.signingKey,

		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		// It refuses Pods as long as their namespace has no default account, which only
		// kube-controller-manager makes.
		"--disable-admission-plugins=ServiceAccount",
		"--allow-privileged=true",
		// On SIGTERM, end open watches. Otherwise it stops listening and then waits up to a minute for them.
		"--shutdown-watch-termination-grace-period=1s",
		"--profiling=false",
	}
	if p.audit != "" {
		arguments = append(arguments, "--audit-policy-file="+p.auditPolicy, "--audit-log-path="+p.audit)
	}
	return arguments
}

func (p *plane) controllerManagerArguments() []string {
	return []string{
		"--kubeconfig=" + p.controllerManagerKubeconfig,
		"--authentication-kubeconfig=" + p.controllerManagerKubeconfig,
		"--authorization-kubeconfig=" + p.controllerManagerKubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", p.ports[controllerManager]),
		"--tls-cert-file=" + p.apiServerServing.certificateFile,
		"--tls-private-key-file=" + p.apiServerServing.keyFile,
		"--client-ca-file=" + p.authority.files.certificateFile,
		"--requestheader-client-ca-file=" + p.frontProxyAuthority.files.certificateFile,
		"--root-ca-file=" + p.authority.files.certificateFile,
		"--cluster-signing-cert-file=" + p.authority.files.certificateFile,
		"--cluster-signing-key-file=" + p.authority.files.keyFile,
		"--service-account-private-key-file=" + p.signingKey,
		"--use-service-account-credentials=true",
		// There is no second one.
		"--leader-elect=false",
		"--profiling=false",
	}
}

func (p *plane) url() string     { return p.loopback(apiServer) }
func (p *plane) etcdURL() string { return p.loopback(etcd) }
func (p *plane) loopback(server string) string {
	return fmt.Sprintf("https://127.0.0.1:%d", p.ports[server])
}
