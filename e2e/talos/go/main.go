// The official Go client as a judge of the simulated Talos machines: a tour through everything that a
// controller manager uses, over TCP.
//
// TALOSCONFIG is what the simulator wrote. TALOS_CONTROL is its control handle (http://…); without it the parts
// are left out that only a simulator has, so that the tour can also be taken on the official server
// (server/), which shows that its expectations are right.
package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/client/config"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bowline/e2e/judge"
)

// limit bounds the whole tour, which takes seconds.
const limit = 2 * time.Minute

// tour is one walk through the API, which counts what it finds right and wrong.
type tour struct {
	context.Context
	*client.Client
	raw     v1alpha1.StateClient
	control string
	judge.Checks
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	t := &tour{Context: ctx, control: strings.TrimSuffix(os.Getenv("TALOS_CONTROL"), "/")}
	t.open()
	parts := []func(*tour){versions, platforms, systems, addresses, clusters, watches, headers, missing}
	if t.control != "" {
		parts = append(parts, refusals, definitions, roles, certificates, rotation, stages)
	}
	for _, part := range parts {
		part(t)
	}
	t.Verdict("machinery")
}

// open reads the file with the official code, and connects.
func (t *tour) open() {
	file, err := config.Open(os.Getenv("TALOSCONFIG"))
	t.Must("read the talosconfig", err)
	t.Equal("the active context", file.Context, "default")
	context := file.Contexts["default"]
	t.Check(context != nil && len(context.Endpoints) > 0, "there are endpoints: %v", context)
	if t.control != "" {
		t.Equal("the name of the cluster", context.Cluster, "judged")
	}
	t.Client, err = client.New(t, client.WithConfig(file))
	t.Must("make a client", err)
	t.raw = v1alpha1.NewStateClient(t.Conn())
}

// on is a context for calls to that machine.
func (t *tour) on(node string) context.Context { return client.WithNode(t, node) }

// refused checks the code of an error, and its whole text.
func (t *tour) refused(what string, err error, code codes.Code, text string) {
	told := status.Convert(err)
	right := err != nil && told.Code() == code && told.Message() == text
	t.Check(right, "%s\n  got:  %s %q\n  want: %s %q", what, told.Code(), told.Message(), code, text)
}
