// Servers is etcd, kube-apiserver and kube-controller-manager in one program: what they share is
// linked once. Which one it is, its own name says, or else its first argument. See ../README.md.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	server := servers[filepath.Base(os.Args[0])]
	if server == nil && len(os.Args) > 1 {
		if server = servers[os.Args[1]]; server != nil {
			os.Args = os.Args[1:]
		}
	}
	if server == nil {
		fmt.Fprintln(os.Stderr, "usage: servers NAME [FLAG…]; the names:", slices.Sorted(maps.Keys(servers)))
		os.Exit(2)
	}
	server()
}
