// The official Go SDK as a judge of the simulated cloudscale.ch: a tour through everything that a
// controller manager uses, over TCP.
//
// CLOUDSCALE_API_URL is the root of the API without /v1, as for everything that is built on this SDK.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/cloudscale-ch/cloudscale-go-sdk/v6"
)

// limit bounds the whole tour, which takes seconds.
const limit = 2 * time.Minute

// pause is the time between two looks at something that changes.
const pause = 50 * time.Millisecond

// tour is one walk through the API, which counts what it finds right and wrong.
type tour struct {
	context.Context
	*cloudscale.Client
	passed, failed int
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
	fmt.Printf("cloudscale-go-sdk: %d checks passed, %d failed\n", t.passed, t.failed)
	if t.failed > 0 {
		os.Exit(1)
	}
}

// client speaks with that token.
func client(token string) *cloudscale.Client {
	c := cloudscale.NewClient(http.DefaultClient)
	c.AuthToken = token
	return c
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

// refused checks the status of an error and a fragment of its message.
func (t *tour) refused(what string, err error, status int, key, fragment string) {
	var answer *cloudscale.ErrorResponse
	right := errors.As(err, &answer) && answer.StatusCode == status && len(answer.Message) == 1
	if right {
		message, named := answer.Message[key]
		right = named && message != "" && strings.Contains(message, fragment)
	}
	t.check(right, "%s: wanted %d, %s: …%s…, got %#v", what, status, key, fragment, err)
}

// place is the line of the tour that checks, which the helpers above are not.
func place() string {
	for skip := 1; ; skip++ {
		function, file, line, known := runtime.Caller(skip)
		if !known {
			return "somewhere"
		}
		name := runtime.FuncForPC(function).Name()
		if !strings.Contains(name, "(*tour)") && !strings.HasSuffix(name, ".place") {
			return fmt.Sprintf("%s:%d", file[strings.LastIndex(file, "/")+1:], line)
		}
	}
}

// quickly makes the SDK look often.
func quickly() backoff.RetryOption {
	return backoff.WithBackOff(backoff.NewConstantBackOff(pause))
}

// pointer is where requests want one.
func pointer[T any](value T) *T {
	return &value
}
