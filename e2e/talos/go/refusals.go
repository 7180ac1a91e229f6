package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/client/config"
	"github.com/siderolabs/talos/pkg/machinery/resources/hardware"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

var platform = &v1alpha1.GetRequest{Namespace: "runtime", Type: "PlatformMetadatas.talos.dev", Id: "platformmetadata"}

// with is a context with these headers.
func (t *tour) with(headers ...string) context.Context {
	return metadata.NewOutgoingContext(t, metadata.Pairs(headers...))
}

func headers(t *tour) {
	_, err := t.raw.Get(t.with("node", "10.0.0.5", "node", "10.0.0.6"), platform)
	t.refused("two machines", err, codes.InvalidArgument, "node metadata must be single-valued")
	_, err = t.raw.Get(t.with("node", "10.0.0.5:50000"), platform)
	t.refused("a machine with a port", err, codes.Internal, `invalid target "10.0.0.5:50000"`)
	_, err = t.raw.Get(t.with("node", ""), platform)
	t.refused("a machine without a name", err, codes.Internal, `invalid target ""`)
	for node, place := range map[string]string{"10.0.0.99": "10.0.0.99:50000", "fd00::99": "[fd00::99]:50000"} {
		_, err = t.raw.Get(t.with("node", node), platform)
		t.refused("a machine that does not exist", err, codes.Unavailable, fmt.Sprintf(
			`connection error: desc = "transport: Error while dialing: dial tcp %s: connect: no route to host"`, place))
	}
}

func missing(t *tour) {
	_, err := safe.StateGetByID[*hardware.SystemInformation](t.on("10.0.0.6"), t.COSI, hardware.SystemInformationID)
	t.Check(state.IsNotFoundError(err), "firmware that says nothing: %v", err)
	_, err = t.raw.Get(t.on("10.0.0.6"), &v1alpha1.GetRequest{
		Namespace: "hardware", Type: "SystemInformations.hardware.talos.dev", Id: "systeminformation"})
	t.refused("firmware that says nothing", err, codes.NotFound,
		"resource SystemInformations.hardware.talos.dev(hardware/systeminformation@undefined) doesn't exist")
	stream, err := t.raw.List(t.on("10.0.0.6"), &v1alpha1.ListRequest{Namespace: "runtime", Type: "AddressStatuses.net.talos.dev"})
	t.Must("list where nothing is", err)
	_, err = stream.Recv()
	t.Equal("nothing is there", err, io.EOF)
	_, err = t.raw.Create(t, &v1alpha1.CreateRequest{Resource: &v1alpha1.Resource{
		Metadata: &v1alpha1.Metadata{Namespace: "k8s", Type: "Nodenames.kubernetes.talos.dev", Id: "x", Version: "1", Phase: "running"},
		Spec:     &v1alpha1.Spec{},
	}, Options: &v1alpha1.CreateOptions{}})
	t.refused("writing", err, codes.PermissionDenied, "write access is not allowed")
}

func refusals(t *tour) {
	denied := func(what, text string, err error) { t.refused(what, err, codes.PermissionDenied, text) }
	_, err := t.raw.Get(t, &v1alpha1.GetRequest{Namespace: "runtime", Type: "Nothings.talos.dev", Id: "x"})
	denied("an unknown type", `resource type "Nothings.talos.dev" is not supported`, err)
	_, err = t.raw.Get(t, &v1alpha1.GetRequest{Namespace: "nowhere", Type: platform.Type, Id: "x"})
	denied("an unknown namespace", `namespace "nowhere" is not supported`, err)
	_, err = t.raw.Get(t, &v1alpha1.GetRequest{Namespace: "config", Type: "MachineConfigs.config.talos.dev", Id: "v1alpha1"})
	denied("a secret", "not authorized", err)
	_, err = t.raw.Get(t.with("nodes", "10.0.0.5"), platform)
	t.refused("several machines", err, codes.InvalidArgument,
		"one-2-many proxying is not supported for method /cosi.resource.State/Get")
	t.Check(t.Reboot(t) != nil, "there is more than is simulated")
}

func definitions(t *tour) {
	all, err := safe.StateListAll[*meta.ResourceDefinition](t, t.COSI)
	t.Must("types", err)
	found := false
	for one := range all.All() {
		spec := one.TypedSpec()
		t.Equal("its id", one.Metadata().ID(), spec.ID())
		if spec.Type == runtime.PlatformMetadataType {
			found = true
			t.Equal("its namespace", spec.DefaultNamespace, "runtime")
			t.Equal("its name", spec.DisplayType, "PlatformMetadata")
		}
	}
	t.Check(found, "the type of platform metadata is known")
	spaces, err := safe.StateListAll[*meta.Namespace](t, t.COSI)
	t.Must("namespaces", err)
	t.Check(spaces.Len() > 5, "there are namespaces: %d", spaces.Len())
}

// ask sends a verb to the control handle, and returns what it answers.
func (t *tour) ask(verb string, body any) map[string]any {
	text, err := json.Marshal(body)
	t.Must("encode", err)
	answer, err := http.Post(t.control+"/_sim/"+verb, "application/json", bytes.NewReader(text))
	t.Must("ask "+verb, err)
	defer answer.Body.Close()
	t.Equal(verb+" is done", answer.StatusCode, http.StatusOK)
	var said map[string]any
	t.Must("read the answer", json.NewDecoder(answer.Body).Decode(&said))
	return said
}

// issued is a client with a talosconfig made for the occasion.
func (t *tour) issued(body map[string]any) *client.Client {
	if _, given := body["endpoints"]; !given {
		body["endpoints"] = t.GetEndpoints()
	}
	said := t.ask("talosconfig", body)
	file, err := config.FromString(said["talosconfig"].(string))
	t.Must("read the talosconfig", err)
	c, err := client.New(t, client.WithConfig(file))
	t.Must("make a client", err)
	return c
}

func roles(t *tour) {
	for role, may := range map[string]bool{"os:reader": true, "os:operator": true, "os:admin": true, "os:etcd:backup": false} {
		c := t.issued(map[string]any{"roles": []string{role}})
		_, err := c.Version(t)
		if may {
			t.Must("the version as "+role, err)
		} else {
			t.refused("the version as "+role, err, codes.PermissionDenied, "not authorized")
		}
		_ = c.Close()
	}
	admin := t.issued(map[string]any{"roles": []string{"os:admin"}})
	defer admin.Close()
	_, err := v1alpha1.NewStateClient(admin.Conn()).Get(t, &v1alpha1.GetRequest{
		Namespace: "config", Type: "MachineConfigs.config.talos.dev", Id: "v1alpha1"})
	t.refused("a secret, as administrator", err, codes.NotFound,
		"resource MachineConfigs.config.talos.dev(config/v1alpha1@undefined) doesn't exist")
}

// afresh asks for the version on a connection that is not yet open. A call on one that has just been cut may fail
// with it, and a server that refuses a certificate may reset the connection before its alert is read: only what TLS
// says counts.
func (t *tour) afresh(c *client.Client) error {
	ctx, cancel := context.WithTimeout(t, 20*time.Second)
	defer cancel()
	_, err := c.Version(ctx)
	for err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), "tls:") {
		_, err = c.Version(ctx)
	}
	return err
}

func certificates(t *tour) {
	const lifetime = 15 * time.Second
	short := t.issued(map[string]any{"lifetime": lifetime.String()})
	// Certificates count whole seconds.
	expired := time.Now().Add(lifetime + 2*time.Second)
	defer short.Close()
	_, err := short.Version(t)
	t.Must("a certificate of fifteen seconds", err)
	time.Sleep(time.Until(expired))
	_, err = short.Version(t)
	t.Must("an open connection outlives its certificate", err)
	t.ask("drop-connections", map[string]any{})
	err = t.afresh(short)
	t.Check(err != nil && strings.Contains(err.Error(), "tls: expired certificate"), "an expired certificate: %v", err)
	// Without any certificate.
	settings := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}
	bare, err := tls.Dial("tcp", t.GetEndpoints()[0], settings)
	if err == nil {
		_ = bare.SetDeadline(time.Now().Add(10 * time.Second))
		_, err = bare.Read(make([]byte, 1))
		_ = bare.Close()
	}
	t.Check(err != nil && strings.Contains(err.Error(), "certificate required"), "no certificate: %v", err)
	settings.NextProtos = []string{"http/1.1"}
	_, err = tls.Dial("tcp", t.GetEndpoints()[0], settings)
	t.Check(err != nil && strings.Contains(err.Error(), "no application protocol"), "another protocol: %v", err)
}

func rotation(t *tour) {
	t.ask("rotate-authority", map[string]any{})
	both := t.issued(map[string]any{})
	defer both.Close()
	for what, c := range map[string]*client.Client{"the old one": t.Client, "the new one": both} {
		_, err := c.Version(t)
		t.Must("two authorities: "+what, err)
	}
	t.ask("finish-rotation", map[string]any{})
	t.ask("drop-connections", map[string]any{})
	t.Must("the new authority alone", t.afresh(both))
	t.Check(t.afresh(t.Client) != nil, "the old authority is gone")
	fresh := t.issued(map[string]any{})
	t.Client, t.raw = fresh, v1alpha1.NewStateClient(fresh.Conn())
}

func stages(t *tour) {
	set := func(stage string) { t.ask("stage", map[string]any{"machine": "web-1", "stage": stage}) }
	get := func() (*runtime.PlatformMetadata, error) {
		return safe.StateGetByID[*runtime.PlatformMetadata](t.on("10.0.0.5"), t.COSI, runtime.PlatformMetadataID)
	}
	ctx, cancel := context.WithCancel(t.on("10.0.0.5"))
	defer cancel()
	events := make(chan state.Event)
	one := resource.NewMetadata("runtime", runtime.PlatformMetadataType, runtime.PlatformMetadataID, resource.VersionUndefined)
	t.Must("watch platform metadata", t.COSI.Watch(ctx, one, events))
	t.Equal("it is there", (<-events).Type, state.Created)
	set("metadata-partial")
	changed := <-events
	t.Equal("it changes", changed.Type, state.Updated)
	t.Check(changed.Old != nil && changed.Resource.Metadata().Version().String() == "2", "what it was and is: %v", changed)
	set("booting")
	_, err := t.raw.Get(t.on("10.0.0.5"), platform)
	t.refused("a machine that boots", err, codes.Unavailable,
		`connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.5:50000: connect: connection refused"`)
	set("metadata-partial")
	partial, err := get()
	t.Must("a machine whose platform has not answered", err)
	t.Equal("only the platform is known", *partial.TypedSpec(), runtime.PlatformMetadataSpec{Platform: "hcloud"})
	set("ready")
	whole, err := get()
	t.Must("a machine that is ready", err)
	t.Equal("everything is known", whole.TypedSpec().ProviderID, "hcloud://4711")
	t.Equal("versions count", whole.Metadata().Version().String(), "3")
	t.ask("addresses", map[string]any{"machine": "web-1", "addresses": []string{"eth0/10.0.0.7/24"}})
	_, err = t.raw.Get(t.on("10.0.0.7"), platform)
	t.Must("a machine with another address", err)
}
