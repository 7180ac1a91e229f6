package main

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	certificates "k8s.io/api/certificates/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The kinds that are served (KINDS in kinds.rs), in any order.
var served = []any{
	core.ConfigMap{}, core.Endpoints{}, core.Event{}, core.Namespace{}, core.Node{}, core.Pod{},
	core.Secret{}, core.Service{}, core.ServiceAccount{},
	authentication.SelfSubjectReview{}, authentication.TokenReview{},
	authorization.LocalSubjectAccessReview{}, authorization.SelfSubjectAccessReview{},
	authorization.SelfSubjectRulesReview{}, authorization.SubjectAccessReview{},
	certificates.CertificateSigningRequest{}, coordination.Lease{}, discovery.EndpointSlice{},
	events.Event{}, rbac.ClusterRole{}, rbac.ClusterRoleBinding{}, rbac.Role{}, rbac.RoleBinding{},
}

// What sub-resources and requests take and what answers are made of, besides.
var others = []any{
	core.Binding{}, authentication.TokenRequest{}, policy.Eviction{},
	meta.Condition{}, meta.DeleteOptions{}, meta.ListMeta{}, meta.Status{},
}

// Structures with a form of their own in JSON.
var special = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():  "quantity",
	reflect.TypeFor[intstr.IntOrString](): "int-or-string",
	reflect.TypeFor[meta.Time]():          "time",
	reflect.TypeFor[meta.MicroTime]():     "microtime",
	reflect.TypeFor[meta.FieldsV1]():      "raw",
}

// A field as JSON shows it: those of embedded structures belong to the outer one.
type field struct {
	reflect.StructField
	// JSON name, and the tag's other words.
	name    string
	options []string
	// The embedded structure that it comes from, if it does.
	from *reflect.StructField
}

func fields(structure reflect.Type) []field {
	var all []field
	for index := range structure.NumField() {
		one := structure.Field(index)
		words := strings.Split(one.Tag.Get("json"), ",")
		if slices.Contains(words, "inline") || one.Anonymous && words[0] == "" {
			inner := fields(one.Type)
			for place := range inner {
				inner[place].from = &one
			}
			all = append(all, inner...)
		} else if words[0] != "-" {
			all = append(all, field{StructField: one, name: words[0], options: words[1:]})
		}
	}
	return all
}

// numberOf is the field's number in protobuf; empty if it is not there.
func numberOf(one reflect.StructField) string {
	words := strings.Split(one.Tag.Get("protobuf"), ",")
	if len(words) < 2 {
		return ""
	}
	return words[1]
}

// structures are all that can be reached from kinds, by package (that of metadata and the core group first)
// and name.
func structures() []reflect.Type {
	seen := map[reflect.Type]bool{}
	var reach func(reflect.Type)
	reach = func(kind reflect.Type) {
		switch kind.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			reach(kind.Elem())
		case reflect.Struct:
			if _, known := special[kind]; known || seen[kind] {
				return
			}
			seen[kind] = true
			for _, field := range fields(kind) {
				reach(field.Type)
			}
		}
	}
	for _, kind := range slices.Concat(served, others) {
		reach(reflect.TypeOf(kind))
	}
	var all []reflect.Type
	for kind := range seen {
		all = append(all, kind)
	}
	rank := func(kind reflect.Type) int {
		first := []string{reflect.TypeFor[meta.ObjectMeta]().PkgPath(), reflect.TypeFor[core.Node]().PkgPath()}
		if place := slices.Index(first, kind.PkgPath()); place >= 0 {
			return place
		}
		return len(first)
	}
	slices.SortFunc(all, func(a, b reflect.Type) int {
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)),
			cmp.Compare(a.PkgPath(), b.PkgPath()),
			cmp.Compare(a.Name(), b.Name()),
		)
	})
	return all
}

// openAPIPackage is io.k8s.api.core.v1 for k8s.io/api/core/v1.
func openAPIPackage(kind reflect.Type) string {
	host, path, _ := strings.Cut(kind.PkgPath(), "/")
	domain := strings.Split(host, ".")
	slices.Reverse(domain)
	return strings.Join(domain, ".") + "." + strings.ReplaceAll(path, "/", ".")
}

// alias is core for k8s.io/api/core/v1.
func alias(kind reflect.Type) string {
	path := strings.Split(kind.PkgPath(), "/")
	return path[len(path)-2]
}
