// Writes what the simulated API server (crates/simulator-kubernetes) knows about Kubernetes, from the
// modules of Kubernetes itself: see ../../facts.
//
//	facts KUBERNETES SOURCES          writes the files
//	facts --check KUBERNETES SOURCES  only compares them, and fails if one differs
//
// KUBERNETES is the folder of the module k8s.io/kubernetes, SOURCES the folder src of the crate.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A file and how its new content is made of the present one: of its head, and of what was chosen by hand.
type file struct {
	path string
	make func(present string, from kubernetes) (string, error)
}

var files = []file{
	{"schema/types.txt", types},
	{"protobuf/numbers.txt", numbers},
	{"bootstrap/roles.yaml", roles},
	{"schema/vectors.jsonl", vectors(decode)},
	{"patch/vectors.jsonl", vectors(patch)},
	{"managed/vectors.jsonl", vectors(manage)},
}

func main() {
	arguments := os.Args[1:]
	check := len(arguments) > 0 && arguments[0] == "--check"
	if check {
		arguments = arguments[1:]
	}
	if len(arguments) != 2 {
		fmt.Fprintln(os.Stderr, "usage: facts [--check] KUBERNETES SOURCES")
		os.Exit(2)
	}
	stale, err := run(check, arguments[0], arguments[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if stale || err != nil {
		os.Exit(1)
	}
}

// run writes or compares all files; it tells whether one differs that it was only to compare.
func run(check bool, folder, sources string) (bool, error) {
	from, err := read(folder)
	if err != nil {
		return false, err
	}
	stale := false
	for _, file := range files {
		path := filepath.Join(sources, file.path)
		present, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		content, err := file.make(string(present), from)
		if err != nil {
			return false, fmt.Errorf("%s: %w", path, err)
		}
		switch {
		case content == string(present):
		case check:
			stale = true
			if err := showDifference(path, content); err != nil {
				return false, err
			}
		default:
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				return false, err
			}
			fmt.Println("written:", path)
		}
	}
	return stale, nil
}

func showDifference(path, content string) error {
	fresh, err := os.CreateTemp("", "facts")
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name())
	if _, err := fresh.WriteString(content); err != nil {
		return err
	}
	if err := fresh.Close(); err != nil {
		return err
	}
	diff := exec.Command("diff", "-u", "--label", path, "--label", "Kubernetes", path, fresh.Name())
	diff.Stdout, diff.Stderr = os.Stdout, os.Stderr
	// It fails when there is a difference, as there is.
	_ = diff.Run()
	return nil
}
