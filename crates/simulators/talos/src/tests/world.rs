use bowline_simulator::machines::Power;
use bowline_talos_api::specs::PlatformMetadataSpec;

use super::*;

#[tokio::test(start_paused = true)]
async fn machines_run_when_they_answer() {
    let sim = Harness::new();
    let (talos, machines) = (&sim.talos, &sim.world.machines);
    let power = || machines.power("talos://worker-1");
    assert_eq!(power(), Some(Power::Running));
    for (stage, wanted) in [
        (Stage::Absent, None),
        (Stage::Booting, Some(Power::Off)),
        (Stage::MetadataPartial, Some(Power::Running)),
        (Stage::Down, Some(Power::Off)),
        (Stage::Ready, Some(Power::Running)),
    ] {
        talos.set_stage("worker-1", stage).unwrap();
        assert_eq!(power(), wanted, "{stage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_another_cloud_runs_when_that_cloud_says_so() {
    let sim = Harness::new();
    let id = "exoscale://9f000000-0000-4000-8000-000000000001";
    sim.world.machines.set(id, Power::Running);
    let spec = MachineSpec::named("exo", &["eth0/10.0.0.30/24"]).machine_id(id);
    sim.talos.add_machine(&spec).unwrap();
    let caller = sim.reader().await;
    caller
        .single::<PlatformMetadataSpec>("10.0.0.30")
        .await
        .unwrap();
    sim.world.machines.set(id, Power::Off);
    let off = caller.single::<PlatformMetadataSpec>("10.0.0.30").await;
    assert_eq!(reported(off).0, Code::Unavailable);
    sim.talos.set_stage("exo", Stage::Ready).unwrap();
    assert_eq!(sim.world.machines.power(id), Some(Power::Off));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_does_not_run_accepts_nobody() {
    let sim = Harness::new();
    sim.talos.set_stage("cp-1", Stage::Booting).unwrap();
    assert!(sim.caller(&Harness::access()).await.is_err());
    sim.talos.set_stage("cp-1", Stage::Ready).unwrap();
    assert!(sim.caller(&Harness::access()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn kubelets_of_the_machines_register_as_talos_does_it() {
    let sim = Harness::new();
    assert_eq!(sim.talos.machines().len(), 4);
    let kubelet = sim.talos.kubelet("worker-1").unwrap();
    assert_eq!(kubelet.node_name, "worker-1");
    let address = kubelet.provided_node_ip.as_deref();
    assert_eq!(address, Some("10.0.0.5,fd00::5"));
    assert_eq!(kubelet.os_image, "Talos (v1.13.5)");
    assert_eq!(kubelet.system_uuid, "11111111-2222-3333-4444-555555555555");
    let power = sim.world.machines.power(&kubelet.machine_id);
    assert_eq!(power, Some(Power::Running));
}

#[tokio::test]
async fn sockets_answer_as_pipes_do() {
    let sim = Harness::new();
    let loopback = "127.0.0.1:0".parse().unwrap();
    let first = sim.talos.listen("cp-1", loopback).await.unwrap();
    let second = sim.talos.listen("cp-2", loopback).await.unwrap();
    let mut names = Vec::new();
    for server in [&first, &second] {
        let address = server.local_addr().unwrap();
        let access = Access::reader(&[&address.to_string()]);
        let file = sim.talos.talosconfig(&access).unwrap();
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let caller = Caller::over(stream, &file, "127.0.0.1", &[b"h2"])
            .await
            .unwrap();
        let request = bowline_talos_api::specs::NodenameSpec::get_single();
        let resource = caller.get(request, &[]).await.unwrap();
        let spec: bowline_talos_api::specs::NodenameSpec = resource.read().unwrap();
        names.push(spec.nodename);
    }
    assert_eq!(names, ["cp-1", "cp-2"]);
    first.shutdown().await;
    second.shutdown().await;
}
