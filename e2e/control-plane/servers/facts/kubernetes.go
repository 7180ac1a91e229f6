package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// What Kubernetes' types do not say is in files of the module k8s.io/kubernetes.
type kubernetes struct {
	folder string
	// The schemas of the OpenAPI documents of version v1, by their names.
	schemas map[string]*spec.Schema
	// What field managers know from them.
	converter managedfields.TypeConverter
}

func read(folder string) (from kubernetes, err error) {
	from.folder = folder
	from.schemas = map[string]*spec.Schema{}
	pattern := filepath.Join(folder, "api/openapi-spec/v3/*__v1_openapi.json")
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		return from, fmt.Errorf("there is no %s", pattern)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return from, err
		}
		var document struct {
			Components struct{ Schemas map[string]*spec.Schema }
		}
		if err := json.Unmarshal(text, &document); err != nil {
			return from, fmt.Errorf("%s: %w", path, err)
		}
		maps.Copy(from.schemas, document.Components.Schemas)
	}
	from.converter, err = managedfields.NewTypeConverter(from.schemas, false)
	return from, err
}
