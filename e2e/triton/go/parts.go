package main

import (
	"slices"
	"strings"

	"github.com/joyent/triton-go/account"
	"github.com/joyent/triton-go/compute"
	"github.com/joyent/triton-go/network"
)

func catalogue(t *tour) {
	own, err := t.account.Get(t, &account.GetInput{})
	t.Must("read the account", err)
	t.Equal("its login", own.Login, "acme")
	t.Check(own.TritonCNSEnabled, "its machines have names")
	keys, err := t.account.Keys().List(t, &account.ListKeysInput{})
	t.Must("list keys", err)
	t.Equal("two keys", len(keys), 2)
	ping, err := t.compute.Ping(t)
	t.Must("ping", err)
	t.Equal("pong", ping.Ping, "pong")
	t.Check(slices.Contains(ping.CloudAPI.Versions, "9.0.0"), "versions: %v", ping.CloudAPI.Versions)
	centers, err := t.compute.Datacenters().List(t, &compute.ListDataCentersInput{})
	t.Must("list data centers", err)
	t.Equal("one data center", centers[0].Name, "eg-1")
	services, err := t.compute.Services().List(t, &compute.ListServicesInput{})
	t.Must("list services", err)
	t.Check(slices.ContainsFunc(services, func(s *compute.Service) bool { return s.Name == "cmon" }), "metrics")
	packages, err := t.compute.Packages().List(t, &compute.ListPackagesInput{Name: "lb1.small"})
	t.Must("list packages", err)
	t.Check(len(packages) == 1 && packages[0].Memory == 512, "one package: %v", packages)
	images, err := t.compute.Images().List(t, &compute.ListImagesInput{Name: "cloud-load-balancer", State: "active"})
	t.Must("list images", err)
	t.Check(len(images) == 1 && images[0].OS == "smartos", "one image: %v", images)
}

func machines(t *tour) {
	count, err := t.compute.Instances().Count(t, &compute.ListInstancesInput{})
	t.Must("count machines", err)
	t.Equal("as many as the fixture has", count, 22)
	var all []string
	for offset := uint16(0); ; offset += 8 {
		page, err := t.compute.Instances().List(t, &compute.ListInstancesInput{Limit: 8, Offset: offset})
		t.Must("list a page", err)
		for _, one := range page {
			all = append(all, one.ID)
		}
		if len(page) < 8 {
			break
		}
	}
	t.Check(len(all) == 22 && slices.IsSorted(all), "all pages, by id: %v", all)
	named, err := t.compute.Instances().List(t, &compute.ListInstancesInput{Name: "k8s", State: "stopped"})
	t.Must("list by name and state", err)
	t.Check(len(named) == 1 && named[0].Name == "k8s-2", "one: %v", named)
	tagged, err := t.compute.Instances().List(t, &compute.ListInstancesInput{
		Tags: map[string]interface{}{"role": "worker"},
	})
	t.Must("list by tag", err)
	t.Check(len(tagged) == 1 && tagged[0].ID == first, "one: %v", tagged)
	one, err := t.compute.Instances().Get(t, &compute.GetInstanceInput{ID: first})
	t.Must("read a machine", err)
	t.Equal("its services", one.CNS.Services, []string{"web:80"})
	t.Check(slices.ContainsFunc(one.DomainNames, func(name string) bool {
		return strings.HasPrefix(name, "web.svc.")
	}), "its names: %v", one.DomainNames)
	nics, err := t.compute.Instances().ListNICs(t, &compute.ListNICsInput{InstanceID: first})
	t.Must("list cards", err)
	t.Check(len(nics) == 2 && nics[0].Primary && nics[1].Network == fabric, "two cards: %v", nics)
}

func lives(t *tour) {
	made, err := t.compute.Instances().Create(t, &compute.CreateInstanceInput{
		Name: "go", Image: image, Package: "g4-highcpu-1G", Networks: []string{fabric},
		Tags: map[string]string{"a": "b"}, Metadata: map[string]string{"c": "d"}, FirewallEnabled: true,
	})
	t.Must("make a machine", err)
	t.Equal("it is being made", made.State, "provisioning")
	runs := func(state string) func(*compute.Instance) bool {
		return func(seen *compute.Instance) bool { return seen.State == state }
	}
	seen := t.until("it runs", made.ID, runs("running"))
	t.Check(seen.FirewallEnabled && strings.HasPrefix(seen.PrimaryIP, "10.20.0."), "as asked for: %v", seen)
	t.Equal("its metadata", seen.Metadata, map[string]string{"c": "d"})
	t.Must("stop it", t.compute.Instances().Stop(t, &compute.StopInstanceInput{InstanceID: made.ID}))
	t.until("it stops", made.ID, runs("stopped"))
	t.Must("start it", t.compute.Instances().Start(t, &compute.StartInstanceInput{InstanceID: made.ID}))
	t.until("it runs again", made.ID, runs("running"))
	rename := compute.RenameInstanceInput{ID: made.ID, Name: "gopher"}
	t.Must("rename it", t.compute.Instances().Rename(t, &rename))
	t.until("it is renamed", made.ID, func(seen *compute.Instance) bool { return seen.Name == "gopher" })
	protect := compute.EnableDeletionProtectionInput{InstanceID: made.ID}
	t.Must("protect it", t.compute.Instances().EnableDeletionProtection(t, &protect))
	t.until("it is protected", made.ID, func(seen *compute.Instance) bool { return seen.DeletionProtection })
	err = t.compute.Instances().Delete(t, &compute.DeleteInstanceInput{ID: made.ID})
	t.refused("destroy it", err, "CannotDestroyMachineError", "deletion_protection")
	release := compute.DisableDeletionProtectionInput{InstanceID: made.ID}
	t.Must("release it", t.compute.Instances().DisableDeletionProtection(t, &release))
	t.until("it is released", made.ID, func(seen *compute.Instance) bool { return !seen.DeletionProtection })
	t.Must("destroy it", t.compute.Instances().Delete(t, &compute.DeleteInstanceInput{ID: made.ID}))
}

func labels(t *tour) {
	add := compute.AddTagsInput{ID: first, Tags: map[string]string{"x": "y", "on": "yes"}}
	t.Must("add tags", t.compute.Instances().AddTags(t, &add))
	seen := t.until("they are there", first, func(seen *compute.Instance) bool { return seen.Tags["on"] == "yes" })
	t.Equal("others stay", seen.Tags["role"], "worker")
	t.Must("delete a tag", t.compute.Instances().DeleteTag(t, &compute.DeleteTagInput{ID: first, Key: "x"}))
	t.until("it is gone", first, func(seen *compute.Instance) bool { return seen.Tags["x"] == nil })
	err := t.compute.Instances().DeleteTag(t, &compute.DeleteTagInput{ID: first, Key: "x"})
	t.refused("delete it again", err, "ResourceNotFound", "x")
	metadata := compute.UpdateMetadataInput{ID: first, Metadata: map[string]string{"k": "v"}}
	future, err := t.compute.Instances().UpdateMetadata(t, &metadata)
	t.Must("set metadata", err)
	t.Equal("what it will be", future["k"], "v")
	t.until("it is there", first, func(seen *compute.Instance) bool { return seen.Metadata["k"] == "v" })
	t.Must("delete metadata", t.compute.Instances().DeleteMetadata(t, &compute.DeleteMetadataInput{ID: first, Key: "k"}))
	t.until("it is gone too", first, func(seen *compute.Instance) bool { return seen.Metadata["k"] == "" })
}

func networks(t *tour) {
	all, err := t.network.List(t, &network.ListInput{})
	t.Must("list networks", err)
	t.Equal("two networks", len(all), 2)
	one, err := t.network.Get(t, &network.GetInput{ID: fabric})
	t.Must("read a network", err)
	t.Check(one.Fabric && one.Subnet == "10.20.0.0/24" && one.InternetNAT, "a fabric network: %v", one)
	vlans, err := t.network.Fabrics().ListVLANs(t, &network.ListVLANsInput{})
	t.Must("list VLANs", err)
	t.Equal("one VLAN", vlans[0].ID, 2)
	_, err = t.network.Fabrics().CreateVLAN(t, &network.CreateVLANInput{ID: 7, Name: "seven"})
	t.Must("make a VLAN", err)
	made, err := t.network.Fabrics().Create(t, &network.CreateFabricInput{
		FabricVLANID: 7, Name: "routed", Subnet: "10.70.0.0/24", ProvisionStartIP: "10.70.0.10",
		ProvisionEndIP: "10.70.0.99", Routes: map[string]string{"10.244.0.0/24": "10.70.0.11"},
	})
	t.Must("make a fabric network", err)
	t.Equal("its routes", made.Routes, map[string]string{"10.244.0.0/24": "10.70.0.11"})
	t.Must("delete it", t.network.Fabrics().Delete(t, &network.DeleteFabricInput{FabricVLANID: 7, NetworkID: made.Id}))
	t.Must("delete its VLAN", t.network.Fabrics().DeleteVLAN(t, &network.DeleteVLANInput{ID: 7}))
}

func rules(t *tour) {
	text := `FROM any TO tag role = worker ALLOW tcp (PORT 443 AND PORT 80)`
	made, err := t.network.Firewall().CreateRule(t, &network.CreateRuleInput{Rule: text, Enabled: true})
	t.Must("make a rule", err)
	t.Equal("ports in order", made.Rule, "FROM any TO tag role = worker ALLOW tcp (PORT 80 AND PORT 443)")
	of, err := t.network.Firewall().ListMachineRules(t, &network.ListMachineRulesInput{MachineID: first})
	t.Must("list the rules of a machine", err)
	t.Equal("one rule", len(of), 1)
	off, err := t.network.Firewall().DisableRule(t, &network.DisableRuleInput{ID: made.ID})
	t.Must("disable it", err)
	t.Check(!off.Enabled, "it is off")
	t.Must("delete it", t.network.Firewall().DeleteRule(t, &network.DeleteRuleInput{ID: made.ID}))
	_, err = t.network.Firewall().GetRule(t, &network.GetRuleInput{ID: made.ID})
	t.refused("read it", err, "ResourceNotFound", "")
	_, err = t.network.Firewall().CreateRule(t, &network.CreateRuleInput{Rule: "FROM any TO any ALLOW tcp PORT 1"})
	t.refused("make a bad one", err, "InvalidParameters", "")
}

func refusals(t *tour) {
	_, err := t.compute.Instances().Get(t, &compute.GetInstanceInput{ID: unknown})
	t.refused("read what is not there", err, "ResourceNotFound", "VM not found")
	_, err = t.compute.Instances().Create(t, &compute.CreateInstanceInput{
		Name: "k8s-1", Image: image, Package: "g4-highcpu-1G",
	})
	t.refused("a name that is taken", err, "ValidationFailed", "Invalid machine name")
	tags := map[string]string{"triton.unknown": "x"}
	err = t.compute.Instances().AddTags(t, &compute.AddTagsInput{ID: first, Tags: tags})
	t.refused("a special tag that is none", err, "ValidationFailed", "error adding tags")
	nobody, err := account.NewClient(t.config("nobody"))
	t.Must("a client of nobody", err)
	_, err = nobody.Get(t, &account.GetInput{})
	t.refused("be nobody", err, "InvalidCredentials", "Invalid authorization credentials supplied")
}
