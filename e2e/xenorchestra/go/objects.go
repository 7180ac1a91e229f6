package main

import (
	"os"
	"strings"

	"github.com/gofrs/uuid"
	"github.com/vatesfr/xenorchestra-go-sdk/pkg/config"
	"github.com/vatesfr/xenorchestra-go-sdk/pkg/payloads"
	v2 "github.com/vatesfr/xenorchestra-go-sdk/v2"
)

func machines(t *tour) {
	vm, err := t.VM().GetByID(t, worker1)
	t.good("one VM", err)
	t.Equal("its id", vm.ID, worker1)
	t.Equal("its name", vm.NameLabel, "worker 1")
	t.Equal("its type", string(vm.Type), "VM")
	t.Equal("its state", vm.PowerState, payloads.PowerStateRunning)
	t.Equal("its processors", vm.CPUs, payloads.CPUs{Number: 2, Max: 4})
	t.Equal("its memory", vm.Memory.Size, int64(4<<30))
	t.Equal("its address", vm.MainIpAddress, "10.20.0.11")
	t.Equal("its pool", vm.PoolID, labPool)
	t.Equal("its host", vm.Container, xcp1)
	t.Equal("its tags", vm.Tags, []string{"k8s"})
	t.Equal("its cards and disks", []int{len(vm.VIFs), len(vm.VBDs)}, []int{1, 1})

	off, err := t.VM().GetByID(t, halted)
	t.good("a VM that is off", err)
	t.Equal("its name of any letters", off.NameLabel, "nœud")
	t.Equal("its place", off.Container, drPool)
	t.Equal("its missing address", off.MainIpAddress, "")

	all, err := t.VM().GetAll(t, 0, "")
	t.good("all VMs", err)
	t.Equal("their number", len(all), 3)
	first, err := t.VM().GetAll(t, 1, "")
	t.good("a limited list", err)
	t.Equal("its length", len(first), 1)
	listed, err := t.VM().List(t)
	t.good("a list by paths", err)
	t.Equal("its length", len(listed), 3)
	for filter, want := range map[string]int{
		"power_state:halted": 1, "id:|(" + worker1.String() + " " + worker2.String() + ")": 2,
		"$pool:" + labPool.String(): 2, "CPUs:max:>2": 1, "name_label:/^worker-/": 1, "!tags:k8s": 2,
	} {
		some, err := t.VM().GetAll(t, 0, filter)
		t.good(filter, err)
		t.Equal(filter, len(some), want)
	}
}

func hosts(t *tour) {
	host, err := t.Host().Get(t, xcp1)
	t.good("one host", err)
	t.Equal("its name", host.NameLabel, "xcp 1")
	t.Equal("its pool", []uuid.UUID{host.Pool, host.PoolID}, []uuid.UUID{labPool, labPool})
	t.Check(host.ControlDomain != uuid.Nil, "its control domain is missing")
	t.Check(len(host.ResidentVMs) == 2 && host.ResidentVMs[0] == worker1, "its VMs: %v", host.ResidentVMs)
	t.Check(host.CPUs != nil && host.HostCPUCores != nil && host.HostCPUCores.Cores == 16, "its processors: %+v", host)
	t.Check(host.Memory != nil && host.Memory.Size > host.Memory.Usage, "its memory: %+v", host.Memory)
	t.Check(host.Enabled && host.PowerState == "Running", "its state: %+v", host)
	all, err := t.Host().GetAll(t, 0, "$pool:"+labPool.String())
	t.good("the hosts of a pool", err)
	t.Equal("their number", len(all), 2)
}

func pools(t *tour) {
	pool, err := t.Pool().Get(t, labPool)
	t.good("one pool", err)
	t.Equal("its name", pool.NameLabel, "lab pool")
	t.Equal("its ids", []uuid.UUID{pool.ID, pool.UUID, pool.PoolID}, []uuid.UUID{labPool, labPool, labPool})
	t.Equal("its master", pool.Master, xcp1)
	t.Check(pool.DefaultSR != uuid.Nil, "its storage is missing")
	t.Equal("its processors", pool.CPUs, payloads.PoolCPUs{Cores: 32, Sockets: 2})
	all, err := t.Pool().GetAll(t, 0, "tags:dr")
	t.good("pools with a tag", err)
	t.Equal("their number", len(all), 1)
}

func tags(t *tour) {
	t.good("a tag", t.VM().AddTag(t, worker1, "prod"))
	vm, _ := t.VM().GetByID(t, worker1)
	t.Equal("tags", vm.Tags, []string{"k8s", "prod"})
	t.good("a tag that is there", t.VM().AddTag(t, worker1, "prod"))
	t.good("no tag", t.VM().RemoveTag(t, worker1, "prod"))
	vm, _ = t.VM().GetByID(t, worker1)
	t.Equal("tags", vm.Tags, []string{"k8s"})
	t.good("a tag of a host", t.Host().AddTag(t, xcp1, "rack"))
	t.good("no tag of a host", t.Host().RemoveTag(t, xcp1, "rack"))
	t.good("a tag of a pool", t.Pool().AddTag(t, labPool, "prod"))
	t.good("no tag of a pool", t.Pool().RemoveTag(t, labPool, "prod"))
	t.refused("a tag of nothing", t.VM().AddTag(t, unknown, "a"), 404, "no such VM "+unknown.String())
}

// certificates checks that a certificate which nobody signed is refused by default.
func certificates(t *tour) {
	c, err := v2.New(&config.Config{Url: t.root, Token: adminToken,
		LogOutputPaths: []string{os.DevNull}, LogErrorOutputPaths: []string{os.DevNull}})
	t.good("a strict client", err)
	_, err = c.VM().GetByID(t, worker1)
	t.Check(err != nil && strings.Contains(err.Error(), "certificate"), "a self-signed certificate: %v", err)
}

func actions(t *tour) {
	task, err := t.VM().CleanShutdown(t, worker2)
	t.good("a shutdown", err)
	running, err := t.Task().Get(t, task)
	t.good("its task", err)
	t.Equal("the name of the task", running.Properties.Name, "REST API: clean shutdown VM")
	t.Equal("the object of the task", running.Properties.ObjectID, worker2.String())
	ended, err := t.Task().Wait(t, task)
	t.good("its end", err)
	t.Equal("its outcome", ended.Status, payloads.Success)
	t.Check(ended.EndedAt.Time().Sub(ended.Started.Time()) > 0, "it took no time: %+v", ended)
	vm, _ := t.VM().GetByID(t, worker2)
	t.Equal("a VM that is off", vm.PowerState, payloads.PowerStateHalted)
	t.Equal("its place", vm.Container, labPool)

	_, err = t.VM().Start(t, worker2, &xcp1)
	t.good("a start on a host", err)
	vm = t.until(worker2, "a start", func(vm *payloads.VM) bool { return vm.PowerState == payloads.PowerStateRunning })
	t.Equal("its host", vm.Container, xcp1)
	t.until(worker2, "an address", func(vm *payloads.VM) bool { return vm.MainIpAddress == "10.20.0.12" })
	again, err := t.VM().Start(t, worker2, nil)
	t.good("a start of what runs is a task", err)
	failed, err := t.Task().Wait(t, again)
	t.good("its end", err)
	t.Equal("its outcome", failed.Status, payloads.Failure)
	t.Equal("its reason", failed.Result.Code, any("VM_BAD_POWER_STATE"))
	for _, step := range []struct {
		what  string
		begin func() (string, error)
		state string
	}{
		{"pause", func() (string, error) { return t.VM().Pause(t, worker2) }, payloads.PowerStatePaused},
		{"unpause", func() (string, error) { return t.VM().Unpause(t, worker2) }, payloads.PowerStateRunning},
		{"suspend", func() (string, error) { return t.VM().Suspend(t, worker2) }, payloads.PowerStateSuspended},
		{"resume", func() (string, error) { return t.VM().Resume(t, worker2) }, payloads.PowerStateRunning},
		{"reboot", func() (string, error) { return t.VM().HardReboot(t, worker2) }, payloads.PowerStateRunning},
		{"shutdown", func() (string, error) { return t.VM().HardShutdown(t, worker2) }, payloads.PowerStateHalted},
	} {
		task, err := step.begin()
		t.good(step.what, err)
		ended, err := t.Task().Wait(t, task)
		t.Check(err == nil && ended.Status == payloads.Success, "%s: %v, %+v", step.what, err, ended)
		t.until(worker2, step.what, func(vm *payloads.VM) bool { return vm.PowerState == step.state })
	}
	all, err := t.Task().GetAll(t, 0, "status:failure")
	t.good("failed tasks", err)
	t.Equal("their number", len(all), 1)
	t.Equal("which", all[0].ID, again)
	t.good("a deletion", t.VM().Delete(t, worker2))
	_, err = t.VM().GetByID(t, worker2)
	t.refused("what was deleted", err, 404, "no such VM "+worker2.String())
	t.refused("a deletion of what runs", t.VM().Delete(t, worker1), 500, "VM_BAD_POWER_STATE")
}

func refusals(t *tour) {
	_, err := t.VM().GetByID(t, unknown)
	t.refused("no VM", err, 404, "no such VM "+unknown.String())
	_, err = t.VM().GetByID(t, xcp1)
	t.refused("a host is no VM", err, 404, "no such VM ")
	_, err = t.Host().Get(t, unknown)
	t.refused("no host", err, 404, "no such host ")
	_, err = t.Pool().Get(t, unknown)
	t.refused("no pool", err, 404, "no such pool ")
	_, err = t.Task().Get(t, "0mdd1basu")
	t.refused("no task", err, 404, "no such task 0mdd1basu")
	_, err = t.VM().GetAll(t, 0, "id:|()")
	t.refused("no filter", err, 400, "parse error: expected end of input at position 2")
	_, err = t.VM().Restart(t, worker1)
	t.refused("no action", err, 404, "Cannot POST")
	_, err = t.client("nonsense").VM().GetAll(t, 1, "")
	t.refused("no token", err, 401, "invalid credentials")
}

func rights(t *tour) {
	reader := t.client(readerToken)
	all, err := reader.VM().GetAll(t, 0, "")
	t.good("VMs that may be read", err)
	t.Check(len(all) > 0, "VMs that may be read are missing")
	none, err := reader.Host().GetAll(t, 0, "")
	t.good("hosts that may not be read", err)
	t.Equal("their number", len(none), 0)
	_, err = reader.Host().Get(t, xcp1)
	t.refused("a host that may not be read", err, 403, "not enough privileges")
	_, err = reader.Host().Get(t, unknown)
	t.refused("no host", err, 404, "no such host")
	_, err = reader.VM().HardShutdown(t, worker1)
	t.refused("an action without a right", err, 403, "shutdown:hard")
	empty, err := t.client(nobodyToken).VM().GetAll(t, 1, "")
	t.good("a list without rights", err)
	t.Equal("its length", len(empty), 0)
}

// passwords checks that the SDK's own way fails as it does with every release.
func passwords(t *tour) {
	_, err := v2.New(&config.Config{Url: t.root, Username: "admin@admin.net", Password: "admin"})
	t.Check(err != nil && strings.Contains(err.Error(), "no auth token found"), "the SDK's sign-in: %v", err)
}
