package main

import (
	"fmt"
	"time"

	v3 "github.com/exoscale/egoscale/v3"
)

// balancer makes a load balancer that has an address.
func (t *tour) balancer(name string) *v3.LoadBalancer {
	operation, err := t.CreateLoadBalancer(t, v3.CreateLoadBalancerRequest{Name: name})
	t.Must("create the load balancer "+name, err)
	early, err := t.GetLoadBalancer(t, operation.Reference.ID)
	t.Must("read it at once", err)
	t.Equal("it is being made", early.State, v3.LoadBalancerStateCreating)
	t.Check(early.IP == nil, "it has no address yet: %v", early.IP)
	id := t.done("create it", operation, err)
	for {
		got, err := t.GetLoadBalancer(t, id)
		if err != nil || got.IP != nil {
			t.Must("read it", err)
			t.Equal("it runs", got.State, v3.LoadBalancerStateRunning)
			return got
		}
		time.Sleep(pause)
	}
}

// balancers are made, found, renamed, described and deleted.
func balancers(t *tour) {
	one, two := t.balancer("one"), t.balancer("two")
	t.Check(!one.IP.Equal(two.IP), "they have addresses of their own")
	all, err := t.ListLoadBalancers(t)
	t.Must("list load balancers", err)
	found, err := all.FindLoadBalancer("two")
	t.Must("find one by name", err)
	t.Equal("what is listed is what is read", found, *two)
	_, err = t.CreateLoadBalancer(t, v3.CreateLoadBalancerRequest{Name: "two"})
	t.refused("a name that is taken", err, v3.ErrConflict, "already exists, the name must be unique")
	_, err = t.UpdateLoadBalancer(t, one.ID, v3.UpdateLoadBalancerRequest{Name: "two"})
	t.refused("the same for a rename", err, v3.ErrConflict, "the name must be unique")
	operation, err := t.UpdateLoadBalancer(t, one.ID, v3.UpdateLoadBalancerRequest{
		Name: "uno", Description: "first", Labels: v3.Labels{"bowline-service-uid": "1"}})
	t.Equal("what it is about", t.done("rename it", operation, err), one.ID)
	got, err := t.GetLoadBalancer(t, one.ID)
	t.Must("read it", err)
	t.Equal("its name and description", []string{got.Name, got.Description}, []string{"uno", "first"})
	t.Equal("its labels", got.Labels, v3.Labels{"bowline-service-uid": "1"})
	t.Equal("its address stays", got.IP, one.IP)
	for _, field := range []v3.ResetLoadBalancerFieldField{
		v3.ResetLoadBalancerFieldFieldDescription, v3.ResetLoadBalancerFieldFieldLabels,
	} {
		operation, err = t.ResetLoadBalancerField(t, one.ID, field)
		t.done("reset its "+string(field), operation, err)
	}
	got, err = t.GetLoadBalancer(t, one.ID)
	t.Must("read it", err)
	t.Equal("nothing is left of them", []any{got.Description, len(got.Labels)}, []any{"", 0})
	for _, id := range []v3.UUID{one.ID, two.ID} {
		operation, err = t.DeleteLoadBalancer(t, id)
		t.done("delete it", operation, err)
		_, err = t.GetLoadBalancer(t, id)
		t.refused("it is gone", err, v3.ErrNotFound, "")
	}
}

// aService is one that the API takes.
func aService(name string, port int64) v3.AddServiceToLoadBalancerRequest {
	return v3.AddServiceToLoadBalancerRequest{
		Name: name, Port: port, TargetPort: 30080, Protocol: "tcp", Strategy: "round-robin",
		InstancePool: &v3.InstancePool{ID: workers},
		Healthcheck:  &v3.LoadBalancerServiceHealthcheck{Mode: "tcp", Port: 30080, Interval: 10, Timeout: 5, Retries: 1},
	}
}

// services are added, changed and deleted, and hold on to their pool.
func services(t *tour) {
	balancer := t.balancer("with services")
	operation, err := t.AddServiceToLoadBalancer(t, balancer.ID, aService("web-80", 80))
	t.Equal("the operation is about the load balancer", t.done("add a service", operation, err), balancer.ID)
	service := t.only(balancer.ID)
	t.Equal("it runs", service.State, v3.LoadBalancerServiceStateRunning)
	t.Equal("its pool has an id and nothing else", service.InstancePool, &v3.InstancePool{ID: workers})
	t.Equal("its health check", *service.Healthcheck, *aService("", 0).Healthcheck)
	t.Equal("the health of every member is told", len(service.HealthcheckStatus), 3)
	one, err := t.GetLoadBalancerService(t, balancer.ID, service.ID)
	t.Must("read it alone", err)
	t.Equal("what is in the load balancer is what is read", *one, service)
	_, err = t.AddServiceToLoadBalancer(t, balancer.ID, aService("again", 80))
	t.refused("a second one on its port", err, v3.ErrConflict, "80/tcp")
	udp := aService("web-80-udp", 80)
	udp.Protocol = "udp"
	operation, err = t.AddServiceToLoadBalancer(t, balancer.ID, udp)
	t.done("the same port with UDP", operation, err)
	both, err := t.GetLoadBalancer(t, balancer.ID)
	t.Must("read both", err)
	t.Equal("two services", len(both.Services), 2)
	operation, err = t.DeleteLoadBalancerService(t, balancer.ID, both.Services[1].ID)
	t.done("delete the second", operation, err)

	operation, err = t.UpdateLoadBalancerService(t, balancer.ID, service.ID, v3.UpdateLoadBalancerServiceRequest{
		Name: "web", Description: "front door", TargetPort: 30090, Strategy: "source-hash",
		Healthcheck: &v3.LoadBalancerServiceHealthcheck{Mode: "https", Port: 31000, URI: "/healthz", TlsSNI: "a.example", Interval: 30, Timeout: 10, Retries: 2}})
	t.done("change it", operation, err)
	changed := t.only(balancer.ID)
	t.Equal("its texts", []string{changed.Name, changed.Description, string(changed.Strategy)}, []string{"web", "front door", "source-hash"})
	t.Equal("its ports", []int64{changed.Port, changed.TargetPort}, []int64{80, 30090})
	t.Equal("its health check", changed.Healthcheck.URI+changed.Healthcheck.TlsSNI, "/healthza.example")
	operation, err = t.UpdateLoadBalancerService(t, balancer.ID, service.ID, v3.UpdateLoadBalancerServiceRequest{
		Healthcheck: &v3.LoadBalancerServiceHealthcheck{Mode: "tcp", Port: 30090}})
	t.done("another health check", operation, err)
	changed = t.only(balancer.ID)
	t.Equal("nothing is left of the first", changed.Healthcheck.URI, "")
	t.Equal("everything else stays", changed.TargetPort, int64(30090))
	operation, err = t.ResetLoadBalancerServiceField(t, balancer.ID, service.ID, v3.ResetLoadBalancerServiceFieldFieldDescription)
	t.done("reset its description", operation, err)
	t.Equal("it is empty", t.only(balancer.ID).Description, "")

	for port := int64(81); port < 90; port++ {
		operation, err = t.AddServiceToLoadBalancer(t, balancer.ID, aService(fmt.Sprint("web-", port), port))
		t.done("more services", operation, err)
	}
	_, err = t.AddServiceToLoadBalancer(t, balancer.ID, aService("web-90", 90))
	t.refused("an eleventh service", err, v3.ErrForbidden, "at most 10")
	_, err = t.DeleteInstancePool(t, workers)
	t.refused("delete the pool", err, v3.ErrForbidden, "Locked by NLB "+string(balancer.ID))
	operation, err = t.DeleteLoadBalancerService(t, balancer.ID, service.ID)
	t.done("delete the service", operation, err)
	_, err = t.GetLoadBalancerService(t, balancer.ID, service.ID)
	t.refused("it is gone", err, v3.ErrNotFound, "")
	operation, err = t.DeleteLoadBalancer(t, balancer.ID)
	t.done("delete the load balancer with all others", operation, err)
}

// only is the one service of a load balancer.
func (t *tour) only(id v3.UUID) v3.LoadBalancerService {
	balancer, err := t.GetLoadBalancer(t, id)
	t.Must("read the load balancer", err)
	t.Equal("one service", len(balancer.Services), 1)
	return balancer.Services[0]
}

// refusals are what the SDK lets pass and the API does not.
func refusals(t *tour) {
	balancer := t.balancer("refusals")
	for fragment, change := range map[string]func(*v3.AddServiceToLoadBalancerRequest){
		"healthcheck.uri is missing":      func(it *v3.AddServiceToLoadBalancerRequest) { it.Healthcheck.Mode = "http" },
		"interval must not be less":       func(it *v3.AddServiceToLoadBalancerRequest) { it.Healthcheck.Timeout = 20 },
		"tls-sni is only for https":       func(it *v3.AddServiceToLoadBalancerRequest) { it.Healthcheck.TlsSNI = "a" },
		"protocol must be one of":         func(it *v3.AddServiceToLoadBalancerRequest) { it.Protocol = "sctp" },
		"strategy must be one of":         func(it *v3.AddServiceToLoadBalancerRequest) { it.Strategy = "random" },
		"healthcheck.port is missing":     func(it *v3.AddServiceToLoadBalancerRequest) { it.Healthcheck.Port = 0 },
		"healthcheck.mode must be one of": func(it *v3.AddServiceToLoadBalancerRequest) { it.Healthcheck.Mode = "icmp" },
	} {
		request := aService("web", 80)
		change(&request)
		_, err := t.AddServiceToLoadBalancer(t, balancer.ID, request)
		// The SDK tells only the message, which is the same for all.
		t.refused(fragment, err, v3.ErrBadRequest, "Invalid request body")
	}
	elsewhere := aService("web", 80)
	elsewhere.InstancePool = &v3.InstancePool{ID: unknown}
	_, err := t.AddServiceToLoadBalancer(t, balancer.ID, elsewhere)
	t.refused("a pool that does not exist", err, v3.ErrNotFound, string(unknown))
	more := []*v3.LoadBalancer{balancer, t.balancer("second"), t.balancer("third")}
	_, err = t.CreateLoadBalancer(t, v3.CreateLoadBalancerRequest{Name: "fourth"})
	t.refused("more than the quota", err, v3.ErrForbidden, "network-load-balancer")
	quota, err := t.GetQuota(t, "network-load-balancer")
	t.Must("read the quota", err)
	t.Equal("its use", quota.Usage, int64(3))
	for _, one := range more {
		operation, err := t.DeleteLoadBalancer(t, one.ID)
		t.done("delete it", operation, err)
	}
	for what, call := range map[string]func() (*v3.Operation, error){
		"delete": func() (*v3.Operation, error) { return t.DeleteLoadBalancer(t, unknown) },
		"rename": func() (*v3.Operation, error) {
			return t.UpdateLoadBalancer(t, unknown, v3.UpdateLoadBalancerRequest{Name: "x"})
		},
		"reset":          func() (*v3.Operation, error) { return t.ResetLoadBalancerField(t, unknown, "description") },
		"add":            func() (*v3.Operation, error) { return t.AddServiceToLoadBalancer(t, unknown, aService("web", 80)) },
		"delete service": func() (*v3.Operation, error) { return t.DeleteLoadBalancerService(t, unknown, unknown) },
		"read operation": func() (*v3.Operation, error) { return t.GetOperation(t, unknown) },
		"stop":           func() (*v3.Operation, error) { return t.StopInstance(t, unknown) },
		"delete pool":    func() (*v3.Operation, error) { return t.DeleteInstancePool(t, unknown) },
	} {
		_, err := call()
		t.refused(what+" of what does not exist", err, v3.ErrNotFound, "")
	}
}

// roles let keys do less, and wrong keys do nothing.
func roles(t *tour) {
	reader := client("EXO00000000000000000000000b", "only-look")
	_, err := reader.ListLoadBalancers(t)
	t.Must("list with the second key", err)
	_, err = reader.CreateLoadBalancer(t, v3.CreateLoadBalancerRequest{Name: "no"})
	t.refused("create with it", err, v3.ErrForbidden, "create-load-balancer")
	_, err = reader.StopInstance(t, instance)
	t.refused("stop with it", err, v3.ErrForbidden, "stop-instance")
	for what, wrong := range map[string]*v3.Client{
		"a wrong secret": client("EXO00000000000000000000000a", "nothing"), "an unknown key": client("EXO0", "everything"),
	} {
		_, err = wrong.ListInstances(t)
		t.refused(what, err, v3.ErrForbidden, "Invalid request signature")
		_, err = wrong.ListZones(t)
		t.refused(what+" for what is public, when it is signed", err, v3.ErrForbidden, "Invalid request signature")
	}
}
