package main

import (
	"net"
	"os"
	"strings"

	v3 "github.com/exoscale/egoscale/v3"
)

// zones are found by their names, each at an address of its own.
func zones(t *tour) {
	list, err := t.ListZones(t)
	t.Must("list zones", err)
	t.Equal("two zones", len(list.Zones), 2)
	root := os.Getenv("EXOSCALE_API_ENDPOINT")
	for _, zone := range list.Zones {
		at := strings.TrimSuffix(root, "/v2")
		t.Check(strings.HasPrefix(string(zone.APIEndpoint), at), "%s leads away, to %s", zone.Name, zone.APIEndpoint)
		t.Check(strings.HasSuffix(string(zone.APIEndpoint), "/v2"), "%s ends in /v2", zone.APIEndpoint)
	}
	endpoint, err := t.GetZoneAPIEndpoint(t, "at-vie-1")
	t.Must("find a zone", err)
	name, err := t.GetZoneName(t, endpoint)
	t.Must("find it back", err)
	t.Equal("its name", name, v3.ZoneName("at-vie-1"))
	_, err = t.GetZoneAPIEndpoint(t, "mars-1")
	t.refused("a zone that does not exist", err, v3.ErrNotFound, "not found in ListZonesResponse")
	there := t.WithEndpoint(endpoint)
	pools, err := there.ListInstancePools(t)
	t.Must("list the pools of the other zone", err)
	t.Equal("one pool", len(pools.InstancePools), 1)
	t.Equal("another one", pools.InstancePools[0].Name, "elsewhere")
	_, err = there.GetInstance(t, instance)
	t.refused("an instance of the first zone", err, v3.ErrNotFound, "")
}

// catalogue is what the command line reads before it does anything.
func catalogue(t *tour) {
	types, err := t.ListInstanceTypes(t)
	t.Must("list instance types", err)
	medium, err := types.FindInstanceTypeByIdOrFamilyAndSize("standard.medium")
	t.Must("find a type", err)
	one, err := t.GetInstanceType(t, medium.ID)
	t.Must("read it", err)
	t.Equal("what is listed is what is read", *one, medium)
	t.Equal("its memory", one.Memory, int64(4<<30))
	_, err = t.GetInstanceType(t, unknown)
	t.refused("a type that does not exist", err, v3.ErrNotFound, "")
	templates, err := t.ListTemplates(t)
	t.Must("list templates", err)
	t.Check(len(templates.Templates) > 0, "there are templates")
	_, err = t.GetTemplate(t, templates.Templates[0].ID)
	t.Must("read one", err)
	for what, list := range map[string]func() (int, error){
		"ssh keys":             func() (int, error) { l, err := t.ListSSHKeys(t); return len(l.SSHKeys), err },
		"security groups":      func() (int, error) { l, err := t.ListSecurityGroups(t); return len(l.SecurityGroups), err },
		"anti-affinity groups": func() (int, error) { l, err := t.ListAntiAffinityGroups(t); return len(l.AntiAffinityGroups), err },
		"elastic IPs":          func() (int, error) { l, err := t.ListElasticIPS(t); return len(l.ElasticIPS), err },
	} {
		count, err := list()
		t.Must("list "+what, err)
		t.Equal("no "+what, count, 0)
	}
	networks, err := t.ListPrivateNetworks(t)
	t.Must("list private networks", err)
	t.Equal("one network", len(networks.PrivateNetworks), 1)
	network, err := t.GetPrivateNetwork(t, networks.PrivateNetworks[0].ID)
	t.Must("read it", err)
	t.Check(network.StartIP.Equal(net.ParseIP("10.0.0.10")), "its first address: %v", network.StartIP)
	quotas, err := t.ListQuotas(t)
	t.Must("list quotas", err)
	t.Check(len(quotas.Quotas) > 1, "there are quotas")
	quota, err := t.GetQuota(t, "network-load-balancer")
	t.Must("read one", err)
	t.Equal("the quota", *quota, v3.Quota{Resource: "network-load-balancer", Limit: 3})
}

// newInstance is one that can be made.
func (t *tour) newInstance(name string) v3.CreateInstanceRequest {
	types, err := t.ListInstanceTypes(t)
	t.Must("list instance types", err)
	small, err := types.FindInstanceTypeByIdOrFamilyAndSize("small")
	t.Must("find a type", err)
	templates, err := t.ListTemplates(t)
	t.Must("list templates", err)
	return v3.CreateInstanceRequest{
		Name: name, DiskSize: 20, InstanceType: &v3.InstanceType{ID: small.ID},
		Template: &v3.Template{ID: templates.Templates[0].ID}, Labels: v3.Labels{"tour": "go"},
		PublicIPAssignment: v3.PublicIPAssignmentDual,
	}
}

// instances are listed, read, made, stopped, started and deleted.
func instances(t *tour) {
	got, err := t.GetInstance(t, instance)
	t.Must("read an instance", err)
	t.Equal("its name keeps its case", got.Name, "Pool-a1b2c-xyz")
	t.Equal("its address", got.PublicIP.String(), "198.51.100.21")
	t.Equal("its IPv6 address", got.Ipv6Address, "2001:db8::21")
	t.Equal("its networks", len(got.PrivateNetworks), 1)
	t.Equal("its manager", *got.Manager, v3.Manager{ID: workers, Type: v3.ManagerTypeInstancePool})
	t.Equal("its state", got.State, v3.InstanceStateRunning)
	t.Check(got.InstanceType.ID != "" && got.InstanceType.Family == "", "its type is only named: %+v", got.InstanceType)
	t.Check(!got.CreatedAT.IsZero(), "when it was made")
	all, err := t.ListInstances(t)
	t.Must("list instances", err)
	t.Equal("how many", len(all.Instances), 6)
	listed, err := all.FindListInstancesResponseInstances(string(instance))
	t.Must("find it", err)
	t.Equal("the same address", listed.PublicIP, got.PublicIP)
	t.Equal("the same manager", listed.Manager, got.Manager)
	lonely, err := all.FindListInstancesResponseInstances("lonely")
	t.Must("find it by name", err)
	t.Check(lonely.PublicIP == nil && lonely.Manager == nil, "no address, no manager: %+v", lonely)
	for what, option := range map[string]v3.ListInstancesOpt{
		"address": v3.ListInstancesWithIPAddress("198.51.100.21"), "label": v3.ListInstancesWithLabels("env=prod"),
	} {
		found, err := t.ListInstances(t, option)
		t.Must("list by "+what, err)
		t.Equal("found by "+what, len(found.Instances), 1)
	}
	members, err := t.ListInstances(t, v3.ListInstancesWithManagerID(workers), v3.ListInstancesWithManagerType("instance-pool"))
	t.Must("list by pool", err)
	t.Equal("members", len(members.Instances), 3)

	operation, err := t.CreateInstance(t, t.newInstance("tourist"))
	t.Must("create an instance", err)
	t.Equal("what the operation is about", operation.Reference.Command, "get-instance")
	made, err := t.GetInstance(t, operation.Reference.ID)
	t.Must("read it at once", err)
	t.Equal("it starts", made.State, v3.InstanceStateStarting)
	// Once as patiently as the SDK itself.
	operation, err = t.Wait(t, operation, v3.OperationStateSuccess)
	t.Must("wait for it", err)
	made, err = t.GetInstance(t, operation.Reference.ID)
	t.Must("read it again", err)
	t.Equal("it runs", made.State, v3.InstanceStateRunning)
	t.Check(made.Ipv6Address != "", "it has an IPv6 address")
	t.Equal("its labels", made.Labels, v3.Labels{"tour": "go"})
	_, err = t.StartInstance(t, made.ID, v3.StartInstanceRequest{})
	t.refused("start what runs", err, v3.ErrBadRequest, "must be stopped")
	operation, err = t.StopInstance(t, made.ID)
	t.done("stop it", operation, err)
	t.inState(made.ID, v3.InstanceStateStopped)
	operation, err = t.StartInstance(t, made.ID, v3.StartInstanceRequest{})
	t.done("start it", operation, err)
	operation, err = t.RebootInstance(t, made.ID)
	t.done("reboot it", operation, err)
	t.inState(made.ID, v3.InstanceStateRunning)
	operation, err = t.UpdateInstance(t, made.ID, v3.UpdateInstanceRequest{Name: "renamed"})
	t.done("rename it", operation, err)
	operation, err = t.DeleteInstance(t, made.ID)
	t.Must("delete it", err)
	t.inState(made.ID, v3.InstanceStateDestroying)
	t.done("delete it", operation, err)
	_, err = t.GetInstance(t, made.ID)
	t.refused("it is gone", err, v3.ErrNotFound, "")
}

func (t *tour) inState(id v3.UUID, state v3.InstanceState) {
	got, err := t.GetInstance(t, id)
	t.Must("read the instance", err)
	t.Equal("its state", got.State, state)
}

// pools are made, scaled, evicted from and deleted.
func pools(t *tour) {
	all, err := t.ListInstancePools(t)
	t.Must("list pools", err)
	pool, err := all.FindInstancePool("workers")
	t.Must("find one", err)
	t.Equal("its members", len(pool.Instances), 3)
	like := t.newInstance("")
	request := v3.CreateInstancePoolRequest{
		Name: "tourists", Size: 2, DiskSize: 20, InstanceType: like.InstanceType, Template: like.Template, InstancePrefix: "tour",
	}
	operation, err := t.CreateInstancePool(t, request)
	id := t.done("create a pool", operation, err)
	got := t.members(id, 2)
	t.Equal("it runs", got.State, v3.InstancePoolStateRunning)
	member, err := t.GetInstance(t, got.Instances[0].ID)
	t.Must("read a member", err)
	t.Check(strings.HasPrefix(member.Name, "tour-"+string(id[:5])+"-"), "its name: %s", member.Name)
	t.Equal("its manager", member.Manager.ID, id)
	operation, err = t.ScaleInstancePool(t, id, v3.ScaleInstancePoolRequest{Size: 4})
	t.done("scale it up", operation, err)
	got = t.members(id, 4)
	leaving := got.Instances[1].ID
	operation, err = t.EvictInstancePoolMembers(t, id, v3.EvictInstancePoolMembersRequest{Instances: []v3.UUID{leaving}})
	t.done("evict a member", operation, err)
	_, err = t.GetInstance(t, leaving)
	t.refused("it is gone", err, v3.ErrNotFound, "")
	t.members(id, 3)
	operation, err = t.ScaleInstancePool(t, id, v3.ScaleInstancePoolRequest{Size: 1})
	t.done("scale it down", operation, err)
	got = t.members(id, 1)
	operation, err = t.DeleteInstancePool(t, id)
	t.done("delete it", operation, err)
	_, err = t.GetInstancePool(t, id)
	t.refused("it is gone", err, v3.ErrNotFound, "")
	_, err = t.GetInstance(t, got.Instances[0].ID)
	t.refused("and its member", err, v3.ErrNotFound, "")
}

// members checks how many a pool has and wants.
func (t *tour) members(id v3.UUID, count int) *v3.InstancePool {
	pool, err := t.GetInstancePool(t, id)
	t.Must("read the pool", err)
	t.Equal("its size and members", []int{int(pool.Size), len(pool.Instances)}, []int{count, count})
	return pool
}

// clusters are listed, and their nodepools lead to instance pools.
func clusters(t *tour) {
	all, err := t.ListSKSClusters(t)
	t.Must("list clusters", err)
	cluster, err := all.FindSKSCluster("prod")
	t.Must("find one", err)
	t.Equal("its nodepools", len(cluster.Nodepools), 1)
	nodepool := cluster.Nodepools[0]
	pool, err := t.GetInstancePool(t, nodepool.InstancePool.ID)
	t.Must("read the pool of its nodepool", err)
	t.Equal("who manages it", *pool.Manager, v3.Manager{ID: nodepool.ID, Type: v3.ManagerTypeSKSNodepool})
	again, err := t.GetSKSCluster(t, cluster.ID)
	t.Must("read it", err)
	t.Equal("what is listed is what is read", *again, cluster)
	operation, err := t.ScaleSKSNodepool(t, cluster.ID, nodepool.ID, v3.ScaleSKSNodepoolRequest{Size: 3})
	t.done("scale the nodepool", operation, err)
	t.members(pool.ID, 3)
	got, err := t.GetSKSNodepool(t, cluster.ID, nodepool.ID)
	t.Must("read the nodepool", err)
	t.Equal("its size", got.Size, int64(3))
}
