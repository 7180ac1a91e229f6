// The official Go SDK as a judge of the simulated Exoscale: a tour through everything that a controller
// manager uses, over TCP.
//
// EXOSCALE_API_ENDPOINT is the root of the API with /v2, as for everything that is built on this SDK.
package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	v3 "github.com/exoscale/egoscale/v3"
	"github.com/exoscale/egoscale/v3/credentials"

	"bowline/e2e/judge"
)

// limit bounds the whole tour, which takes less than half a minute.
const limit = 2 * time.Minute

// pause is the time between two looks at something that changes.
const pause = 50 * time.Millisecond

const (
	workers  = v3.UUID("0f0e0d0c-0b0a-4908-8706-050403020100")
	instance = v3.UUID("6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c")
	unknown  = v3.UUID("00000000-0000-4000-8000-000000000000")
)

// tour is one walk through the API, which counts what it finds right and wrong.
type tour struct {
	context.Context
	*v3.Client
	judge.Checks
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	t := &tour{Context: ctx, Client: client("EXO00000000000000000000000a", "everything")}
	for _, part := range []func(*tour){
		zones, catalogue, instances, pools, balancers, services, clusters, refusals, roles,
	} {
		part(t)
	}
	t.Verdict("egoscale")
}

// client signs with that key.
func client(key, secret string) *v3.Client {
	endpoint := v3.Endpoint(os.Getenv("EXOSCALE_API_ENDPOINT"))
	c, err := v3.NewClient(credentials.NewStaticCredentials(key, secret),
		v3.ClientOptWithEndpoint(endpoint), v3.ClientOptWithHTTPClient(http.DefaultClient))
	if err != nil {
		panic(err)
	}
	return c
}

// refused checks the status of an error, by the SDK's own word for it, and a fragment of its message.
func (t *tour) refused(what string, err error, status error, fragment string) {
	right := errors.Is(err, status) && strings.Contains(err.Error(), fragment)
	t.Check(right, "%s: wanted %v, …%s…, got %v", what, status, fragment, err)
}

// done waits for an operation more often than the SDK does, and returns what it is about.
func (t *tour) done(what string, operation *v3.Operation, err error) v3.UUID {
	t.Must(what, err)
	t.Equal(what+": it is pending", operation.State, v3.OperationStatePending)
	for operation.State == v3.OperationStatePending {
		time.Sleep(pause)
		// Not counted, as nobody knows how often the tour has to look.
		if operation, err = t.GetOperation(t, operation.ID); err != nil {
			t.Must(what+": read the operation", err)
		}
	}
	t.Equal(what+": it succeeds", operation.State, v3.OperationStateSuccess)
	if operation.Reference == nil {
		return ""
	}
	return operation.Reference.ID
}
