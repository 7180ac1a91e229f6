// The official Go SDK as a judge of the simulated Xen Orchestra: a tour through everything that a controller
// manager uses, over TCP, and through events and the socket with Go's usual libraries.
//
// XOA_URL is where it listens. With XOA_INSECURE it speaks TLS with a certificate that nobody signed, and only
// the SDK's first steps and the socket are judged.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gofrs/uuid"
	"github.com/vatesfr/xenorchestra-go-sdk/pkg/config"
	"github.com/vatesfr/xenorchestra-go-sdk/pkg/payloads"
	"github.com/vatesfr/xenorchestra-go-sdk/pkg/services/library"
	v2 "github.com/vatesfr/xenorchestra-go-sdk/v2"

	"bowline/e2e/judge"
)

// limit bounds the whole tour, which takes less than half a minute.
const limit = 2 * time.Minute

// pause is the time between two looks at something that changes.
const pause = 50 * time.Millisecond

const (
	adminToken  = "Zr3dQd0eKkFQmC2v5o5m7TqVY3xv3Kkq1m8S0cG0w9U"
	readerToken = "reader-token-000000000000000000000000000000"
	nobodyToken = "nobody-token-000000000000000000000000000000"
)

var (
	labPool = id("0b2f7c0e-3c1d-4f55-9d0a-6f1f6c3b7a10")
	drPool  = id("7e5a1d34-90bc-4d2e-8f61-3a2b1c0d9e8f")
	xcp1    = id("6d6f4f6e-7f2b-4e0c-8a86-2f3b8c0f9e21")
	xcp2    = id("2c8b7a90-5e4d-4b3c-9a1f-7d6e5f4c3b2a")
	drHost  = id("94d0c2e1-6b5a-4f7e-8c3d-1a0b9c8d7e6f")
	worker1 = id("c1a9d5b2-4e7f-4a63-9b1d-0f2e3d4c5b6a")
	worker2 = id("9f0e4c6d-1b2a-4f3e-8d7c-5a6b7c8d9e0f")
	halted  = id("3fe665e8-303d-0b4f-83e0-8fdfc1e30eb7")
	unknown = id("00000000-0000-4000-8000-000000000000")
)

func id(text string) uuid.UUID { return uuid.Must(uuid.FromString(text)) }

// tour is one walk through the API, which counts what it finds right and wrong.
type tour struct {
	context.Context
	library.Library
	root string
	judge.Checks
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	t := &tour{Context: ctx, root: os.Getenv("XOA_URL")}
	t.Library = t.client(adminToken)
	parts := []func(*tour){machines, hosts, pools, tags, actions, migrations, refusals, rights, passwords, events, socket}
	if insecure() {
		parts = []func(*tour){certificates, machines, socket}
	}
	for _, part := range parts {
		part(t)
	}
	t.Verdict("xenorchestra-go-sdk")
}

func insecure() bool { return os.Getenv("XOA_INSECURE") != "" }

// client is the SDK with that token.
func (t *tour) client(token string) library.Library {
	c, err := v2.New(&config.Config{
		Url: t.root, Token: token, InsecureSkipVerify: insecure(),
		// What it logs about refusals is expected, and no verdict.
		LogOutputPaths: []string{os.DevNull}, LogErrorOutputPaths: []string{os.DevNull},
	})
	if err != nil {
		panic(err)
	}
	return c
}

// good checks that a call succeeded.
func (t *tour) good(what string, err error) {
	t.Check(err == nil, "%s: %v", what, err)
}

// refused checks that a call failed with that status, and said so.
func (t *tour) refused(what string, err error, status int, fragment string) {
	prefix := fmt.Sprintf("API error: %d ", status)
	t.Check(err != nil && strings.HasPrefix(err.Error(), prefix) && strings.Contains(err.Error(), fragment),
		"%s: got %v, want %s… %s", what, err, prefix, fragment)
}

// until waits for a VM to be as wanted, and returns it.
func (t *tour) until(vm uuid.UUID, what string, wanted func(*payloads.VM) bool) *payloads.VM {
	for {
		found, err := t.VM().GetByID(t, vm)
		if err == nil && wanted(found) {
			t.Passed++
			return found
		}
		if t.Err() != nil {
			t.Check(false, "%s never came: %+v, %v", what, found, err)
			return &payloads.VM{}
		}
		time.Sleep(pause)
	}
}
