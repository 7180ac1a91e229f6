//! Finding and describing machines.

use std::time::Duration;

use bowline_core::{AddressKind, Cloud as _, Lookup, NodeAddress, Power};
use bowline_simulator_triton::{DEFAULT_ACCOUNT_ID, EXTERNAL, FABRIC, MachineSpec, State};

use super::harness::{Harness, found, id, known, lookup, lookups, node, unclear};

const WITHOUT_NAMES: [&str; 3] = [
    "InternalIP:10.20.0.5",
    "ExternalIP:203.0.113.10",
    "Hostname:k8s-1",
];

#[tokio::test(start_paused = true)]
async fn a_node_gets_everything_from_its_machine() {
    let test = Harness::new(1);
    let there = "c0000000-0000-4000-8000-000000000002";
    test.sim.migrate("k8s-1", there).unwrap();
    tokio::time::sleep(Duration::from_secs(15)).await;
    let instance = found(lookup(&test.provider(), &node("k8s-1", "")).await);
    let provider_id = instance.provider_id.unwrap();
    assert_eq!(provider_id.as_str(), format!("triton://{}", id(1)));
    assert_eq!(instance.instance_type, "g4-highcpu-1G");
    assert_eq!([&*instance.region, &*instance.zone], ["eg-1"; 2]);
    let addresses: Vec<String> = instance.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses[..3], WITHOUT_NAMES);
    let own = format!("DNS:k8s-1.inst.{DEFAULT_ACCOUNT_ID}");
    let inside = format!("Internal{own}.int.eg-1.example.com");
    let outside = format!("External{own}.eg-1.cns.example.com");
    assert_eq!(addresses[3..], [inside, outside]);
    assert_eq!(instance.power, Power::On);
    let label = |name: &str| instance.extra_labels[&format!("cloud.tritoncompute/{name}")].clone();
    assert_eq!(label("brand"), "bhyve");
    assert_eq!(label("compute-node"), there);
}

#[tokio::test(start_paused = true)]
async fn triton_case_13_a_longer_name_is_another_machine() {
    let test = Harness::new(10);
    let provider = test.provider();
    let instance = found(lookup(&provider, &node("k8s-1", "")).await);
    assert!(instance.provider_id.unwrap().as_str().ends_with(&id(1)));
    let shorter = lookup(&provider, &node("k8s", "")).await;
    assert!(matches!(shorter, Lookup::NotMine));
}

#[tokio::test(start_paused = true)]
async fn triton_case_14_and_15_and_16_a_machine_is_found_by_what_else_it_is_called() {
    let test = Harness::new(0);
    let add = |name: &str, number, address: &str| {
        let machine = MachineSpec::named(name).id(&id(number)).networks(&[FABRIC]);
        let machine = machine.addresses(&[address]);
        test.sim.add_machine(&machine).unwrap();
    };
    add("My_Node.01", 1, "10.20.0.5");
    add("other", 2, "10.20.0.6");
    let provider = test.provider();
    let instance = found(lookup(&provider, &node("my-node-01", "")).await);
    let provider_id = instance.provider_id.unwrap();
    assert_eq!(provider_id.as_str(), format!("triton://{}", id(1)));
    let mut by_firmware = node("x", "");
    by_firmware.system_uuid = id(2);
    found(lookup(&provider, &by_firmware).await);
    by_firmware.system_uuid = "3c2d1e5b-0000-0040-8000-000000000002".to_owned();
    let swapped = found(lookup(&provider, &by_firmware).await);
    assert!(swapped.provider_id.unwrap().as_str().ends_with(&id(2)));
    // Two that hold one address.
    test.sim.set_address("other", 0, "10.20.0.5").unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let mut by_address = node("x", "");
    by_address.addresses = vec![NodeAddress::new(AddressKind::InternalIp, "10.20.0.5")];
    let words = unclear(lookup(&provider, &by_address).await);
    assert!(words.contains("AmbiguousInstance"), "{words}");
    assert!(words.contains(&id(1)) && words.contains(&id(2)), "{words}");
}

#[tokio::test(start_paused = true)]
async fn triton_case_17_another_clouds_node_is_never_asked_about() {
    let test = Harness::new(1);
    let provider = test.provider();
    let foreign = node("k8s-1", &format!("exoscale://{}", id(1)));
    assert!(matches!(lookup(&provider, &foreign).await, Lookup::NotMine));
    let malformed = node("k8s-1", "triton://k8s-1");
    let words = unclear(lookup(&provider, &malformed).await);
    assert!(words.contains("InvalidProviderID"), "{words}");
    assert_eq!(test.lines(), [""; 0]);
    let upper = node("k8s-1", &format!("triton:///{}", id(1).to_uppercase()));
    assert_eq!(provider.match_node(&upper).claim, bowline_core::Claim::Mine);
    found(lookup(&provider, &upper).await);
}

#[tokio::test(start_paused = true)]
async fn triton_case_18_and_19_a_machine_with_only_a_public_card() {
    let test = Harness::new(0);
    let machine = MachineSpec::named("edge")
        .networks(&[EXTERNAL])
        .addresses(&["203.0.113.10"]);
    test.sim.add_machine(&machine).unwrap();
    let machine = MachineSpec::named("lost")
        .networks(&[FABRIC])
        .addresses(&["dhcp"]);
    test.sim.add_machine(&machine).unwrap();
    let provider = test.provider();
    let shown = |instance: bowline_core::Instance| {
        let addresses = instance.addresses.into_iter().take(3);
        addresses.map(|it| it.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        shown(found(lookup(&provider, &node("edge", "")).await)),
        [
            "InternalIP:203.0.113.10",
            "ExternalIP:203.0.113.10",
            "Hostname:edge"
        ]
    );
    let lost = shown(found(lookup(&provider, &node("lost", "")).await));
    assert!(lost[0] == "Hostname:lost", "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn triton_case_20_and_22_type_and_state_follow_the_machine() {
    let test = Harness::new(1);
    let provider = test.provider();
    test.sim.set_package("k8s-1", "").unwrap();
    let instance = found(lookup(&provider, &known(1)).await);
    assert_eq!(instance.instance_type, "bhyve");
    for (state, wanted) in [
        (State::Stopped, Power::Off),
        (State::Stopping, Power::Unclear),
        (State::Ready, Power::Unclear),
        (State::Running, Power::On),
    ] {
        test.sim.set_state("k8s-1", state).unwrap();
        // A change feed tells at once; without one it is seen when the list is old.
        tokio::time::sleep(Duration::from_secs(61)).await;
        let instance = found(lookup(&provider, &known(1)).await);
        assert_eq!(instance.power, wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn triton_case_21_an_old_server_does_not_name_its_data_center_in_headers() {
    let test = Harness::new(1);
    test.sim.set_quirks(|quirks| {
        quirks.no_datacenter_header = true;
        quirks.no_nics = true;
    });
    let instance = found(lookup(&test.provider(), &known(1)).await);
    assert_eq!(instance.region, "eg-1");
    assert_eq!(instance.addresses[0].address, "10.20.0.5");
    assert_eq!(test.count("/nics"), 1);
}

#[tokio::test(start_paused = true)]
async fn triton_case_27_tags_that_were_named_become_labels() {
    let test = Harness::new(1);
    let set = |value| test.sim.set_tag("k8s-1", "env", value).unwrap();
    set(Some("prod eu".into()));
    let file = "[Nodes]\nlabels-from-tags = env\n";
    let (provider, _folder) = test.provider_with_file(file);
    let key = "tag.cloud.tritoncompute/env";
    let instance = found(lookup(&provider, &known(1)).await);
    assert_eq!(instance.extra_labels[key], "prod-eu");
    set(None);
    tokio::time::sleep(Duration::from_secs(61)).await;
    let instance = found(lookup(&provider, &known(1)).await);
    assert!(!instance.extra_labels.contains_key(key));
}

#[tokio::test(start_paused = true)]
async fn many_nodes_cost_a_few_calls() {
    let test = Harness::new(50);
    test.sim.enable_names("acme", false).unwrap();
    let provider = test.provider();
    let nodes: Vec<_> = (1..=50).map(known).collect();
    for answer in lookups(&provider, &nodes).await {
        found(answer);
    }
    // One for the look-up, and one because the change feed has just been connected.
    let lists = test.count("GET /acme/machines");
    assert!(lists <= 2, "{:?}", test.lines());
    let before = test.lines().len();
    lookups(&provider, &nodes).await;
    let after = test.lines().len();
    assert!(after - before <= 2, "{:?}", &test.lines()[before..]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_68_a_new_node_is_described_while_the_name_service_is_down() {
    let test = Harness::new(1);
    test.sim.set_quirks(|quirks| quirks.names_down = true);
    let provider = test.provider();
    let instance = found(lookup(&provider, &node("k8s-1", "")).await);
    let addresses: Vec<String> = instance.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, WITHOUT_NAMES);
}
