//go:build launcher

package main

// Built with the tag `launcher`, this program contains no servers: those of KUBEBUILDER_ASSETS are used.
var servers = map[string]func(){}
