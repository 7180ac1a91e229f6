// The official Go SDK as a judge of the simulated Triton: a tour through everything that a controller manager uses,
// over TCP.
//
// TRITON_URL, TRITON_ACCOUNT and TRITON_KEY_ID as for everything that is built on this SDK; the key is
// $HOME/.ssh/id_rsa.
package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	triton "github.com/joyent/triton-go"
	"github.com/joyent/triton-go/account"
	"github.com/joyent/triton-go/authentication"
	"github.com/joyent/triton-go/compute"
	"github.com/joyent/triton-go/errors"
	"github.com/joyent/triton-go/network"

	"bowline/e2e/judge"
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
	account *account.AccountClient
	compute *compute.ComputeClient
	network *network.NetworkClient
	judge.Checks
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	t := &tour{Context: ctx}
	config := t.config(os.Getenv("TRITON_ACCOUNT"))
	var err error
	t.account, err = account.NewClient(config)
	t.Must("a client of the account", err)
	t.compute, err = compute.NewClient(config)
	t.Must("a client of machines", err)
	t.network, err = network.NewClient(config)
	t.Must("a client of networks", err)
	for _, part := range []func(*tour){catalogue, machines, lives, labels, networks, rules, refusals} {
		part(t)
	}
	t.Verdict("triton-go")
}

// config signs with the key of the person who judges.
func (t *tour) config(login string) *triton.ClientConfig {
	key, err := os.ReadFile(filepath.Join(os.Getenv("HOME"), ".ssh", "id_rsa"))
	t.Must("read the key", err)
	signer, err := authentication.NewPrivateKeySigner(authentication.PrivateKeySignerInput{
		KeyID: os.Getenv("TRITON_KEY_ID"), PrivateKeyMaterial: key, AccountName: login,
	})
	t.Must("use the key", err)
	return &triton.ClientConfig{
		TritonURL: os.Getenv("TRITON_URL"), AccountName: login, Signers: []authentication.Signer{signer},
	}
}

// refused checks an error's code and a fragment of its message.
func (t *tour) refused(what string, err error, code, fragment string) {
	right := err != nil && errors.IsSpecificError(err, code) && strings.Contains(err.Error(), fragment)
	t.Check(right, "%s: wanted %s, …%s…, got %v", what, code, fragment, err)
}

// until waits for something to become true of a machine, and returns the machine.
func (t *tour) until(what, id string, right func(*compute.Instance) bool) *compute.Instance {
	for {
		seen, err := t.compute.Instances().Get(t, &compute.GetInstanceInput{ID: id})
		if err != nil {
			t.Must(what, err)
		}
		if right(seen) {
			t.Passed++
			return seen
		}
		time.Sleep(pause)
	}
}
