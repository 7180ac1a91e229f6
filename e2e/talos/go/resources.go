package main

import (
	"context"
	"net/netip"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/protobuf"
	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/cosi-project/runtime/pkg/state"
	machinetype "github.com/siderolabs/talos/pkg/machinery/config/machine"
	"github.com/siderolabs/talos/pkg/machinery/nethelpers"
	"github.com/siderolabs/talos/pkg/machinery/resources/cluster"
	"github.com/siderolabs/talos/pkg/machinery/resources/hardware"
	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"
	"github.com/siderolabs/talos/pkg/machinery/resources/network"
	talosruntime "github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"gopkg.in/yaml.v3"
)

func versions(t *tour) {
	own, err := t.Version(t)
	t.Must("the version of the endpoint", err)
	t.Equal("one message", len(own.Messages), 1)
	t.Equal("the version", own.Messages[0].Version.Tag, "v1.13.5")
	t.Check(own.Messages[0].Features.Rbac, "roles are checked")
	other, err := t.Version(t.on("10.0.0.5"))
	t.Must("the version of another machine", err)
	t.Equal("who answers", other.Messages[0].GetMetadata().GetHostname(), "10.0.0.5")
	t.Equal("its platform", other.Messages[0].Platform.Name, "hcloud")
}

func platforms(t *tour) {
	want := talosruntime.PlatformMetadataSpec{
		Platform: "hcloud", Hostname: "web-1", Region: "fsn1", Zone: "fsn1-dc14", InstanceType: "cax21",
		InstanceID: "4711", ProviderID: "hcloud://4711", Spot: true, InternalDNS: "web-1.internal",
		ExternalDNS: "web-1.example", Tags: map[string]string{"team": "core", "a key": "yes"},
	}
	for _, node := range []string{"10.0.0.5", "2001:db8:4::10"} {
		found, err := safe.StateGetByID[*talosruntime.PlatformMetadata](t.on(node), t.COSI, talosruntime.PlatformMetadataID)
		t.Must("platform metadata of "+node, err)
		t.Equal("what the platform says to "+node, *found.TypedSpec(), want)
		metadata := found.Metadata()
		t.Equal("its version", metadata.Version().String(), "1")
		t.Equal("its phase", metadata.Phase(), resource.PhaseRunning)
		t.Check(metadata.Owner() != "", "somebody owns it")
		apart := metadata.Updated().Sub(metadata.Created()).Abs()
		t.Check(time.Since(metadata.Created()) < time.Hour && apart < time.Second, "its times: %v, %v", metadata.Created(), metadata.Updated())
		t.same(node, found)
	}
	bare, err := safe.StateGetByID[*talosruntime.PlatformMetadata](t.on("10.0.0.6"), t.COSI, talosruntime.PlatformMetadataID)
	t.Must("platform metadata of a machine of metal", err)
	t.Equal("its platform", *bare.TypedSpec(), talosruntime.PlatformMetadataSpec{Platform: "metal"})
}

func systems(t *tour) {
	found, err := safe.StateGetByID[*hardware.SystemInformation](t.on("10.0.0.5"), t.COSI, hardware.SystemInformationID)
	t.Must("system information", err)
	t.Equal("what the firmware says", *found.TypedSpec(), hardware.SystemInformationSpec{
		Manufacturer: "Example", ProductName: "Machine", Version: "1", SerialNumber: "ds=nocloud;i=1234;h=x",
		UUID: "11111111-2222-3333-4444-555555555555", WakeUpType: "Power Switch", SKUNumber: "c2-m4",
	})
	t.same("10.0.0.5", found)
}

func addresses(t *tour) {
	all, err := safe.StateListAll[*network.AddressStatus](t.on("10.0.0.5"), t.COSI)
	t.Must("addresses", err)
	var ids []string
	byID := map[string]*network.AddressStatus{}
	for one := range all.All() {
		ids = append(ids, one.Metadata().ID())
		byID[one.Metadata().ID()] = one
		t.Equal("the id says what it is", network.AddressID(one.TypedSpec().LinkName, one.TypedSpec().Address), one.Metadata().ID())
		t.same("10.0.0.5", one)
	}
	t.Equal("addresses in the order of their ids", ids, []string{
		"eth0/10.0.0.5/24", "eth0/2001:db8:4::10/64", "eth0/fe80::1/64", "eth10/198.51.100.9/24",
		"eth2/198.51.100.8/24", "external/203.0.113.10/32",
	})
	if len(ids) < 6 {
		return
	}
	t.Equal("a permanent address of IPv6", *byID[ids[1]].TypedSpec(), network.AddressStatusSpec{
		Address: netip.MustParsePrefix("2001:db8:4::10/64"), LinkIndex: 1, LinkName: "eth0", Family: nethelpers.FamilyInet6,
		Flags: nethelpers.AddressFlags(nethelpers.AddressPermanent),
	})
	t.Equal("an address of the link alone", byID[ids[2]].TypedSpec().Scope, nethelpers.ScopeLink)
	t.Equal("an address outside", *byID[ids[5]].TypedSpec(), network.AddressStatusSpec{
		Address: netip.MustParsePrefix("203.0.113.10/32"), LinkName: "external", Family: nethelpers.FamilyInet4,
	})
}

func clusters(t *tour) {
	manager, err := safe.StateGetByID[*k8s.ControllerManagerConfig](t, t.COSI, k8s.ControllerManagerConfigID)
	t.Must("the configuration of the controller manager", err)
	t.Equal("ranges of pods", manager.TypedSpec().PodCIDRs, []string{"10.32.0.0/12", "fd00:10:32::/64"})
	t.Equal("ranges of services", manager.TypedSpec().ServiceCIDRs, []string{"10.200.0.0/22", "fd40:10:200::/108"})
	name, err := safe.StateGetByID[*k8s.Nodename](t.on("10.0.0.5"), t.COSI, k8s.NodenameID)
	t.Must("the name of the node", err)
	t.Equal("the name", name.TypedSpec().Nodename, "web-1")
	t.same("10.0.0.5", name)
	members, err := safe.StateListAll[*cluster.Member](t, t.COSI)
	t.Must("members", err)
	t.Equal("all machines are members", members.Len(), 4)
	first, last := members.Get(0).TypedSpec(), members.Get(3).TypedSpec()
	t.Equal("a worker", first.MachineType, machinetype.TypeWorker)
	t.Check(members.Get(1).TypedSpec().ControlPlane != nil, "a machine of the control plane")
	t.Equal("its addresses", last.Addresses, []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("2001:db8:4::10")})
	t.Equal("its system", last.OperatingSystem, "Talos (v1.13.5)")
	for one := range members.All() {
		t.same("", one)
	}
}

// watches looks at what there is; what changes is watched with the stages.
func watches(t *tour) {
	ctx, cancel := context.WithCancel(t.on("10.0.0.5"))
	defer cancel()
	events := make(chan state.Event)
	kind := resource.NewMetadata(network.NamespaceName, network.AddressStatusType, "", resource.VersionUndefined)
	t.Must("watch addresses", t.COSI.WatchKind(ctx, kind, events, state.WithBootstrapContents(true)))
	for range 6 {
		event := <-events
		t.Equal("what there is", event.Type, state.Created)
		_, typed := event.Resource.(*network.AddressStatus)
		t.Check(typed, "an address: %v", event.Resource)
	}
	t.Equal("the end of what there is", (<-events).Type, state.Bootstrapped)
}

// same checks that the text of a resource says what the official code would write for it.
func (t *tour) same(node string, found resource.Resource) {
	ctx := t.Context
	if node != "" {
		ctx = t.on(node)
	}
	metadata := found.Metadata()
	answer, err := t.raw.Get(ctx, &v1alpha1.GetRequest{Namespace: metadata.Namespace(), Type: metadata.Type(), Id: metadata.ID()})
	t.Must("get "+metadata.ID(), err)
	wire, err := protobuf.FromResource(found)
	t.Must("encode "+metadata.ID(), err)
	official, err := wire.Marshal()
	t.Must("encode "+metadata.ID(), err)
	var got, want any
	t.Must("its text is YAML", yaml.Unmarshal([]byte(answer.Resource.Spec.YamlSpec), &got))
	t.Must("the official text is YAML", yaml.Unmarshal([]byte(official.Spec.YamlSpec), &want))
	t.Equal("the text of "+metadata.ID(), got, want)
}
