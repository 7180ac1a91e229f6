// The official Go SDK as a judge of the simulated cloudscale.ch: a tour through everything that a
// controller manager uses, over TCP.
//
// CLOUDSCALE_API_URL is the root of the API without /v1, as for everything that is built on this SDK.
package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/cloudscale-ch/cloudscale-go-sdk/v6"

	"bowline/e2e/judge"
)

// limit bounds the whole tour, which takes seconds.
const limit = 2 * time.Minute

// pause is the time between two looks at something that changes.
const pause = 50 * time.Millisecond

// tour is one walk through the API, which counts what it finds right and wrong.
type tour struct {
	context.Context
	*cloudscale.Client
	judge.Checks
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	t := &tour{Context: ctx, Client: client("read-and-write")}
	for _, part := range []func(*tour){
		networks, servers, floatingIPs, balancers, children, health, places, refusals, tokens,
	} {
		part(t)
	}
	t.Verdict("cloudscale-go-sdk")
}

// client speaks with that token.
func client(token string) *cloudscale.Client {
	c := cloudscale.NewClient(http.DefaultClient)
	c.AuthToken = token
	return c
}

// refused checks the status of an error and a fragment of its message.
func (t *tour) refused(what string, err error, status int, key, fragment string) {
	var answer *cloudscale.ErrorResponse
	right := errors.As(err, &answer) && answer.StatusCode == status && len(answer.Message) == 1
	if right {
		message, named := answer.Message[key]
		right = named && message != "" && strings.Contains(message, fragment)
	}
	t.Check(right, "%s: wanted %d, %s: …%s…, got %#v", what, status, key, fragment, err)
}

// quickly makes the SDK look often.
func quickly() backoff.RetryOption {
	return backoff.WithBackOff(backoff.NewConstantBackOff(pause))
}

// pointer is where requests want one.
func pointer[T any](value T) *T {
	return &value
}
