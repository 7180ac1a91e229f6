package main

import (
	"github.com/cloudscale-ch/cloudscale-go-sdk/v6"
)

// balancer makes a load balancer that is ready.
func (t *tour) balancer(name string, vips *[]cloudscale.VIPAddressRequest) *cloudscale.LoadBalancer {
	request := &cloudscale.LoadBalancerRequest{Name: name, Flavor: "lb-standard", VIPAddresses: vips}
	request.Zone, request.Tags = "rma1", &cloudscale.TagMap{"tour": name}
	made, err := t.LoadBalancers.Create(t, request)
	t.Must("create the load balancer "+name, err)
	t.Equal("it is changing", made.Status, "changing")
	again, err := t.LoadBalancers.Get(t, made.UUID)
	t.Must("read it", err)
	t.Equal("what was made is what is read", again, made)
	_, err = t.pool(made, "early")
	t.refused("a pool before it is ready", err, 400, "detail", "")
	t.refused("delete it before it is ready", t.LoadBalancers.Delete(t, made.UUID), 400, "detail", "")
	ready, err := t.LoadBalancers.WaitFor(t, made.UUID, cloudscale.LoadBalancerIsRunning, quickly())
	t.Must("wait until it runs", err)
	return ready
}

// pool makes a pool.
func (t *tour) pool(balancer *cloudscale.LoadBalancer, name string) (*cloudscale.LoadBalancerPool, error) {
	return t.LoadBalancerPools.Create(t, &cloudscale.LoadBalancerPoolRequest{
		Name: name, LoadBalancer: balancer.UUID, Algorithm: "round_robin", Protocol: "tcp",
	})
}

// settled waits until a load balancer no longer changes.
func (t *tour) settled(uuid, status string) {
	settled := func(balancer *cloudscale.LoadBalancer) (bool, error) {
		return balancer.Status != "changing", nil
	}
	balancer, err := t.LoadBalancers.WaitFor(t, uuid, settled, quickly())
	t.Must("wait until it no longer changes", err)
	t.Equal("its status", balancer.Status, status)
}

// private makes a network with the subnet 192.168.42.0/24.
func (t *tour) private() (*cloudscale.Network, *cloudscale.Subnet) {
	request := &cloudscale.NetworkCreateRequest{Name: "private", AutoCreateIPV4Subnet: pointer(false)}
	request.Zone = "rma1"
	network, err := t.Networks.Create(t, request)
	t.Must("create a network", err)
	subnet, err := t.Subnets.Create(t, &cloudscale.SubnetCreateRequest{CIDR: "192.168.42.0/24", Network: network.UUID})
	t.Must("create a subnet", err)
	return network, subnet
}

// balancers makes, changes, finds and deletes load balancers themselves.
func balancers(t *tour) {
	network, subnet := t.private()
	public := t.balancer("public", nil)
	t.Equal("two addresses", len(public.VIPAddresses), 2)
	t.Check(public.VIPAddresses[0].Version == 4 && public.VIPAddresses[1].Version == 6, "IPv4 first")
	t.Equal("its flavor", public.Flavor, cloudscale.LoadBalancerFlavorStub{Slug: "lb-standard", Name: "LB-Standard"})
	t.Equal("its zone", public.Zone.Slug, "rma1")
	also := t.balancer("also public", &[]cloudscale.VIPAddressRequest{})
	t.Equal("an empty list means the same", len(also.VIPAddresses), 2)

	private := t.balancer("private", &[]cloudscale.VIPAddressRequest{{Subnet: subnet.UUID, Address: "192.168.42.7"}})
	stub := cloudscale.SubnetStub{HREF: subnet.HREF, UUID: subnet.UUID, CIDR: subnet.CIDR}
	want := []cloudscale.VIPAddress{{Version: 4, Address: "192.168.42.7", Subnet: stub}}
	t.Equal("its address", private.VIPAddresses, want)
	chosen := t.balancer("chosen", &[]cloudscale.VIPAddressRequest{{Subnet: subnet.UUID}})
	t.Check(chosen.VIPAddresses[0].Address != "", "an address was chosen")
	err := t.FloatingIPs.Update(t, "203.0.113.200", &cloudscale.FloatingIPUpdateRequest{LoadBalancer: private.UUID})
	t.refused("a floating IP that does not exist", err, 404, "detail", "Not found.")
	_, err = t.FloatingIPs.Create(t, &cloudscale.FloatingIPCreateRequest{IPVersion: 4, LoadBalancer: private.UUID})
	t.refused("a floating IP for a private address", err, 400, "load_balancer", "")

	for filter, count := range map[string]int{"public": 1, "private": 1, "": 4, "none": 0} {
		found, err := t.LoadBalancers.List(t, cloudscale.WithTagFilter(cloudscale.TagMap{"tour": filter}))
		t.Must("list by tag", err)
		t.Equal("found with tag "+filter, len(found), count)
	}
	t.Must("rename", t.LoadBalancers.Update(t, public.UUID, &cloudscale.LoadBalancerRequest{Name: "renamed"}))
	t.Must("other tags", t.LoadBalancers.Update(t, public.UUID, &cloudscale.LoadBalancerRequest{
		TaggedResourceRequest: cloudscale.TaggedResourceRequest{Tags: &cloudscale.TagMap{"k8s-service-uid": "1"}}}))
	again, err := t.LoadBalancers.Get(t, public.UUID)
	t.Must("read it", err)
	t.Equal("its name", again.Name, "renamed")
	t.Equal("its tags", again.Tags, cloudscale.TagMap{"k8s-service-uid": "1"})
	t.Equal("nothing had to be applied", again.Status, "running")
	t.Equal("nor does its address change", again.VIPAddresses, public.VIPAddresses)

	t.refused("delete the network", t.Networks.Delete(t, network.UUID), 400, "detail", "load balancers")
	for _, balancer := range []*cloudscale.LoadBalancer{public, also, private, chosen} {
		t.Must("delete "+balancer.Name, t.LoadBalancers.Delete(t, balancer.UUID))
		_, err = t.LoadBalancers.Get(t, balancer.UUID)
		t.refused("it is gone", err, 404, "detail", "Not found.")
	}
	t.Must("delete the network right after", t.Networks.Delete(t, network.UUID))
}

// scene is a load balancer with one child of each kind.
type scene struct {
	network  *cloudscale.Network
	subnet   *cloudscale.Subnet
	balancer *cloudscale.LoadBalancer
	pool     *cloudscale.LoadBalancerPool
	member   *cloudscale.LoadBalancerPoolMember
	listener *cloudscale.LoadBalancerListener
	monitor  *cloudscale.LoadBalancerHealthMonitor
}

// scene sets it up back to back, without looking at a status in between.
func (t *tour) scene(name string) *scene {
	s := &scene{}
	s.network, s.subnet = t.private()
	s.balancer = t.balancer(name, nil)
	var err error
	s.pool, err = t.pool(s.balancer, "tcp/http")
	t.Must("create a pool", err)
	s.member, err = t.LoadBalancerPoolMembers.Create(t, s.pool.UUID, s.aMember())
	t.Must("create a member", err)
	s.listener, err = t.LoadBalancerListeners.Create(t, s.aListener())
	t.Must("create a listener", err)
	s.monitor, err = t.LoadBalancerHealthMonitors.Create(t, &cloudscale.LoadBalancerHealthMonitorRequest{Pool: s.pool.UUID, Type: "tcp"})
	t.Must("create a health monitor", err)
	return s
}

func (s *scene) aMember() *cloudscale.LoadBalancerPoolMemberRequest {
	return &cloudscale.LoadBalancerPoolMemberRequest{
		Name: "192.168.42.11:31080", Address: "192.168.42.11", Subnet: s.subnet.UUID, ProtocolPort: 31080, MonitorPort: 31080,
	}
}

func (s *scene) aListener() *cloudscale.LoadBalancerListenerRequest {
	return &cloudscale.LoadBalancerListenerRequest{Name: "tcp/80", Pool: s.pool.UUID, Protocol: "tcp", ProtocolPort: 80, AllowedCIDRs: &[]string{}}
}

// strike deletes the load balancer with everything, and the network.
func (t *tour) strike(s *scene) {
	t.Must("delete the load balancer", t.LoadBalancers.Delete(t, s.balancer.UUID))
	t.Must("delete the network", t.Networks.Delete(t, s.network.UUID))
	pools, err := t.LoadBalancerPools.List(t)
	t.Must("list pools", err)
	listeners, err := t.LoadBalancerListeners.List(t)
	t.Must("list listeners", err)
	monitors, err := t.LoadBalancerHealthMonitors.List(t)
	t.Must("list monitors", err)
	t.Equal("everything is gone", []int{len(pools), len(listeners), len(monitors)}, []int{0, 0, 0})
	_, err = t.LoadBalancerPoolMembers.List(t, s.pool.UUID)
	t.refused("members of a pool that is gone", err, 404, "detail", "Not found.")
}
