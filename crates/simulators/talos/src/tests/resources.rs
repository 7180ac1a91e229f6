use bowline_talos_api::resource::{CreateRequest, DestroyRequest, UpdateRequest};
use bowline_talos_api::specs::{
    AddressStatusSpec, ControllerManagerConfigSpec, Family, MachineType, MemberSpec, NodenameSpec,
    PlatformMetadataSpec, SystemInformationSpec,
};

use super::*;

const NODE: [(&str, &str); 1] = [("node", "10.0.0.5")];

#[tokio::test(start_paused = true)]
async fn a_machine_tells_what_its_platform_has_told_it() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    let resource = caller
        .get(PlatformMetadataSpec::get_single(), &NODE)
        .await
        .unwrap();
    let metadata = resource.metadata.clone().unwrap();
    assert_eq!(metadata.namespace, "runtime");
    assert_eq!(metadata.r#type, "PlatformMetadatas.talos.dev");
    assert_eq!(metadata.id, "platformmetadata");
    assert_eq!(
        (metadata.version.as_str(), metadata.phase.as_str()),
        ("1", "running")
    );
    assert_eq!(metadata.owner, "network.PlatformConfigApplyController");
    assert_eq!(metadata.created.unwrap().seconds, 1_793_000_000);
    let spec: PlatformMetadataSpec = resource.read().unwrap();
    assert_eq!(spec.provider_id, "hcloud://4711");
    assert!(spec.spot);
    assert_eq!(spec.tags["team"], "core");
    assert_eq!(
        resource.spec.unwrap().yaml_spec,
        "platform: hcloud\nhostname: worker-1\nregion: fsn1\nzone: fsn1-dc14\ninstanceType: cax21\n\
         instanceId: \"4711\"\nproviderId: hcloud://4711\nspot: true\ntags:\n    team: core\n"
    );
}

#[tokio::test(start_paused = true)]
async fn requests_without_options_are_answered_too() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    let mut request = PlatformMetadataSpec::get_single();
    request.options = None;
    caller.get(request, &NODE).await.unwrap();
    let mut request = AddressStatusSpec::list();
    request.options = None;
    assert_eq!(caller.list(request, &NODE).await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn lists_are_ordered_by_the_bytes_of_ids() {
    let sim = Harness::new();
    let addresses = [
        "eth2/10.0.0.5/24",
        "eth10/198.51.100.9/24",
        "Eth1/198.51.100.8/24",
    ];
    sim.talos.set_addresses("worker-1", &addresses).unwrap();
    let caller = sim.reader().await;
    let ids = caller.ids::<AddressStatusSpec>("10.0.0.5").await.unwrap();
    assert_eq!(
        ids,
        [
            "Eth1/198.51.100.8/24",
            "eth10/198.51.100.9/24",
            "eth2/10.0.0.5/24"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn every_type_is_there() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    let system: SystemInformationSpec = caller.single("10.0.0.5").await.unwrap();
    assert_eq!(system.uuid, "11111111-2222-3333-4444-555555555555");
    let name: NodenameSpec = caller.single("10.0.0.5").await.unwrap();
    assert_eq!(name.nodename, "worker-1");
    let ranges: ControllerManagerConfigSpec = caller.single("10.0.0.3").await.unwrap();
    assert_eq!(ranges.pod_cidrs, ["10.244.0.0/16"]);
    assert_eq!(ranges.service_cidrs, ["10.96.0.0/12"]);
    let members = caller.list(MemberSpec::list(), &[]).await.unwrap();
    let members: Vec<MemberSpec> = members.iter().map(|one| one.read().unwrap()).collect();
    assert_eq!(members.len(), 4);
    assert_eq!(
        members[0].machine_type,
        i32::from(MachineType::ControlPlane)
    );
    assert_eq!(members[2].operating_system, "Talos (v1.13.5)");
    assert_eq!(
        members[2].addresses[1].address(),
        Some("fd00::5".parse().unwrap())
    );
    let addresses = caller.list(AddressStatusSpec::list(), &NODE).await.unwrap();
    let ipv6: AddressStatusSpec = addresses[1].read().unwrap();
    assert_eq!((ipv6.family, ipv6.flags), (i32::from(Family::Inet6), 128));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_told_as_machines_tell_it() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    let missing = caller.single::<SystemInformationSpec>("10.0.0.6").await;
    let text = "resource SystemInformations.hardware.talos.dev(hardware/systeminformation@undefined) \
                doesn't exist";
    assert_eq!(reported(missing), (Code::NotFound, text.to_owned()));
    // Workers do not know the ranges of the cluster.
    let ranges = caller
        .single::<ControllerManagerConfigSpec>("10.0.0.5")
        .await;
    assert_eq!(reported(ranges).0, Code::NotFound);
    let mut request = AddressStatusSpec::list();
    request.namespace = "runtime".to_owned();
    assert!(caller.list(request, &NODE).await.unwrap().is_empty());
    let denied = |text: &str| (Code::PermissionDenied, text.to_owned());
    let mut request = PlatformMetadataSpec::get_single();
    request.r#type = "Nothings.talos.dev".to_owned();
    assert_eq!(
        reported(caller.get(request, &NODE).await),
        denied("resource type \"Nothings.talos.dev\" is not supported")
    );
    let mut request = PlatformMetadataSpec::get_single();
    request.namespace = "nowhere".to_owned();
    assert_eq!(
        reported(caller.get(request, &NODE).await),
        denied("namespace \"nowhere\" is not supported")
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_writes_and_unknown_methods_are_unknown() {
    let sim = Harness::new();
    let access = Harness::access().roles(&["os:admin"]);
    let caller = sim.caller(&access).await.unwrap();
    let denied = (
        Code::PermissionDenied,
        "write access is not allowed".to_owned(),
    );
    let mut state = caller.state.clone();
    assert_eq!(
        reported(state.create(CreateRequest::default()).await),
        denied
    );
    assert_eq!(
        reported(state.update(UpdateRequest::default()).await),
        denied
    );
    assert_eq!(
        reported(state.destroy(DestroyRequest::default()).await),
        denied
    );
    for path in [
        "/machine.MachineService/Reboot",
        "/machine.MachineService/Get",
        "/cosi.resource.State/Version",
        "/other.Service/Get",
    ] {
        let request = http::Request::post(format!("https://talos.sim{path}"))
            .header("content-type", "application/grpc")
            .body(Body::empty())
            .unwrap();
        let mut channel = caller.channel.clone();
        let answer = tower::Service::call(&mut channel, request).await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "12", "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn types_and_namespaces_can_be_listed() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    let about = |kind: &str| ListRequest {
        namespace: "meta".to_owned(),
        r#type: kind.to_owned(),
        options: None,
    };
    let ids = |all: Vec<Resource>| -> Vec<String> {
        all.into_iter()
            .map(|one| one.metadata.unwrap().id)
            .collect()
    };
    let types = caller
        .list(about("ResourceDefinitions.meta.cosi.dev"), &[])
        .await;
    let types = ids(types.unwrap());
    assert_eq!(types.len(), 7);
    assert_eq!(types[0], "addressstatuses.net.talos.dev");
    let namespaces = caller.list(about("Namespaces.meta.cosi.dev"), &[]).await;
    let namespaces = ids(namespaces.unwrap());
    assert!(namespaces.contains(&"runtime".to_owned()), "{namespaces:?}");
}

#[tokio::test(start_paused = true)]
async fn compressed_requests_are_read() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    let mut state = caller
        .state
        .clone()
        .send_compressed(tonic::codec::CompressionEncoding::Gzip);
    let request = with(PlatformMetadataSpec::get_single(), &NODE);
    assert!(state.get(request).await.is_ok());
}
