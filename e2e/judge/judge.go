// Package judge counts what the tours of the official Go clients find right and wrong in a simulator.
package judge

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
)

// Checks is a part of every tour.
type Checks struct {
	Passed, Failed int
}

// Check counts, and prints what was wrong.
func (c *Checks) Check(right bool, format string, arguments ...any) {
	if right {
		c.Passed++
		return
	}
	c.Failed++
	fmt.Printf("FAILED %s: %s\n", position(), fmt.Sprintf(format, arguments...))
}

// Equal checks that two values are the same through and through.
func (c *Checks) Equal(what string, got, want any) {
	c.Check(reflect.DeepEqual(got, want), "%s\n  got:  %#v\n  want: %#v", what, got, want)
}

// Must checks that something worked; the tour cannot go on without it.
func (c *Checks) Must(what string, err error) {
	if err == nil {
		c.Passed++
		return
	}
	fmt.Printf("FAILED %s: %s: %v\nthe tour ends here after %d checks\n", position(), what, err, c.Passed)
	os.Exit(1)
}

// Verdict ends the tour with that client.
func (c *Checks) Verdict(client string) {
	fmt.Printf("%s: %d checks passed, %d failed\n", client, c.Passed, c.Failed)
	if c.Failed > 0 {
		os.Exit(1)
	}
}

// position is the line of the tour that checks, which neither this package nor a method of the tour is.
func position() string {
	for skip := 1; ; skip++ {
		function, file, line, known := runtime.Caller(skip)
		if !known {
			return "somewhere"
		}
		name := runtime.FuncForPC(function).Name()
		if !strings.HasPrefix(name, "bowline/e2e/judge.") && !strings.Contains(name, "(*tour)") {
			return fmt.Sprintf("%s:%d", filepath.Base(file), line)
		}
	}
}
