package main

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/state/protobuf/server"
	"github.com/siderolabs/talos/pkg/machinery/api/common"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// router gives each call to the machine that its header names.
type router struct {
	v1alpha1.UnimplementedStateServer
	machines []*box
}

// find is the machine that the header names, and that name; the first machine if there is no header.
func find(ctx context.Context, machines []*box) (*box, string, error) {
	headers, _ := metadata.FromIncomingContext(ctx)
	if len(headers["nodes"]) > 0 {
		return nil, "", status.Error(codes.InvalidArgument, "one-2-many proxying is not supported")
	}
	node := headers["node"]
	switch len(node) {
	case 0:
		return machines[0], "", nil
	case 1:
	default:
		return nil, "", status.Error(codes.InvalidArgument, "node metadata must be single-valued")
	}
	ip, err := netip.ParseAddr(node[0])
	if err != nil {
		return nil, "", status.Errorf(codes.Internal, "invalid target %q", node[0])
	}
	for _, one := range machines {
		if one.addresses[ip] {
			return one, node[0], nil
		}
	}
	place := netip.AddrPortFrom(ip, 50000)
	return nil, "", status.Error(codes.Unavailable, fmt.Sprintf(
		"connection error: desc = \"transport: Error while dialing: dial tcp %s: connect: no route to host\"", place))
}

func (r *router) of(ctx context.Context) (*server.State, error) {
	found, _, err := find(ctx, r.machines)
	if err != nil {
		return nil, err
	}
	return server.NewState(found.state), nil
}

func (r *router) Get(ctx context.Context, request *v1alpha1.GetRequest) (*v1alpha1.GetResponse, error) {
	state, err := r.of(ctx)
	if err != nil {
		return nil, err
	}
	return state.Get(ctx, request)
}

func (r *router) List(request *v1alpha1.ListRequest, stream v1alpha1.State_ListServer) error {
	state, err := r.of(stream.Context())
	if err != nil {
		return err
	}
	return state.List(request, stream)
}

func (r *router) Watch(request *v1alpha1.WatchRequest, stream v1alpha1.State_WatchServer) error {
	state, err := r.of(stream.Context())
	if err != nil {
		return err
	}
	return state.Watch(request, stream)
}

func (r *router) Create(ctx context.Context, request *v1alpha1.CreateRequest) (*v1alpha1.CreateResponse, error) {
	state, err := r.of(ctx)
	if err != nil {
		return nil, err
	}
	return state.Create(ctx, request)
}

// versions says who answers.
type versions struct {
	machine.UnimplementedMachineServiceServer
	machines []*box
}

func (v *versions) Version(ctx context.Context, _ *emptypb.Empty) (*machine.VersionResponse, error) {
	found, name, err := find(ctx, v.machines)
	if err != nil {
		return nil, err
	}
	message := &machine.Version{
		Version:  &machine.VersionInfo{Tag: "v1.13.5", Os: "linux", Arch: "amd64"},
		Platform: &machine.PlatformInfo{Name: found.platform},
		Features: &machine.FeaturesInfo{Rbac: true},
	}
	if name != "" {
		message.Metadata = &common.Metadata{Hostname: name}
	}
	return &machine.VersionResponse{Messages: []*machine.Version{message}}, nil
}
