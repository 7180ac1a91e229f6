package main

import (
	"fmt"

	"github.com/cloudscale-ch/cloudscale-go-sdk/v6"
)

// children reads, lists and changes every attribute that can be changed.
func children(t *tour) {
	s := t.scene("children")
	balancer := cloudscale.LoadBalancerStub{HREF: s.balancer.HREF, UUID: s.balancer.UUID, Name: s.balancer.Name}
	stub := cloudscale.LoadBalancerPoolStub{HREF: s.pool.HREF, UUID: s.pool.UUID, Name: s.pool.Name}
	t.Equal("the pool's load balancer", s.pool.LoadBalancer, balancer)
	t.Equal("the member's load balancer", s.member.LoadBalancer, balancer)
	t.Equal("the listener's load balancer", s.listener.LoadBalancer, balancer)
	t.Equal("the monitor's load balancer", s.monitor.LoadBalancer, balancer)
	t.Equal("the member's pool", s.member.Pool, stub)
	t.Equal("the listener's pool", s.listener.Pool, &stub)
	t.Equal("the monitor's pool", s.monitor.Pool, stub)
	t.Equal("the member's subnet", s.member.Subnet, cloudscale.SubnetStub{HREF: s.subnet.HREF, UUID: s.subnet.UUID, CIDR: s.subnet.CIDR})
	t.Check(s.member.Enabled && s.member.MonitorPort == 31080, "the member: %#v", s.member)
	t.Equal("everybody may connect", s.listener.AllowedCIDRs, []string{})
	timeouts := []int{s.listener.TimeoutClientDataMS, s.listener.TimeoutMemberConnectMS, s.listener.TimeoutMemberDataMS}
	t.Equal("the timeouts", timeouts, []int{50000, 5000, 50000})
	t.Equal("the monitor's numbers", numbers(s.monitor), []int{2, 1, 2, 3})
	t.Check(s.monitor.HTTP == nil, "no HTTP: %#v", s.monitor.HTTP)
	t.settled(s.balancer.UUID, "running")

	changePool(t, s)
	changeMember(t, s)
	changeListener(t, s)
	changeMonitor(t, s)
	changeHTTP(t, s)
	t.settled(s.balancer.UUID, "running")
	t.strike(s)
}

func numbers(m *cloudscale.LoadBalancerHealthMonitor) []int {
	return []int{m.DelayS, m.TimeoutS, m.UpThreshold, m.DownThreshold}
}

func tags() cloudscale.TaggedResourceRequest {
	return cloudscale.TaggedResourceRequest{Tags: &cloudscale.TagMap{"k8s-cluster-name": "tour"}}
}

var tagged = cloudscale.WithTagFilter(cloudscale.TagMap{"k8s-cluster-name": "tour"})

func changePool(t *tour, s *scene) {
	for _, change := range []*cloudscale.LoadBalancerPoolRequest{{Name: "tcp/web"}, {TaggedResourceRequest: tags()}} {
		t.Must("change the pool", t.LoadBalancerPools.Update(t, s.pool.UUID, change))
	}
	found, err := t.LoadBalancerPools.List(t, tagged)
	t.Must("list pools by tag", err)
	t.Equal("the pool", len(found), 1)
	t.Equal("its name", found[0].Name, "tcp/web")
	for _, change := range []*cloudscale.LoadBalancerPoolRequest{{Algorithm: "source_ip"}, {Protocol: "udp"}, {LoadBalancer: s.balancer.UUID}} {
		err := t.LoadBalancerPools.Update(t, s.pool.UUID, change)
		t.Check(err != nil, "it cannot be changed: %#v", change)
	}
	for _, kind := range [][2]string{{"least_connections", "proxy"}, {"source_ip", "proxyv2"}, {"round_robin", "udp"}} {
		pool, err := t.LoadBalancerPools.Create(t, &cloudscale.LoadBalancerPoolRequest{
			Name: "other", LoadBalancer: s.balancer.UUID, Algorithm: kind[0], Protocol: kind[1]})
		t.Must("create another pool", err)
		t.Equal("its kind", [2]string{pool.Algorithm, pool.Protocol}, kind)
		t.Must("delete it", t.LoadBalancerPools.Delete(t, pool.UUID))
	}
}

func changeMember(t *tour, s *scene) {
	for _, change := range []*cloudscale.LoadBalancerPoolMemberRequest{{Name: "m"}, {Enabled: pointer(false)}, {TaggedResourceRequest: tags()}} {
		t.Must("change the member", t.LoadBalancerPoolMembers.Update(t, s.pool.UUID, s.member.UUID, change))
	}
	found, err := t.LoadBalancerPoolMembers.List(t, s.pool.UUID, tagged)
	t.Must("list members by tag", err)
	t.Equal("the member", len(found), 1)
	t.Check(found[0].Name == "m" && !found[0].Enabled, "changed: %#v", found[0])
	for _, change := range []*cloudscale.LoadBalancerPoolMemberRequest{
		{ProtocolPort: 1}, {MonitorPort: 1}, {Address: "192.168.42.12"}, {Subnet: s.subnet.UUID},
	} {
		err := t.LoadBalancerPoolMembers.Update(t, s.pool.UUID, s.member.UUID, change)
		t.Check(err != nil, "it cannot be changed: %#v", change)
	}
	plain := s.aMember()
	plain.MonitorPort, plain.ProtocolPort = 0, 31081
	member, err := t.LoadBalancerPoolMembers.Create(t, s.pool.UUID, plain)
	t.Must("a member without a port to monitor", err)
	t.Equal("it has none", member.MonitorPort, 0)
	_, err = t.LoadBalancerPoolMembers.Get(t, "00000000-0000-0000-0000-000000000000", member.UUID)
	t.refused("in another pool", err, 404, "detail", "Not found.")
	t.Must("delete it", t.LoadBalancerPoolMembers.Delete(t, s.pool.UUID, member.UUID))
}

func changeListener(t *tour, s *scene) {
	cidrs := []string{"2001:db8::/32", "198.51.100.0/24"}
	for _, change := range []*cloudscale.LoadBalancerListenerRequest{
		{Name: "l"}, {AllowedCIDRs: &cidrs}, {TimeoutClientDataMS: 1}, {TimeoutMemberConnectMS: 2}, {TimeoutMemberDataMS: 3},
		{TaggedResourceRequest: tags()},
	} {
		t.Must("change the listener", t.LoadBalancerListeners.Update(t, s.listener.UUID, change))
	}
	found, err := t.LoadBalancerListeners.List(t, tagged)
	t.Must("list listeners by tag", err)
	t.Equal("the listener", len(found), 1)
	want := *s.listener
	want.Name, want.AllowedCIDRs = "l", cidrs
	want.TimeoutClientDataMS, want.TimeoutMemberConnectMS, want.TimeoutMemberDataMS = 1, 2, 3
	want.Tags, want.Pool = found[0].Tags, found[0].Pool
	t.Equal("changed, the order of CIDRs kept", found[0], want)
	t.Must("everybody", t.LoadBalancerListeners.Update(t, s.listener.UUID, &cloudscale.LoadBalancerListenerRequest{AllowedCIDRs: &[]string{}}))
	read, err := t.LoadBalancerListeners.Get(t, s.listener.UUID)
	t.Must("read it", err)
	t.Equal("everybody may connect again", read.AllowedCIDRs, []string{})
	udp := s.aListener()
	udp.Protocol, udp.Name = "udp", "udp/80"
	also, err := t.LoadBalancerListeners.Create(t, udp)
	t.Must("the same port by UDP", err)
	t.Must("delete it", t.LoadBalancerListeners.Delete(t, also.UUID))
}

func changeMonitor(t *tour, s *scene) {
	for _, change := range []*cloudscale.LoadBalancerHealthMonitorRequest{
		{DelayS: 6}, {TimeoutS: 5}, {UpThreshold: 4}, {DownThreshold: 7}, {TaggedResourceRequest: tags()},
		{HTTP: &cloudscale.LoadBalancerHealthMonitorHTTPRequest{}},
		{},
		{DelayS: 9, HTTP: &cloudscale.LoadBalancerHealthMonitorHTTPRequest{}},
	} {
		t.Must(fmt.Sprintf("change the monitor: %#v", change), t.LoadBalancerHealthMonitors.Update(t, s.monitor.UUID, change))
	}
	found, err := t.LoadBalancerHealthMonitors.List(t, tagged)
	t.Must("list monitors by tag", err)
	t.Equal("the monitor", len(found), 1)
	t.Equal("its numbers", numbers(&found[0]), []int{9, 5, 4, 7})
	t.Must("delete it", t.LoadBalancerHealthMonitors.Delete(t, s.monitor.UUID))
	for _, kind := range []string{"ping", "https", "tls-hello", "udp-connect"} {
		pool, err := t.pool(s.balancer, kind)
		t.Must("another pool", err)
		request := &cloudscale.LoadBalancerHealthMonitorRequest{Pool: pool.UUID, Type: kind, DelayS: 3, TimeoutS: 2}
		request.HTTP = &cloudscale.LoadBalancerHealthMonitorHTTPRequest{}
		monitor, err := t.LoadBalancerHealthMonitors.Create(t, request)
		t.Must("a monitor of type "+kind, err)
		t.Check(monitor.Type == kind && (monitor.HTTP != nil) == (kind == "https"), "%s: %#v", kind, monitor.HTTP)
		t.Must("delete its pool", t.LoadBalancerPools.Delete(t, pool.UUID))
	}
}

// changeHTTP changes what an HTTP monitor asks for, one option at a time.
func changeHTTP(t *tour, s *scene) {
	pool, err := t.pool(s.balancer, "http")
	t.Must("another pool", err)
	request := &cloudscale.LoadBalancerHealthMonitorRequest{Pool: pool.UUID, Type: "http"}
	request.HTTP = &cloudscale.LoadBalancerHealthMonitorHTTPRequest{UrlPath: "/livez"}
	monitor, err := t.LoadBalancerHealthMonitors.Create(t, request)
	t.Must("an HTTP monitor", err)
	want := &cloudscale.LoadBalancerHealthMonitorHTTP{ExpectedCodes: []string{"200"}, Method: "GET", UrlPath: "/livez", Version: "1.1"}
	t.Equal("what it asks for", monitor.HTTP, want)
	host := "app.example.org"
	for _, change := range []cloudscale.LoadBalancerHealthMonitorHTTPRequest{
		{ExpectedCodes: []string{"202", "200"}}, {Method: "HEAD"}, {UrlPath: "/ready"}, {Host: &host},
	} {
		t.Must("change it", t.LoadBalancerHealthMonitors.Update(t, monitor.UUID, &cloudscale.LoadBalancerHealthMonitorRequest{HTTP: &change}))
	}
	read, err := t.LoadBalancerHealthMonitors.Get(t, monitor.UUID)
	t.Must("read it", err)
	want = &cloudscale.LoadBalancerHealthMonitorHTTP{ExpectedCodes: []string{"202", "200"}, Method: "HEAD", UrlPath: "/ready", Version: "1.1", Host: &host}
	t.Equal("what it asks for now", read.HTTP, want)
	t.Must("delete the pool with its monitor", t.LoadBalancerPools.Delete(t, pool.UUID))
	_, err = t.LoadBalancerHealthMonitors.Get(t, monitor.UUID)
	t.refused("the monitor is gone", err, 404, "detail", "Not found.")
}

// health looks at members with and without a monitor.
func health(t *tour) {
	s := t.scene("health")
	t.Must("no monitor", t.LoadBalancerHealthMonitors.Delete(t, s.monitor.UUID))
	member, err := t.LoadBalancerPoolMembers.Get(t, s.pool.UUID, s.member.UUID)
	t.Must("read the member", err)
	t.Equal("nobody looks", member.MonitorStatus, "no_monitor")
	var monitor *cloudscale.LoadBalancerHealthMonitor
	t.eventually("a monitor again", func() error {
		monitor, err = t.LoadBalancerHealthMonitors.Create(t, &cloudscale.LoadBalancerHealthMonitorRequest{Pool: s.pool.UUID, Type: "tcp"})
		return err
	})
	member, err = t.LoadBalancerPoolMembers.Get(t, s.pool.UUID, s.member.UUID)
	t.Must("read the member", err)
	t.Equal("it is being found out", member.MonitorStatus, "changing")
	_, err = t.LoadBalancerPoolMembers.WaitFor(t, s.pool.UUID, s.member.UUID, cloudscale.LoadBalancerPoolMemberIsUp, quickly())
	t.Must("wait until it is up", err)
	t.Equal("the monitor's pool", monitor.Pool.UUID, s.pool.UUID)
	t.strike(s)
}
