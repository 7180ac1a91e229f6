package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	exact "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// A case, or a step of a story: what is asked stays as it is, the outcome (result, or error and causes) is
// that of Kubernetes.
type vector map[string]json.RawMessage

// Go walks through maps in any order, so what is wrong in two places is refused for either: the outcome that
// is there stays if it is that of one of so many attempts.
const attempts = 100

// vectors makes a file with a case or story in every line.
func vectors(answer func(vector, kubernetes) error) func(string, kubernetes) (string, error) {
	return func(present string, from kubernetes) (string, error) {
		text := strings.Builder{}
		for line := range strings.Lines(present) {
			fresh := ""
			for attempt := 0; attempt < attempts && fresh != line; attempt++ {
				var one vector
				if err := json.Unmarshal([]byte(line), &one); err != nil {
					return "", err
				}
				if err := answer(one, from); err != nil {
					return "", fmt.Errorf("%w: %s", err, line)
				}
				content, err := json.Marshal(one)
				if err != nil {
					return "", err
				}
				fresh = string(content) + "\n"
			}
			text.WriteString(fresh)
		}
		return text.String(), nil
	}
}

func (one vector) text(name string) string {
	var text string
	_ = json.Unmarshal(one[name], &text)
	return text
}

func (one vector) object(name string) (map[string]any, error) {
	object := map[string]any{}
	return object, exact.Unmarshal(one[name], &object)
}

// settle replaces the outcome.
func (one vector) settle(result any, failure error) error {
	delete(one, "result")
	delete(one, "error")
	delete(one, "causes")
	outcome := map[string]any{"result": result}
	if failure != nil {
		outcome = map[string]any{"error": failure.Error()}
		var status apierrors.APIStatus
		if errors.As(failure, &status) && status.Status().Details != nil {
			outcome["causes"] = status.Status().Details.Causes
		}
	}
	for name, value := range outcome {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		one[name] = text
	}
	return nil
}

// newObject is an empty object of the served kind of that name.
func (one vector) newObject() (any, error) {
	for _, kind := range served {
		if kind := reflect.TypeOf(kind); kind.Name() == one.text("kind") {
			return reflect.New(kind).Interface(), nil
		}
	}
	return nil, fmt.Errorf("%s is not served", one.text("kind"))
}

// An object that can be stored.
type storable interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// decode answers what is kept of an object: what its type has, and what storage (in protobuf, where an empty
// list is none) gives back.
func decode(one vector, _ kubernetes) error {
	object, err := one.newObject()
	if err != nil {
		return err
	}
	if err := exact.Unmarshal(one["object"], object); err != nil {
		return err
	}
	stored, err := object.(storable).Marshal()
	if err != nil {
		return err
	}
	kept, _ := one.newObject()
	types := func(object any) reflect.Value { return reflect.ValueOf(object).Elem().FieldByName("TypeMeta") }
	types(kept).Set(types(object))
	if err := kept.(storable).Unmarshal(stored); err != nil {
		return err
	}
	return one.settle(kept, nil)
}

// patch answers what a strategic merge patch makes of an object.
func patch(one vector, _ kubernetes) error {
	kind, err := one.newObject()
	if err != nil {
		return err
	}
	object, err := one.object("object")
	if err != nil {
		return err
	}
	patch, err := one.object("patch")
	if err != nil {
		return err
	}
	result, failure := strategicpatch.StrategicMergeMapPatch(object, patch, kind)
	return one.settle(result, failure)
}

// When every step happens: entries of the same second are in the order of their managers.
var moment = time.Date(2023, time.November, 14, 22, 13, 20, 0, time.UTC)

// Fields that a write through a resource does not change, by sub-resource: GetResetFields of the strategies of
// the kinds with a status.
var outOfReach = map[string]*fieldpath.Set{
	"":       fieldpath.NewSet(fieldpath.MakePathOrDie("status")),
	"status": fieldpath.NewSet(fieldpath.MakePathOrDie("spec")),
}

// manage answers what becomes of an object and its managed fields in a story of applies and updates.
func manage(one vector, from kubernetes) error {
	var steps []vector
	if err := json.Unmarshal(one["steps"], &steps); err != nil {
		return err
	}
	version, err := schema.ParseGroupVersion(one.text("apiVersion"))
	if err != nil {
		return err
	}
	kind := version.WithKind(one.text("kind"))
	live := newUnstructured(kind)
	for _, step := range steps {
		manager, err := managerOf(from.converter, kind, step.text("subresource"))
		if err != nil {
			return err
		}
		object, err := step.object("object")
		if err != nil {
			return err
		}
		result, failure := perform(step, manager, live, object)
		if failure == nil {
			live = result
		}
		if err := step.settle(live, failure); err != nil {
			return err
		}
	}
	one["steps"], err = json.Marshal(steps)
	return err
}

// perform takes a step. The library has its own clock: while it works, the moment is the present second.
func perform(step vector, manager *managedfields.FieldManager, live *unstructured.Unstructured, object map[string]any) (*unstructured.Unstructured, error) {
	for {
		now := time.Now().Truncate(time.Second)
		live, sent := live.DeepCopy(), &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
		setTimes(live, now)
		var result runtime.Object
		var failure error
		if step.text("op") == "apply" {
			result, failure = manager.Apply(live, sent, step.text("manager"), string(step["force"]) == "true")
		} else {
			result, failure = manager.Update(live, sent, step.text("manager"))
		}
		switch {
		case !time.Now().Truncate(time.Second).Equal(now):
		case failure != nil:
			return nil, failure
		default:
			done := result.(*unstructured.Unstructured)
			setTimes(done, moment)
			return done, nil
		}
	}
}

// setTimes sets the times of those managed fields that have one.
func setTimes(object *unstructured.Unstructured, moment time.Time) {
	entries := object.GetManagedFields()
	for place := range entries {
		if entries[place].Time != nil {
			entries[place].Time = &meta.Time{Time: moment}
		}
	}
	if entries != nil {
		object.SetManagedFields(entries)
	}
}

func managerOf(converter managedfields.TypeConverter, kind schema.GroupVersionKind, subresource string) (*managedfields.FieldManager, error) {
	version := kind.GroupVersion()
	reset := map[fieldpath.APIVersion]fieldpath.Filter{}
	if kind.Kind == "Node" || kind.Kind == "Service" {
		reset[fieldpath.APIVersion(version.String())] = fieldpath.NewExcludeSetFilter(outOfReach[subresource])
	}
	return managedfields.NewDefaultFieldManager(
		converter, unchanged{}, unchanged{}, unchanged{}, kind, version, subresource, reset)
}

func newUnstructured(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

// Objects in the only version that there is, without defaults.
type unchanged struct{}

func (unchanged) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	return newUnstructured(kind), nil
}

func (unchanged) Default(runtime.Object) {}

func (unchanged) Convert(_, _, _ any) error {
	return errors.New("there is only one version")
}

func (unchanged) ConvertToVersion(object runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return object, nil
}

func (unchanged) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", errors.New("there is only one version")
}
