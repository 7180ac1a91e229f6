package main

import (
	"time"

	"github.com/cloudscale-ch/cloudscale-go-sdk/v6"
)

// eventually tries until it works, at most ten seconds; at least once it must not have worked.
func (t *tour) eventually(what string, try func() error) {
	err := try()
	t.refused(what+" at once", err, 400, "detail", "removed")
	for until := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(until); err = try() {
		time.Sleep(pause)
	}
	t.Must(what, err)
}

// places shows that what was deleted is in the way for a while.
func places(t *tour) {
	s := t.scene("places")
	t.Must("delete the member", t.LoadBalancerPoolMembers.Delete(t, s.pool.UUID, s.member.UUID))
	t.eventually("the same member", func() error {
		_, err := t.LoadBalancerPoolMembers.Create(t, s.pool.UUID, s.aMember())
		return err
	})
	t.Must("delete the listener", t.LoadBalancerListeners.Delete(t, s.listener.UUID))
	t.eventually("the same listener", func() error {
		_, err := t.LoadBalancerListeners.Create(t, s.aListener())
		return err
	})
	_, err := t.LoadBalancerListeners.Create(t, s.aListener())
	t.refused("the same listener twice", err, 400, "detail", "exists already")
	_, err = t.LoadBalancerPoolMembers.Create(t, s.pool.UUID, s.aMember())
	t.refused("the same member twice", err, 400, "detail", "exists already")
	t.Must("delete the pool with everything", t.LoadBalancerPools.Delete(t, s.pool.UUID))
	listeners, err := t.LoadBalancerListeners.List(t)
	t.Must("list listeners", err)
	t.Equal("none is left", len(listeners), 0)
	t.Must("delete the load balancer while it changes", t.LoadBalancers.Delete(t, s.balancer.UUID))
	t.Must("delete the network", t.Networks.Delete(t, s.network.UUID))
}

// refusals makes mistakes, and hears about them in the form that the SDK understands.
func refusals(t *tour) {
	s := t.scene("refusals")
	type request = cloudscale.LoadBalancerRequest
	for _, row := range []struct {
		request       request
		key, fragment string
	}{
		{request{Name: "x"}, "flavor", "This field is required"},
		{request{Flavor: "lb-standard"}, "name", "This field is required"},
		{request{Name: "x", Flavor: "lb-large"}, "flavor", "is not a valid choice"},
		{request{Name: "x", Flavor: "lb-standard", ZonalResourceRequest: cloudscale.ZonalResourceRequest{Zone: "zrh1"}}, "zone", "is not a valid choice. Choose one of"},
		{request{Name: "x", Flavor: "lb-standard", VIPAddresses: &[]cloudscale.VIPAddressRequest{{Subnet: "x"}}}, "subnet", "Must be a valid UUID."},
		{request{Name: "x", Flavor: "lb-standard", VIPAddresses: &[]cloudscale.VIPAddressRequest{{Subnet: s.subnet.UUID, Address: "10.0.0.1"}}}, "address", "is not a valid IP for the specified subnet"},
		{request{Name: "x", Flavor: "lb-standard", VIPAddresses: &[]cloudscale.VIPAddressRequest{{Subnet: s.subnet.UUID, Address: "192.168.42.0"}}}, "address", "is not a valid IP for the specified subnet"},
	} {
		_, err := t.LoadBalancers.Create(t, &row.request)
		t.refused("a bad load balancer", err, 400, row.key, row.fragment)
	}
	err := t.LoadBalancers.Update(t, s.balancer.UUID, &request{Name: "x", TaggedResourceRequest: tags()})
	t.refused("two attributes at once", err, 400, "detail", "Only one attribute")
	badPools(t, s)
	badMembers(t, s)
	badListeners(t, s)
	badMonitors(t, s)
	t.strike(s)
}

func badPools(t *tour, s *scene) {
	type request = cloudscale.LoadBalancerPoolRequest
	for _, row := range []struct {
		request       request
		key, fragment string
	}{
		{request{Name: "x", LoadBalancer: s.pool.UUID, Algorithm: "round_robin", Protocol: "tcp"}, "load_balancer", "does not exist"},
		{request{Name: "x", LoadBalancer: s.balancer.UUID, Algorithm: "robin_round", Protocol: "tcp"}, "algorithm", "Expect one of"},
		{request{Name: "x", LoadBalancer: s.balancer.UUID, Algorithm: "round_robin", Protocol: "sctp"}, "protocol", "Expect one of"},
		{request{LoadBalancer: s.balancer.UUID, Algorithm: "round_robin", Protocol: "tcp"}, "name", "This field is required"},
	} {
		_, err := t.LoadBalancerPools.Create(t, &row.request)
		t.refused("a bad pool", err, 400, row.key, row.fragment)
	}
}

func badMembers(t *tour, s *scene) {
	for _, row := range []struct {
		spoil         func(*cloudscale.LoadBalancerPoolMemberRequest)
		key, fragment string
	}{
		{func(r *cloudscale.LoadBalancerPoolMemberRequest) { r.Subnet = s.pool.UUID }, "subnet", "does not exist"},
		{func(r *cloudscale.LoadBalancerPoolMemberRequest) { r.Address = "x" }, "address", "Enter a valid IPv4"},
		{func(r *cloudscale.LoadBalancerPoolMemberRequest) { r.ProtocolPort = 0 }, "protocol_port", "This field is required"},
		{func(r *cloudscale.LoadBalancerPoolMemberRequest) { r.MonitorPort = 70000 }, "monitor_port", "must be between"},
	} {
		request := s.aMember()
		row.spoil(request)
		_, err := t.LoadBalancerPoolMembers.Create(t, s.pool.UUID, request)
		t.refused("a bad member", err, 400, row.key, row.fragment)
	}
	_, err := t.LoadBalancerPoolMembers.Create(t, s.balancer.UUID, s.aMember())
	t.refused("a member of no pool", err, 404, "detail", "Not found.")
}

func badListeners(t *tour, s *scene) {
	for _, row := range []struct {
		spoil         func(*cloudscale.LoadBalancerListenerRequest)
		key, fragment string
	}{
		{func(r *cloudscale.LoadBalancerListenerRequest) { r.Pool = s.balancer.UUID }, "pool", "does not exist"},
		{func(r *cloudscale.LoadBalancerListenerRequest) { r.Pool = "" }, "pool", "This field is required"},
		{func(r *cloudscale.LoadBalancerListenerRequest) { r.Protocol = "sctp" }, "protocol", "Expect one of"},
		{func(r *cloudscale.LoadBalancerListenerRequest) { r.ProtocolPort = 70000 }, "protocol_port", "The protocol_port must be between"},
		{func(r *cloudscale.LoadBalancerListenerRequest) { r.AllowedCIDRs = &[]string{"1.1.1.1"} }, "allowed_cidrs", "Enter a valid network address in CIDR notation"},
	} {
		request := s.aListener()
		request.ProtocolPort = 81
		row.spoil(request)
		_, err := t.LoadBalancerListeners.Create(t, request)
		t.refused("a bad listener", err, 400, row.key, row.fragment)
	}
	err := t.LoadBalancerListeners.Update(t, s.listener.UUID, &cloudscale.LoadBalancerListenerRequest{AllowedCIDRs: &[]string{"1.1.1.1"}})
	t.refused("a bad change", err, 400, "allowed_cidrs", "Enter a valid network address in CIDR notation")
}

func badMonitors(t *tour, s *scene) {
	pool, err := t.pool(s.balancer, "unwatched")
	t.Must("another pool", err)
	host := "a.example"
	type request = cloudscale.LoadBalancerHealthMonitorRequest
	type http = cloudscale.LoadBalancerHealthMonitorHTTPRequest
	for _, row := range []struct {
		request       request
		key, fragment string
	}{
		{request{Pool: s.pool.UUID, Type: "tcp"}, "detail", "exists already"},
		{request{Pool: s.balancer.UUID, Type: "tcp"}, "pool", "does not exist"},
		{request{Pool: pool.UUID, Type: "gopher"}, "type", "Expect one of"},
		{request{Pool: pool.UUID, Type: "tcp", DelayS: 1, TimeoutS: 2}, "timeout_s", "delay_s"},
		{request{Pool: pool.UUID, Type: "udp-connect"}, "delay_s", "udp-connect"},
		{request{Pool: pool.UUID, Type: "tcp", HTTP: &http{Method: "GET"}}, "http", "tcp"},
		{request{Pool: pool.UUID, Type: "http", HTTP: &http{Version: "1.0", Host: &host}}, "host", "The host argument can not be used with HTTP version 1.0"},
		{request{Pool: pool.UUID, Type: "http", HTTP: &http{ExpectedCodes: []string{"ok"}}}, "expected_codes", "codes"},
	} {
		_, err := t.LoadBalancerHealthMonitors.Create(t, &row.request)
		t.refused("a bad monitor", err, 400, row.key, row.fragment)
	}
	err = t.LoadBalancerHealthMonitors.Update(t, s.monitor.UUID, &request{DelayS: 5, TimeoutS: 4})
	t.refused("two attributes at once", err, 400, "detail", "Only one attribute")
}

// tokens shows who may do what.
func tokens(t *tour) {
	s := t.scene("tokens")
	_, err := client("nobody").LoadBalancers.List(t)
	t.refused("a wrong token", err, 401, "detail", "")
	_, err = client("").LoadBalancers.List(t)
	t.refused("no token", err, 401, "detail", "Authentication credentials were not provided.")
	looking := client("only-look")
	seen, err := looking.LoadBalancers.Get(t, s.balancer.UUID)
	t.Must("look with a token that may only look", err)
	t.Equal("the same load balancer", seen.Name, s.balancer.Name)
	t.refused("delete with it", looking.LoadBalancers.Delete(t, s.balancer.UUID), 403, "detail", "")
	elsewhere := client("elsewhere")
	_, err = elsewhere.LoadBalancers.Get(t, s.balancer.UUID)
	t.refused("look from another project", err, 404, "detail", "Not found.")
	all, err := elsewhere.LoadBalancerPools.List(t)
	t.Must("list there", err)
	t.Equal("nothing", len(all), 0)
	t.strike(s)
}
