use bowline_simulator::testing::{Client, ServerAddress, documented};
use bowline_talos_api::specs::{
    ControllerManagerConfigSpec, MemberSpec, PlatformMetadataSpec, SystemInformationSpec,
};
use serde_json::{Value, json};

use super::*;

#[tokio::test(start_paused = true)]
async fn versions_count_changes_and_times_follow_the_clock() {
    let sim = Harness::new();
    let (talos, caller) = (&sim.talos, sim.reader().await);
    let node = [("node", "10.0.0.5")];
    tokio::time::sleep(Duration::from_secs(60)).await;
    talos
        .edit_platform("worker-1", |it| it.zone = "elsewhere".to_owned())
        .unwrap();
    // Nothing new, no new version.
    talos.edit_platform("worker-1", |_| {}).unwrap();
    let found = caller
        .get(PlatformMetadataSpec::get_single(), &node)
        .await
        .unwrap();
    let metadata = found.metadata.clone().unwrap();
    assert_eq!(metadata.version, "2");
    assert_eq!(
        metadata.updated.unwrap().seconds - metadata.created.unwrap().seconds,
        60
    );
    assert_eq!(
        found.read::<PlatformMetadataSpec>().unwrap().zone,
        "elsewhere"
    );
}

#[tokio::test(start_paused = true)]
async fn resources_are_set_changed_and_taken_away() {
    let sim = Harness::new();
    let (talos, caller) = (&sim.talos, sim.reader().await);
    let id = SystemInformationSpec::ID;
    talos
        .edit::<SystemInformationSpec>("worker-1", id, |it| it.sku_number = "c2-m4".to_owned())
        .unwrap();
    let read: SystemInformationSpec = caller.single("10.0.0.5").await.unwrap();
    assert_eq!(read.sku_number, "c2-m4");
    assert_eq!(talos.read("worker-1", id), Some(read));
    talos
        .remove::<SystemInformationSpec>("worker-1", id)
        .unwrap();
    let missing = caller.single::<SystemInformationSpec>("10.0.0.5").await;
    assert_eq!(reported(missing).0, Code::NotFound);
    let error = talos
        .remove::<SystemInformationSpec>("worker-1", id)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot take a resource from the machine \"worker-1\": it has no \
         SystemInformations.hardware.talos.dev of the id \"systeminformation\""
    );
    let ranges = ControllerManagerConfigSpec {
        pod_cidrs: vec!["10.32.0.0/12".to_owned()],
        ..ControllerManagerConfigSpec::default()
    };
    talos
        .set("cp-2", ControllerManagerConfigSpec::ID, &ranges)
        .unwrap();
    let read: ControllerManagerConfigSpec = caller.single("10.0.0.3").await.unwrap();
    assert_eq!(read, ranges);
    talos.set_stage("worker-2", Stage::Absent).unwrap();
    let members = caller.ids::<MemberSpec>("10.0.0.3").await.unwrap();
    assert_eq!(members, ["cp-1", "cp-2", "worker-1"]);
}

#[tokio::test(start_paused = true)]
async fn two_machines_never_have_one_address() {
    let sim = Harness::new();
    let talos = &sim.talos;
    let second = MachineSpec::named("twin", &["eth0/10.0.0.5/24"]);
    let error = talos.add_machine(&second).unwrap_err();
    assert!(
        error.to_string().contains("worker-1 has the address"),
        "{error}"
    );
    assert!(
        talos
            .set_addresses("worker-2", &["eth0/10.0.0.5/24"])
            .is_err()
    );
    let machines = talos.machines();
    let worker = machines.iter().find(|one| one.name == "worker-2").unwrap();
    assert_eq!(
        worker.node_ips,
        ["10.0.0.6".parse::<std::net::IpAddr>().unwrap()]
    );
    for wrong in [
        MachineSpec::named("", &["eth0/10.0.0.9/24"]),
        MachineSpec::named("none", &[]),
        MachineSpec::named("only-lo", &["lo/127.0.0.1/8"]),
        MachineSpec::named("cp-1", &["eth0/10.0.0.9/24"]),
        MachineSpec::named("odd", &["eth0"]),
    ] {
        assert!(talos.add_machine(&wrong).is_err(), "{wrong:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_control_handle_works_over_http() {
    let sim = Harness::new();
    let control = ControlServer::new(&sim.talos);
    let _server = Server::builder(&sim.world, control).pipe("control.sim:80");
    let client = Client::new(
        ServerAddress::Pipe(sim.world.clone(), "control.sim:80"),
        None,
    );
    let post = async |verb: &str, body: Value| {
        let reply = client.call("POST", &format!("/_sim/{verb}"), &body).await;
        (reply.status, reply.json())
    };
    let rows = rows![
        "add": {"name": "new", "addresses": ["eth0/10.0.0.20/24"]};
        "stage": {"machine": "new", "stage": "down"};
        "addresses": {"machine": "new", "addresses": ["eth0/10.0.0.21/24"]};
        "platform": {"machine": "new", "platform": {"platform": "aws"}};
        "remove-resource": {"machine": "new", "namespace": "k8s", "id": "nodename",
            "type": "Nodenames.kubernetes.talos.dev"};
        "hang": {"machine": "new", "on": true};
        "cut-list": {"machine": "new", "after": 1};
        "fail": {"code": "internal", "message": "no", "times": 3};
        "timings": {"down": "1s"};
        "server-names": {"names": ["a.example"]};
        "rotate-authority": {};
        "finish-rotation": {};
        "drop-connections": {};
    ];
    for (verb, body) in rows {
        assert_eq!(post(verb, body).await, (200, json!({})), "{verb}");
    }
    let wanted = json!({"endpoints": ["a:1"], "roles": ["os:admin"], "lifetime": "5m"});
    let (status, issued) = post("talosconfig", wanted).await;
    assert_eq!(status, 200);
    let credentials = Credentials::read(issued["talosconfig"].as_str().unwrap());
    assert_eq!(credentials.endpoints, ["a:1"]);
    let state = client.get("/_sim/state").await.json();
    let machine = &state["machines"][2];
    shows!(machine, {"name": "new", "stage": "down"});
    assert_eq!(machine["node_ips"], json!(["10.0.0.21"]));
    for (verb, body) in [
        ("nonsense", json!({})),
        ("stage", json!({"machine": "new", "stage": "asleep"})),
        ("stage", json!({"machine": "nobody", "stage": "ready"})),
        ("fail", json!({"code": "odd"})),
        ("finish-rotation", json!({})),
    ] {
        assert_eq!(post(verb, body).await.0, 400, "{verb}");
    }
    assert_eq!(post("reset", json!({})).await.0, 200);
    assert_eq!(sim.talos.machines().len(), 4);
    assert_eq!(client.get("/else").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn the_documented_fixture_is_what_it_says() {
    let sim = Harness::with(documented("## The Talos simulator"));
    let machines = sim.talos.machines();
    let names: Vec<&str> = machines.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["container-1", "cp-1", "worker-1"]);
    assert_eq!(machines[2].node_ips.len(), 1);
    assert_eq!(sim.world.faults.rules().len(), 1);
    let platform: PlatformMetadataSpec = sim.reader().await.single("10.0.0.5").await.unwrap();
    assert_eq!(platform.provider_id, "hcloud://4711");
}
