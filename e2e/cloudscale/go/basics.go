package main

import (
	"strings"

	"github.com/cloudscale-ch/cloudscale-go-sdk/v6"
)

// networks makes, changes and deletes networks and subnets.
func networks(t *tour) {
	request := &cloudscale.NetworkCreateRequest{Name: "tour", MTU: 1500}
	request.Zone, request.Tags = "rma1", &cloudscale.TagMap{"tour": "yes"}
	network, err := t.Networks.Create(t, request)
	t.Must("create a network", err)
	again, err := t.Networks.Get(t, network.UUID)
	t.Must("read it", err)
	t.Equal("what was made is what is read", again, network)
	t.Equal("its MTU", network.MTU, 1500)
	t.Equal("its zone", network.Zone.Slug, "rma1")
	t.Equal("a subnet came with it", len(network.Subnets), 1)

	found, err := t.Networks.List(t, cloudscale.WithTagFilter(cloudscale.TagMap{"tour": "yes"}))
	t.Must("list by tag", err)
	t.Equal("found by its tag", len(found), 1)
	found, err = t.Networks.List(t, cloudscale.WithTagFilter(cloudscale.TagMap{"tour": "no"}))
	t.Must("list by another value", err)
	t.Equal("not found", len(found), 0)

	t.Must("rename", t.Networks.Update(t, network.UUID, &cloudscale.NetworkUpdateRequest{Name: "renamed"}))
	t.Must("change the MTU", t.Networks.Update(t, network.UUID, &cloudscale.NetworkUpdateRequest{MTU: 9000}))
	again, err = t.Networks.Get(t, network.UUID)
	t.Must("read it", err)
	t.Check(again.Name == "renamed" && again.MTU == 9000, "changed: %#v", again)

	bare, err := t.Networks.Create(t, &cloudscale.NetworkCreateRequest{Name: "bare", AutoCreateIPV4Subnet: pointer(false)})
	t.Must("create a network without subnet", err)
	t.Equal("no subnet", len(bare.Subnets), 0)
	subnet, err := t.Subnets.Create(t, &cloudscale.SubnetCreateRequest{CIDR: "192.168.7.0/24", Network: bare.UUID, GatewayAddress: "192.168.7.1"})
	t.Must("create a subnet", err)
	t.Equal("two resolvers by default", len(subnet.DNSServers), 2)
	read, err := t.Subnets.Get(t, subnet.UUID)
	t.Must("read it", err)
	t.Equal("what was made is what is read", read, subnet)
	t.Must("no resolvers", t.Subnets.Update(t, subnet.UUID, &cloudscale.SubnetUpdateRequest{DNSServers: &[]string{}}))
	t.Must("the default ones", t.Subnets.Update(t, subnet.UUID, &cloudscale.SubnetUpdateRequest{DNSServers: &cloudscale.UseCloudscaleDefaults}))
	read, err = t.Subnets.Get(t, subnet.UUID)
	t.Must("read it", err)
	t.Equal("two resolvers again", len(read.DNSServers), 2)
	err = t.Subnets.Update(t, subnet.UUID, &cloudscale.SubnetUpdateRequest{DNSServers: &[]string{"0.0.0.0"}})
	t.refused("nonsense as a resolver", err, 400, "dns_servers", "0.0.0.0")
	t.Must("delete the subnet", t.Subnets.Delete(t, subnet.UUID))
	_, err = t.Subnets.Get(t, subnet.UUID)
	t.refused("it is gone", err, 404, "detail", "Not found.")
	t.Must("delete the network", t.Networks.Delete(t, bare.UUID))
	t.Must("delete the network with its subnet", t.Networks.Delete(t, network.UUID))
}

// server makes a server that runs.
func (t *tour) server(request *cloudscale.ServerRequest) *cloudscale.Server {
	request.Flavor, request.Image, request.SSHKeys = "flex-4-2", "debian-12", []string{}
	server, err := t.Servers.Create(t, request)
	t.Must("create the server "+request.Name, err)
	t.Equal("a new server is changing", server.Status, "changing")
	again, err := t.Servers.Get(t, server.UUID)
	t.Must("read it", err)
	t.Equal("what was made is what is read", again, server)
	server, err = t.Servers.WaitFor(t, server.UUID, cloudscale.ServerIsRunning, quickly())
	t.Must("wait until it runs", err)
	return server
}

// servers makes, stops, starts, changes and deletes servers.
func servers(t *tour) {
	regions, err := t.Regions.List(t)
	t.Must("list the regions", err)
	t.Equal("two of them", len(regions), 2)
	network, err := t.Networks.Create(t, &cloudscale.NetworkCreateRequest{Name: "servers"})
	t.Must("create a network", err)
	request := &cloudscale.ServerRequest{Name: "tour-1", VolumeSizeGB: 50}
	request.Interfaces = &[]cloudscale.InterfaceRequest{{Network: "public"}, {Network: network.UUID}}
	request.Tags = &cloudscale.TagMap{"role": "worker"}
	server := t.server(request)
	t.Equal("two interfaces", len(server.Interfaces), 2)
	t.Equal("the public one first", server.Interfaces[0].Type, "public")
	t.Equal("with an address of each version", len(server.Interfaces[0].Addresses), 2)
	t.Equal("and the private one", server.Interfaces[1].Network.UUID, network.UUID)
	t.Equal("with the network's subnet", server.Interfaces[1].Addresses[0].Subnet, network.Subnets[0])
	t.Equal("its flavor", server.Flavor.VCPUCount, 2)

	for _, filter := range []cloudscale.TagMap{{"role": "worker"}, {"role": ""}} {
		found, err := t.Servers.List(t, cloudscale.WithTagFilter(filter))
		t.Must("list by tag", err)
		t.Equal("found by its tag", len(found), 1)
	}
	update := &cloudscale.ServerUpdateRequest{Name: "tour-2", Flavor: "flex-4-4"}
	err = t.Servers.Update(t, server.UUID, update)
	t.refused("two attributes at once", err, 400, "detail", "Only one attribute")
	err = t.Servers.Update(t, server.UUID, &cloudscale.ServerUpdateRequest{Flavor: "flex-4-4"})
	t.refused("another flavor while it runs", err, 400, "detail", "flavor")
	t.Must("stop", t.Servers.Stop(t, server.UUID))
	_, err = t.Servers.WaitFor(t, server.UUID, cloudscale.ServerIsStopped, quickly())
	t.Must("wait until it is stopped", err)
	t.Must("another flavor", t.Servers.Update(t, server.UUID, &cloudscale.ServerUpdateRequest{Flavor: "flex-4-4"}))
	t.Must("start", t.Servers.Start(t, server.UUID))
	_, err = t.Servers.WaitFor(t, server.UUID, cloudscale.ServerIsRunning, quickly())
	t.Must("wait until it runs", err)
	t.Must("reboot", t.Servers.Reboot(t, server.UUID))
	server, err = t.Servers.WaitFor(t, server.UUID, cloudscale.ServerIsRunning, quickly())
	t.Must("wait until it runs", err)
	t.Equal("its flavor", server.Flavor.Slug, "flex-4-4")
	t.Must("clear the tags", t.Servers.Update(t, server.UUID, &cloudscale.ServerUpdateRequest{
		TaggedResourceRequest: cloudscale.TaggedResourceRequest{Tags: &cloudscale.TagMap{}}}))
	server, err = t.Servers.Get(t, server.UUID)
	t.Must("read it", err)
	t.Equal("no tags", server.Tags, cloudscale.TagMap{})

	err = t.Networks.Delete(t, network.UUID)
	t.refused("delete a network that is used", err, 400, "detail", "attached")
	t.Must("delete the server", t.Servers.Delete(t, server.UUID))
	_, err = t.Servers.Get(t, server.UUID)
	t.refused("it is gone", err, 404, "detail", "Not found.")
	t.Must("delete the network", t.Networks.Delete(t, network.UUID))
}

// floatingIPs makes them, moves them between a server and a load balancer, and deletes them.
func floatingIPs(t *tour) {
	server := t.server(&cloudscale.ServerRequest{Name: "tour-3"})
	balancer := t.balancer("tour-3", nil)
	for version, prefix := range map[int]string{4: "/32", 6: "/128"} {
		request := &cloudscale.FloatingIPCreateRequest{IPVersion: version, Server: server.UUID}
		request.Tags = &cloudscale.TagMap{"tour": "yes"}
		floating, err := t.FloatingIPs.Create(t, request)
		t.Must("create a floating IP", err)
		t.Check(strings.HasSuffix(floating.Network, prefix), "its network: %s", floating.Network)
		t.Check(floating.Type == "regional" && floating.Region.Slug == "rma", "its region: %#v", floating.Region)
		t.Equal("no load balancer", floating.LoadBalancer, (*cloudscale.LoadBalancerStub)(nil))
		again, err := t.FloatingIPs.Get(t, floating.IP())
		t.Must("read it", err)
		t.Equal("what was made is what is read", again, floating)

		move := &cloudscale.FloatingIPUpdateRequest{LoadBalancer: balancer.UUID}
		t.Must("move it to a load balancer", t.FloatingIPs.Update(t, floating.IP(), move))
		moved, err := t.FloatingIPs.Get(t, floating.IP())
		t.Must("read it", err)
		t.Equal("no server", moved.Server, (*cloudscale.ServerStub)(nil))
		t.Equal("the load balancer", moved.LoadBalancer.UUID, balancer.UUID)
		t.Equal("and its address", moved.NextHop, balancer.VIPAddresses[version/6].Address)
		t.Must("name it", t.FloatingIPs.Update(t, floating.IP(), &cloudscale.FloatingIPUpdateRequest{ReversePointer: "a.example"}))
	}
	global, err := t.FloatingIPs.Create(t, &cloudscale.FloatingIPCreateRequest{IPVersion: 6, Type: "global"})
	t.Must("create a global one", err)
	t.Check(global.Region == nil && global.Server == nil && global.NextHop == "", "it points nowhere: %#v", global)
	t.Must("delete it", t.FloatingIPs.Delete(t, global.IP()))

	t.Must("delete the load balancer", t.LoadBalancers.Delete(t, balancer.UUID))
	left, err := t.FloatingIPs.List(t, cloudscale.WithTagFilter(cloudscale.TagMap{"tour": ""}))
	t.Must("list them", err)
	t.Equal("both are left", len(left), 2)
	for _, floating := range left {
		t.Check(floating.LoadBalancer == nil, "it points to nothing: %#v", floating.LoadBalancer)
		t.Equal("its name", floating.ReversePointer, "a.example")
		t.Must("delete it", t.FloatingIPs.Delete(t, floating.IP()))
	}
	t.Must("delete the server", t.Servers.Delete(t, server.UUID))
}
