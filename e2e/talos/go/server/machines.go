package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
	machinetype "github.com/siderolabs/talos/pkg/machinery/config/machine"
	"github.com/siderolabs/talos/pkg/machinery/nethelpers"
	"github.com/siderolabs/talos/pkg/machinery/resources/cluster"
	"github.com/siderolabs/talos/pkg/machinery/resources/hardware"
	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"
	"github.com/siderolabs/talos/pkg/machinery/resources/network"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gopkg.in/yaml.v3"
)

// scene is the fixture of the simulator, as far as it is used here.
type scene struct {
	Networks struct {
		Pods     []string `yaml:"pods"`
		Services []string `yaml:"services"`
	} `yaml:"networks"`
	Machines []spec `yaml:"machines"`
}

type spec struct {
	Name         string       `yaml:"name"`
	ControlPlane bool         `yaml:"control_plane"`
	Addresses    []string     `yaml:"addresses"`
	NodeIPs      []netip.Addr `yaml:"node_ips"`
	Platform     struct {
		Platform     string            `yaml:"platform"`
		Hostname     string            `yaml:"hostname"`
		Region       string            `yaml:"region"`
		Zone         string            `yaml:"zone"`
		InstanceType string            `yaml:"instance_type"`
		InstanceID   string            `yaml:"instance_id"`
		ProviderID   string            `yaml:"provider_id"`
		Spot         bool              `yaml:"spot"`
		InternalDNS  string            `yaml:"internal_dns"`
		ExternalDNS  string            `yaml:"external_dns"`
		Tags         map[string]string `yaml:"tags"`
	} `yaml:"platform"`
	System struct {
		Manufacturer string `yaml:"manufacturer"`
		ProductName  string `yaml:"product_name"`
		Version      string `yaml:"version"`
		SerialNumber string `yaml:"serial_number"`
		UUID         string `yaml:"uuid"`
		WakeUpType   string `yaml:"wake_up_type"`
		SKUNumber    string `yaml:"sku_number"`
	} `yaml:"system"`
	WithoutSystem bool `yaml:"without_system"`
}

// box is a machine: its addresses and what it publishes.
type box struct {
	name      string
	platform  string
	addresses map[netip.Addr]bool
	state     state.CoreState
}

// read sets up the machines of a fixture; the first of the control plane, or the first at all, answers calls
// that name none.
func read(path string) ([]*box, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all scene
	if err := yaml.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	var boxes []*box
	for _, one := range all.Machines {
		made, err := one.build(&all)
		if err != nil {
			return nil, fmt.Errorf("machine %q: %w", one.Name, err)
		}
		if one.ControlPlane {
			boxes = append([]*box{made}, boxes...)
		} else {
			boxes = append(boxes, made)
		}
	}
	if len(boxes) == 0 {
		return nil, fmt.Errorf("%s has no machines", path)
	}
	return boxes, nil
}

// readonly refuses what writes, as machines do.
func readonly(_ context.Context, access state.Access) error {
	if access.Verb.Readonly() {
		return nil
	}
	return status.Error(codes.PermissionDenied, "write access is not allowed")
}

func (s *spec) build(all *scene) (*box, error) {
	core := namespaced.NewState(inmem.Build)
	resources, addresses, err := s.resources(all)
	if err != nil {
		return nil, err
	}
	for _, one := range resources {
		if err := core.Create(context.Background(), one, state.WithCreateOwner("judge")); err != nil {
			return nil, err
		}
	}
	return &box{s.Name, s.Platform.Platform, addresses, state.Filter(core, readonly)}, nil
}

func (s *spec) resources(all *scene) ([]resource.Resource, map[netip.Addr]bool, error) {
	if s.Platform.Platform == "" {
		s.Platform.Platform = "metal"
	}
	platform := runtime.NewPlatformMetadataSpec(runtime.NamespaceName, runtime.PlatformMetadataID)
	*platform.TypedSpec() = runtime.PlatformMetadataSpec(s.Platform)
	name := k8s.NewNodename(k8s.NamespaceName, k8s.NodenameID)
	name.TypedSpec().Nodename, name.TypedSpec().HostnameVersion = s.Name, "1"
	list := []resource.Resource{platform, name}
	if !s.WithoutSystem {
		system := hardware.NewSystemInformation(hardware.SystemInformationID)
		*system.TypedSpec() = hardware.SystemInformationSpec(s.System)
		list = append(list, system)
	}
	if s.ControlPlane {
		manager := k8s.NewControllerManagerConfig()
		manager.TypedSpec().Enabled = true
		manager.TypedSpec().Image = "registry.example/kube-controller-manager:v1.36.3"
		manager.TypedSpec().PodCIDRs, manager.TypedSpec().ServiceCIDRs = all.Networks.Pods, all.Networks.Services
		list = append(list, manager)
	}
	for _, other := range all.Machines {
		member := cluster.NewMember(cluster.NamespaceName, other.Name)
		spec := member.TypedSpec()
		spec.NodeID, spec.Hostname = other.Name+"-identity", other.Name
		spec.OperatingSystem, spec.MachineType = "Talos (v1.13.5)", machinetype.TypeWorker
		if other.ControlPlane {
			spec.MachineType = machinetype.TypeControlPlane
			spec.ControlPlane = &cluster.ControlPlane{APIServerPort: 6443}
		}
		for _, ip := range other.nodeIPs() {
			spec.Addresses = append(spec.Addresses, ip)
		}
		list = append(list, member)
	}
	own := map[netip.Addr]bool{}
	for _, text := range s.Addresses {
		status, err := address(text)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, status)
		own[status.TypedSpec().Address.Addr()] = true
	}
	return list, own, nil
}

// nodeIPs are those that are given, or the first of each family that others can reach.
func (s *spec) nodeIPs() []netip.Addr {
	if len(s.NodeIPs) > 0 {
		return s.NodeIPs
	}
	var v4, v6 []netip.Addr
	for _, text := range s.Addresses {
		status, err := address(text)
		if err != nil || status.TypedSpec().LinkName == "external" {
			continue
		}
		switch ip := status.TypedSpec().Address.Addr(); {
		case !ip.IsGlobalUnicast():
		case ip.Is4() && v4 == nil:
			v4 = []netip.Addr{ip}
		case ip.Is6() && v6 == nil:
			v6 = []netip.Addr{ip}
		}
	}
	return append(v4, v6...)
}

// address reads <link>/<address>/<prefix length>, then flags in brackets.
func address(text string) (*network.AddressStatus, error) {
	body, flags, _ := strings.Cut(text, "(")
	link, rest, _ := strings.Cut(body, "/")
	prefix, err := netip.ParsePrefix(rest)
	if err != nil {
		return nil, err
	}
	status := network.NewAddressStatus(network.NamespaceName, network.AddressID(link, prefix))
	spec := status.TypedSpec()
	spec.Address, spec.LinkName, spec.Family = prefix, link, nethelpers.FamilyInet4
	if prefix.Addr().Is6() {
		spec.Family = nethelpers.FamilyInet6
	}
	if link != "external" {
		spec.LinkIndex = 1
	}
	switch ip := prefix.Addr(); {
	case ip.IsLoopback():
		spec.Scope = nethelpers.ScopeHost
	case ip.IsLinkLocalUnicast():
		spec.Scope = nethelpers.ScopeLink
	}
	if flags != "" {
		bits, err := strconv.ParseUint(strings.TrimSuffix(flags, ")"), 10, 32)
		if err != nil {
			return nil, err
		}
		spec.Flags = nethelpers.AddressFlags(bits)
	}
	return status, nil
}
