// A server of the Talos machine API that is not ours: the resources are kept and served by the official
// runtime, with the official types. It has what that runtime leaves to apid: TLS with client
// certificates, the choice of the machine by header, and Version.
//
//	server -fixture FILE [-listen 127.0.0.1:0] [-folder DIR]
//
// The fixture is that of `bowline simulate talos`, as far as it is about machines and networks. When ready
// it prints one line, {"endpoint": "127.0.0.1:…", "talosconfig": "…"}, and it stops when its input ends.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

func main() {
	fixture := flag.String("fixture", "", "the machines, as for bowline simulate talos")
	listen := flag.String("listen", "127.0.0.1:0", "where to listen")
	folder := flag.String("folder", ".", "where to write the talosconfig")
	flag.Parse()
	if err := run(*fixture, *listen, *folder); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

func run(fixture, listen, folder string) error {
	machines, err := read(fixture)
	if err != nil {
		return err
	}
	pki, err := newAuthority()
	if err != nil {
		return err
	}
	settings, err := pki.server()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	endpoint := listener.Addr().String()
	path, err := filepath.Abs(filepath.Join(folder, "talosconfig"))
	if err != nil {
		return err
	}
	if err := pki.talosconfig(path, endpoint); err != nil {
		return err
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(settings)))
	v1alpha1.RegisterStateServer(server, &router{machines: machines})
	machine.RegisterMachineServiceServer(server, &versions{machines: machines})
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"endpoint": endpoint, "talosconfig": path}); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	return server.Serve(listener)
}
