package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// head is the comment at a file's beginning.
func head(present string) string {
	var head strings.Builder
	for line := range strings.Lines(present) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		head.WriteString(line)
	}
	return head.String()
}

// types makes types.txt, whose head describes it.
func types(present string, from kubernetes) (string, error) {
	text := strings.Builder{}
	text.WriteString(head(present))
	last := ""
	for _, structure := range structures() {
		if structure.PkgPath() != last {
			last = structure.PkgPath()
			fmt.Fprintf(&text, "package %s %s\n", alias(structure), openAPIPackage(structure))
		}
		name := openAPIPackage(structure) + "." + structure.Name()
		schema := from.schemas[name]
		if schema == nil {
			return "", fmt.Errorf("no OpenAPI document has %s", name)
		}
		text.WriteString(structure.Name())
		if schema.Extensions["x-kubernetes-map-type"] == "atomic" {
			text.WriteString(" atomic")
		}
		text.WriteString("\n")
		for _, field := range fields(structure) {
			property, known := schema.Properties[field.name]
			if !known {
				return "", fmt.Errorf("%s has no %s in OpenAPI", name, field.name)
			}
			words := append([]string{
				marks(field, slices.Contains(schema.Required, field.name)),
				typeName(field.Type, structure),
			}, semantics(field, property)...)
			text.WriteString(" " + strings.Join(words, " ") + "\n")
		}
	}
	return text.String(), nil
}

func marks(field field, required bool) string {
	name := field.name
	if required {
		name += "!"
	}
	switch {
	case slices.Contains(field.options, "omitzero"):
		name += "0"
	case !slices.Contains(field.options, "omitempty"):
		name += "+"
	}
	return name
}

// typeName is the type as it is named inside a structure.
func typeName(kind, within reflect.Type) string {
	if name, known := special[kind]; known {
		return name
	}
	switch kind.Kind() {
	case reflect.Pointer:
		return typeName(kind.Elem(), within) + "?"
	case reflect.Slice:
		if kind.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[" + typeName(kind.Elem(), within) + "]"
	case reflect.Map:
		return "{" + typeName(kind.Elem(), within) + "}"
	case reflect.Struct:
		if kind.PkgPath() == within.PkgPath() {
			return kind.Name()
		}
		return alias(kind) + "." + kind.Name()
	default:
		return kind.Kind().String()
	}
}

// semantics are the words behind the type.
func semantics(field field, property spec.Schema) []string {
	var words []string
	switch property.Extensions["x-kubernetes-list-type"] {
	case "set":
		words = append(words, "set")
	case "map":
		var keys []string
		for _, key := range property.Extensions["x-kubernetes-list-map-keys"].([]any) {
			keys = append(keys, key.(string))
		}
		words = append(words, "map="+strings.Join(keys, ","))
	}
	if property.Extensions["x-kubernetes-map-type"] == "atomic" {
		words = append(words, "atomic")
	}
	if strategies := field.Tag.Get("patchStrategy"); strategies != "" {
		words = append(words, "patch="+strategies)
	}
	if key := field.Tag.Get("patchMergeKey"); key != "" {
		words = append(words, "key="+key)
	}
	if text, _ := json.Marshal(property.Default); property.Default != nil && string(text) != impliedDefault(field) {
		words = append(words, "default="+string(text))
	}
	kind := field.Type
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if hasOwnName(kind) {
		words = append(words, "go="+kind.String())
	}
	return words
}

// impliedDefault is what a field that is no pointer has by itself: a structure without fields, or zero if it is
// always written.
func impliedDefault(field field) string {
	if field.Type.Kind() != reflect.Struct && len(field.options) > 0 {
		return ""
	}
	switch field.Type.Kind() {
	case reflect.Struct:
		return "{}"
	case reflect.String:
		return `""`
	case reflect.Bool:
		return "false"
	case reflect.Int32, reflect.Int64:
		return "0"
	default:
		return ""
	}
}

// hasOwnName tells whether Go's messages call the type, or its elements, by a name that is not the obvious one.
func hasOwnName(kind reflect.Type) bool {
	if _, known := special[kind]; known || kind.Kind() == reflect.Struct {
		return false
	}
	if kind.PkgPath() != "" {
		return true
	}
	return (kind.Kind() == reflect.Slice || kind.Kind() == reflect.Map) && hasOwnName(kind.Elem())
}

// numbers makes numbers.txt, whose head describes it.
func numbers(present string, _ kubernetes) (string, error) {
	text := strings.Builder{}
	text.WriteString(head(present))
	last := ""
	for _, structure := range structures() {
		if structure.PkgPath() != last {
			last = structure.PkgPath()
			fmt.Fprintf(&text, "package %s\n", openAPIPackage(structure))
		}
		text.WriteString(structure.Name())
		for _, field := range fields(structure) {
			number := numberOf(field.StructField)
			if field.from != nil {
				embedded := numberOf(*field.from)
				// Not in the message: kind and version, which are in its envelope.
				if embedded == "" {
					continue
				}
				number = embedded + "." + number
			}
			fmt.Fprintf(&text, " %s=%s", field.name, number)
		}
		text.WriteString("\n")
	}
	return text.String(), nil
}
