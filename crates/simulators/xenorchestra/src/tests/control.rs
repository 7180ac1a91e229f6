//! The control handle: pools that come and go, VMs that change, kubelets.

use bowline_simulator::testing::documented;

use bowline_simulator::machines::Power;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_disconnected_pool_is_gone_with_everything() {
    let sim = Harness::new();
    for (state, enabled) in [
        (Connection::Disconnected, false),
        (Connection::Connecting, true),
    ] {
        sim.orchestra.set_connection("lab pool", state).unwrap();
        for path in [
            format!("/vms/{VM1}"),
            format!("/hosts/{H1}"),
            format!("/pools/{PA}"),
        ] {
            assert_eq!(sim.status(&path).await, 404, "{path}");
        }
        assert_eq!(sim.get("/vms").await, json!([]));
        let server = sim.get("/servers?fields=*").await[0].clone();
        shows!(server, {"status": state.as_str(), "enabled": enabled});
        assert_eq!(server.get("poolId"), None);
        // The machines themselves know nothing of it.
        assert_eq!(
            sim.world.machines.power(&machine_id(VM1)),
            Some(Power::Running)
        );
        sim.orchestra.connect_pool("lab pool").unwrap();
        let server = sim.get("/servers?fields=status,poolId").await[0].clone();
        shows!(server, {"status": "connected", "poolId": PA});
        assert_eq!(sim.get("/pools").await.as_array().unwrap().len(), 1);
        pass(2).await;
        assert_eq!(sim.status(&format!("/vms/{VM1}")).await, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_shows_nothing_until_pools_are_loaded() {
    let sim = Harness::new();
    sim.orchestra.restart();
    for path in ["/vms", "/hosts", "/pools"] {
        assert_eq!(sim.get(path).await, json!([]), "{path}");
    }
    for server in sim
        .get("/servers?fields=status,enabled")
        .await
        .as_array()
        .unwrap()
    {
        shows!(server, {"status": "connected", "enabled": true});
    }
    pass(2).await;
    assert_eq!(sim.get("/vms").await.as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pool_may_have_lost_the_records_of_its_vms() {
    let sim = Harness::new();
    sim.orchestra.lose_vm_records("lab pool", true).unwrap();
    assert_eq!(sim.status(&format!("/vms/{VM1}")).await, 404);
    let path = format!("/hosts?fields=id,controlDomain,residentVms&filter=$pool:{PA}");
    for host in sim.get(&path).await.as_array().unwrap() {
        assert_eq!(host.get("controlDomain"), None);
        assert_eq!(host["residentVms"], json!([null, null]));
    }
    assert_eq!(sim.status(&format!("/pools/{PA}")).await, 200);
    sim.orchestra.lose_vm_records("lab pool", false).unwrap();
    assert_eq!(sim.status(&format!("/vms/{VM1}")).await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_runs_while_its_vm_does() {
    let sim = Harness::new();
    let orchestra = &sim.orchestra;
    let kubelet = orchestra.kubelet("worker 1").unwrap();
    assert_eq!(
        (kubelet.node_name.as_str(), kubelet.system_uuid.as_str()),
        ("worker-1", VM1)
    );
    assert_eq!(
        kubelet.own_addresses,
        ["10.20.0.11".parse::<std::net::IpAddr>().unwrap()]
    );
    let swapped = orchestra.swapped_kubelet("worker 1").unwrap();
    assert_eq!(swapped.system_uuid, "b2d5a9c1-7f4e-634a-9b1d-0f2e3d4c5b6a");
    let power = || sim.world.machines.power(&kubelet.machine_id);
    assert_eq!(power(), Some(Power::Running));
    for state in [
        PowerState::Halted,
        PowerState::Paused,
        PowerState::Suspended,
    ] {
        orchestra.set_power("worker 1", state).unwrap();
        assert_eq!(power(), Some(Power::Off), "{state:?}");
        orchestra.start("worker 1").unwrap();
        assert_eq!(power(), Some(Power::Running));
    }
    orchestra.migrate("worker 1", "dr-host").unwrap();
    assert_eq!(power(), Some(Power::Running));
    assert_eq!(
        orchestra.provider_id("worker 1").unwrap(),
        format!("xenorchestra://{PB}/{VM1}")
    );
    orchestra.destroy("worker 1").unwrap();
    assert_eq!(power(), None);
}

#[tokio::test(start_paused = true)]
async fn uuids_are_swapped_as_firmware_does() {
    for (plain, other) in [
        (VM1, "b2d5a9c1-7f4e-634a-9b1d-0f2e3d4c5b6a"),
        (
            "3fe665e8-303d-0b4f-83e0-8fdfc1e30eb7",
            "e865e63f-3d30-4f0b-83e0-8fdfc1e30eb7",
        ),
        (VM2, "6d4c0e9f-2a1b-3e4f-8d7c-5a6b7c8d9e0f"),
    ] {
        assert_eq!(super::super::control::swapped(plain), other);
        assert_eq!(super::super::control::swapped(other), plain);
    }
}

#[tokio::test(start_paused = true)]
async fn a_vm_changes_as_told() {
    let sim = Harness::new();
    let orchestra = &sim.orchestra;
    orchestra.resize("worker 1", 8, 16 << 30).unwrap();
    orchestra.rename("worker 1", "nœud-1").unwrap();
    orchestra.set_tags("nœud-1", &["a", "b"]).unwrap();
    orchestra
        .set_guest("nœud-1", &[("0/ip", "10.20.0.11 10.20.0.100")])
        .unwrap();
    orchestra.hide_container("nœud-1", true).unwrap();
    let path = format!("/vms/{VM1}");
    let vm = sim.get(&path).await;
    shows!(vm, {"/CPUs/max": 8, "/memory/size": 16_u64 << 30});
    shows!(vm, {"name_label": "nœud-1", "tags": ["a", "b"]});
    assert_eq!(vm["mainIpAddress"], "10.20.0.11 10.20.0.100");
    assert_eq!(vm.get("$container"), None);
    let members = json!({ "memory": 7, "CPUs": null });
    orchestra.deform(VM1, members.as_object().unwrap().clone());
    let vm = sim.get(&path).await;
    assert_eq!((&vm["memory"], vm.get("CPUs")), (&json!(7), None));
    let error = orchestra.halt("nobody").unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot halt the VM \"nobody\": there is none of that id, nor exactly one of that name"
    );
    orchestra.remove_pool("lab pool").unwrap();
    assert_eq!(
        (
            orchestra.vms().len(),
            orchestra.hosts().len(),
            orchestra.pools().len()
        ),
        (0, 1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn the_control_handle_speaks_http_too() {
    let sim = Harness::new();
    let call = async |verb: &str, body: Value| {
        sim.raw("POST", &format!("/_sim/{verb}"), &body.to_string(), &[])
            .await
    };
    for (verb, body) in rows![
        "migrate": { "machine": "worker 1", "host": "xcp-2" };
        "migrate": { "machine": "worker 1", "host": "dr-host", "slowly": true };
        "rename": { "machine": "worker 1", "name": "w1" };
        "rename-host": { "host": "xcp 1", "name": "h1" };
        "rename-pool": { "pool": "lab pool", "name": "p1" };
        "resize": { "machine": "w1", "cpus": 1, "memory": "1GiB" };
        "guest": { "machine": "w1", "guest": { "0/ip": "10.0.0.1" } };
        "tags": { "machine": "w1", "tags": ["x"] };
        "local-disk": { "machine": "w1", "host": null };
        "hide-container": { "machine": "w1", "on": false };
        "pause": { "machine": "w1" };
        "unpause": { "machine": "w1" };
        "suspend": { "machine": "w1" };
        "start": { "machine": "w1" };
        "halt": { "machine": "w1" };
        "state": { "machine": "w1", "state": "Running" };
        "connection": { "pool": "p1", "state": "connecting" };
        "vm-records": { "pool": "p1", "missing": true };
        "host-power": { "host": "h1", "on": false };
        "restart": {};
        "deform": { "id": VM1, "members": {} };
        "user": { "name": "u", "password": "p", "privileges": [{ "resource": "vm" }] };
        "token": { "value": "t", "user": "u" };
        "revoke-token": { "value": "t" };
        "remove-user": { "name": "u" };
        "timings": { "guest": "1s" };
        "quirks": { "release": "old" };
        "template": { "machine": "w1" };
        "destroy": { "machine": "w1" };
        "remove-pool": { "pool": "p1" };
        "add-pool": { "name": "new" };
        "add-host": { "name": "n1", "pool": "new" };
        "add": { "name": "many", "count": 3, "pool": "new" };
    ] {
        let reply = call(verb, body).await;
        assert_eq!(reply.status, 200, "{verb}: {}", reply.text());
    }
    assert_eq!(sim.orchestra.vms().len(), 3);
    let reply = call("explode", json!({})).await;
    assert!(
        reply.text().contains("allowed are add, add-pool"),
        "{}",
        reply.text()
    );
    let reply = call("halt", json!({ "machine": "nobody" })).await;
    assert_eq!(reply.status, 400);
    assert_eq!(call("reset", json!({})).await.status, 200);
    assert_eq!(sim.orchestra.vms().len(), 2);
    assert_eq!(sim.get("/vms").await.as_array().unwrap().len(), 2);
    assert_eq!(
        sim.world.machines.power(&machine_id(VM1)),
        Some(Power::Running)
    );
    let state = sim.raw("GET", "/_sim/state", "", &[]).await.json();
    assert_eq!(state["vms"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_documented_fixture_is_what_it_says() {
    let sim = Harness::with(documented("## The Xen Orchestra simulator"));
    let vms = sim.orchestra.vms();
    assert_eq!(vms.len(), 4 + 20);
    assert_eq!(
        (vms[0].id.as_str(), vms[0].host.as_deref()),
        (VM1, Some(H1))
    );
    assert_eq!(
        vms[1].main_address.as_deref(),
        Some("10.20.0.12 10.20.0.100")
    );
    assert_eq!(
        (vms[2].main_address.as_deref(), vms[3].visible),
        (None, false)
    );
    assert_eq!(
        sim.orchestra.tokens(),
        [("everything".to_owned(), DEFAULT_USER.to_owned())]
    );
    assert_eq!(sim.world.faults.rules().len(), 1);
    let reply = sim.raw("GET", "/xo/rest/v0/ping", "", &[]).await;
    assert_eq!(
        reply.headers["location"],
        "https://xo.sim:18443/rest/v0/ping"
    );
}

#[test]
fn an_impossible_fixture_says_why() {
    for (fixture, wanted) in bowline_simulator::table![
        "hosts: [{name: a}]", "cannot add the host a: there are no pools";
        "pools: [{name: p}]\nvms: [{name: a}]",
            "cannot add the VM a: its pool has no host that runs";
        "pools: [{name: p}]\nvms: [{name: a, host: h}]",
            "cannot add the VM a: there is no host \"h\"";
        "pools: [{name: p, connection: lost}]",
            "cannot add the pool p: \"lost\" is none of connected, connecting, disconnected";
        "tokens: [{value: t, user: nobody}]",
            "cannot give a token to nobody: there is no user of that name";
    ] {
        let fixture: Fixture = fixture::parse("test", fixture).unwrap();
        let error = XenOrchestra::from_fixture(&World::simulated(1), fixture).unwrap_err();
        assert_eq!(error.to_string(), wanted);
    }
    let error =
        fixture::parse::<Fixture>("test", "pools: [{name: p}]\nvms: [{memory: lots}]").unwrap_err();
    assert!(error.to_string().contains("a number of bytes"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_vms_have_addresses_of_their_own() {
    let sim = Harness::with(
        "pools: [{name: p}]\nhosts: [{name: a}, {name: b}]\nvms: [{name: n, count: 1000}]",
    );
    let vms = sim.orchestra.vms();
    let addresses: std::collections::BTreeSet<_> =
        vms.iter().map(|vm| vm.main_address.clone()).collect();
    assert_eq!((vms.len(), addresses.len()), (1000, 1000));
    let on_first = vms.iter().filter(|vm| vm.host == vms[0].host).count();
    assert_eq!(on_first, 500);
}
