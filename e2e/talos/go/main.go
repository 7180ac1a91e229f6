// The official Go client as a judge of the simulated Talos machines: a tour through everything that a
// controller manager uses, over TCP.
//
// TALOSCONFIG is what the simulator wrote. TALOS_CONTROL is its control handle (http://…); without it the parts
// are left out that only a simulator has, so that the tour can also be taken on the official server
// (server/), which shows that its expectations are right.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/client/config"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// limit bounds the whole tour, which takes seconds.
const limit = 2 * time.Minute

// tour is one walk through the API, which counts what it finds right and wrong.
type tour struct {
	context.Context
	*client.Client
	raw            v1alpha1.StateClient
	control        string
	passed, failed int
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
	fmt.Printf("machinery: %d checks passed, %d failed\n", t.passed, t.failed)
	if t.failed > 0 {
		os.Exit(1)
	}
}

// open reads the file with the official code, and connects.
func (t *tour) open() {
	file, err := config.Open(os.Getenv("TALOSCONFIG"))
	t.must("read the talosconfig", err)
	t.equal("the active context", file.Context, "default")
	context := file.Contexts["default"]
	t.check(context != nil && len(context.Endpoints) > 0, "there are endpoints: %v", context)
	if t.control != "" {
		t.equal("the name of the cluster", context.Cluster, "judged")
	}
	t.Client, err = client.New(t, client.WithConfig(file))
	t.must("make a client", err)
	t.raw = v1alpha1.NewStateClient(t.Conn())
}

// on is a context for calls to that machine.
func (t *tour) on(node string) context.Context { return client.WithNode(t, node) }

// check counts, and says what was wrong.
func (t *tour) check(right bool, format string, arguments ...any) {
	if right {
		t.passed++
		return
	}
	t.failed++
	fmt.Printf("FAILED %s: %s\n", place(), fmt.Sprintf(format, arguments...))
}

// equal checks that two values are the same through and through.
func (t *tour) equal(what string, got, want any) {
	t.check(reflect.DeepEqual(got, want), "%s\n  got:  %#v\n  want: %#v", what, got, want)
}

// must checks that something worked; the tour cannot go on without it.
func (t *tour) must(what string, err error) {
	if err == nil {
		t.passed++
		return
	}
	fmt.Printf("FAILED %s: %s: %v\nthe tour ends here after %d checks\n", place(), what, err, t.passed)
	os.Exit(1)
}

// refused checks the code of an error, and its whole text.
func (t *tour) refused(what string, err error, code codes.Code, text string) {
	told := status.Convert(err)
	right := err != nil && told.Code() == code && told.Message() == text
	t.check(right, "%s\n  got:  %s %q\n  want: %s %q", what, told.Code(), told.Message(), code, text)
}

// place is the line of the tour that checks, which the helpers above are not.
func place() string {
	for skip := 1; ; skip++ {
		function, file, line, known := runtime.Caller(skip)
		if !known {
			return "?"
		}
		name := runtime.FuncForPC(function).Name()
		if !strings.HasPrefix(name, "main.(*tour)") && name != "main.place" {
			return fmt.Sprintf("%s:%d", file[strings.LastIndex(file, "/")+1:], line)
		}
	}
}
