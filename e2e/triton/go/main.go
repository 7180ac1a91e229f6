// The official Go SDK as a judge of the simulated Triton: a tour through everything that a controller manager uses,
// over TCP.
//
// TRITON_URL, TRITON_ACCOUNT and TRITON_KEY_ID as for everything that is built on this SDK; the key is
// $HOME/.ssh/id_rsa.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"time"

	triton "github.com/joyent/triton-go"
	"github.com/joyent/triton-go/account"
	"github.com/joyent/triton-go/authentication"
	"github.com/joyent/triton-go/compute"
	"github.com/joyent/triton-go/errors"
	"github.com/joyent/triton-go/network"
)

// limit bounds the whole tour, which takes a few seconds.
const limit = 2 * time.Minute

// pause is the time between two looks at something that changes.
const pause = 50 * time.Millisecond

const (
	first   = "5b1e2d3c-0000-4000-8000-000000000001"
	unknown = "00000000-0000-4000-8000-000000000000"
	fabric  = "22222222-2222-4222-8222-222222222222"
	image   = "44444444-4444-4444-8444-444444444444"
)

// tour is one walk through the API, which counts what it finds right and wrong.
type tour struct {
	context.Context
	account        *account.AccountClient
	compute        *compute.ComputeClient
	network        *network.NetworkClient
	passed, failed int
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	t := &tour{Context: ctx}
	config := t.config(os.Getenv("TRITON_ACCOUNT"))
	var err error
	t.account, err = account.NewClient(config)
	t.must("a client of the account", err)
	t.compute, err = compute.NewClient(config)
	t.must("a client of machines", err)
	t.network, err = network.NewClient(config)
	t.must("a client of networks", err)
	for _, part := range []func(*tour){catalogue, machines, lives, labels, networks, rules, refusals} {
		part(t)
	}
	fmt.Printf("triton-go: %d checks passed, %d failed\n", t.passed, t.failed)
	if t.failed > 0 {
		os.Exit(1)
	}
}

// config signs with the key of the person who judges.
func (t *tour) config(login string) *triton.ClientConfig {
	key, err := os.ReadFile(filepath.Join(os.Getenv("HOME"), ".ssh", "id_rsa"))
	t.must("read the key", err)
	signer, err := authentication.NewPrivateKeySigner(authentication.PrivateKeySignerInput{
		KeyID: os.Getenv("TRITON_KEY_ID"), PrivateKeyMaterial: key, AccountName: login,
	})
	t.must("use the key", err)
	return &triton.ClientConfig{
		TritonURL: os.Getenv("TRITON_URL"), AccountName: login, Signers: []authentication.Signer{signer},
	}
}

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

// refused checks an error's code and a fragment of its message.
func (t *tour) refused(what string, err error, code, fragment string) {
	right := err != nil && errors.IsSpecificError(err, code) && strings.Contains(err.Error(), fragment)
	t.check(right, "%s: wanted %s, …%s…, got %v", what, code, fragment, err)
}

// until waits for something to become true of a machine, and returns the machine.
func (t *tour) until(what, id string, right func(*compute.Instance) bool) *compute.Instance {
	for {
		seen, err := t.compute.Instances().Get(t, &compute.GetInstanceInput{ID: id})
		if err != nil {
			t.must(what, err)
		}
		if right(seen) {
			t.passed++
			return seen
		}
		time.Sleep(pause)
	}
}

// place is the line of the tour that checks, which the helpers above are not.
func place() string {
	for skip := 1; ; skip++ {
		function, file, line, known := runtime.Caller(skip)
		if !known {
			return "somewhere"
		}
		if !strings.Contains(runtime.FuncForPC(function).Name(), "(*tour)") {
			return fmt.Sprintf("%s:%d", filepath.Base(file), line)
		}
	}
}
