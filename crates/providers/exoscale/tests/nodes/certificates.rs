//! Which addresses a kubelet may show a certificate for.

use std::time::Duration;

use bowline_core::{Fault, Finding, MachineAnswer, MachineIdentity, Node, NodePart};
use bowline_exoscale::LIST_AGE;
use bowline_simulator_exoscale::{InstanceSpec, NetworkSpec, State};

use crate::harness::{Harness, I1, NOBODY, known, status, with_node_ip};

const LIST: &str = "GET /v2/instance 200";
const OTHER: &str = "0c0ffee0-0000-4000-8000-000000000002";

/// The addresses of every machine that may be the node's.
async fn machines(test: &Harness, name: &str, node: Option<&Node>) -> Vec<Vec<String>> {
    let certificates = test.cloud.serving_certificates().unwrap();
    match certificates.machine(name, node).await {
        MachineAnswer::Machines(machines) => {
            let texts = |it: &MachineIdentity| {
                let all = it.addresses.iter().chain(&it.claimed_addresses);
                all.map(ToString::to_string).collect()
            };
            machines.iter().map(texts).collect()
        }
        MachineAnswer::Unknown => Vec::new(),
        other => panic!("{other:?}"),
    }
}

fn other() -> InstanceSpec {
    let spec = InstanceSpec::named("POOL-a1b2c-xyz").id(OTHER);
    spec.public_ip("198.51.100.99".parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_found_by_its_name_in_any_case_or_by_the_id_on_its_node() {
    let test = Harness::new().await;
    test.sim
        .set_ipv6(I1, Some("2001:db8::21".parse().unwrap()))
        .unwrap();
    let mine = ["198.51.100.21", "2001:db8::21"];
    let name = "pool-a1b2c-xyz";
    assert_eq!(machines(&test, name, None).await, [mine]);
    let nameless = known(name, "");
    assert_eq!(machines(&test, name, Some(&nameless)).await, [mine]);
    assert!(machines(&test, "nobody", None).await.is_empty());
    // Of two with that name, either may be meant, unless the Node says which.
    test.sim.add_instance(&other()).unwrap();
    test.wait(LIST_AGE + Duration::from_secs(1)).await;
    assert_eq!(machines(&test, name, None).await.len(), 2);
    let node = known(name, &format!("exoscale://{I1}"));
    assert_eq!(machines(&test, name, Some(&node)).await, [mine]);
    for id in [NOBODY, "rack7"] {
        let gone = known(name, &format!("exoscale://{id}"));
        assert!(machines(&test, name, Some(&gone)).await.is_empty(), "{id}");
    }
    test.sim.set_state(OTHER, State::Destroying).unwrap();
    test.wait(LIST_AGE + Duration::from_secs(1)).await;
    assert_eq!(machines(&test, name, None).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_kubelet_was_reported_counts_in_a_private_network_and_is_nobody_elses() {
    let test = Harness::new().await;
    test.sim.add_instance(&other()).unwrap();
    let name = "pool-a1b2c-xyz";
    let node = with_node_ip(
        known(name, &format!("exoscale://{I1}")),
        "10.0.0.7,fd00::7, bad,198.51.100.99",
    );
    let public = ["198.51.100.21"];
    assert_eq!(machines(&test, name, Some(&node)).await, [public]);
    test.sim.set_private_networks(I1, &["inside"]).unwrap();
    test.wait(LIST_AGE + Duration::from_secs(1)).await;
    let all = [public[0], "10.0.0.7", "fd00::7"];
    assert_eq!(machines(&test, name, Some(&node)).await, [all]);
    assert_eq!(machines(&test, name, None).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn proof_case_37_an_address_of_a_managed_network_must_be_leased_to_the_instance() {
    let test = Harness::new().await;
    test.sim.add_instance(&other()).unwrap();
    let managed = NetworkSpec {
        name: "managed".into(),
        start_ip: "10.0.0.10".parse().ok(),
        end_ip: "10.0.0.99".parse().ok(),
        netmask: "255.255.255.0".parse().ok(),
        ..NetworkSpec::default()
    };
    test.sim.add_private_network(&managed).unwrap();
    for instance in [I1, OTHER] {
        let networks = ["inside", "managed"];
        test.sim.set_private_networks(instance, &networks).unwrap();
    }
    let lease = |machine, address: &str| {
        let address = address.parse().unwrap();
        test.sim.lease("managed", machine, address).unwrap();
    };
    lease(I1, "10.0.0.11");
    lease(OTHER, "10.0.0.12");
    let name = "pool-a1b2c-xyz";
    let node = |address| with_node_ip(known(name, &format!("exoscale://{I1}")), address);
    let mine = "198.51.100.21";
    for (readable, address, counts) in [
        (true, "10.0.0.11", true),
        (true, "10.0.0.12", false),
        (true, "10.0.0.13", false),
        (true, "10.0.0.100", true),
        (true, "192.168.7.7", true),
        (true, "fd00::7", true),
        // What nobody may read decides nothing; what other Nodes show does.
        (false, "10.0.0.12", true),
        (false, "10.0.0.13", true),
        (false, "198.51.100.99", false),
    ] {
        if !readable {
            test.sim.deny(&["get-private-network"]);
        }
        let all = machines(&test, name, Some(&node(address))).await;
        let wanted = if counts {
            vec![mine, address]
        } else {
            vec![mine]
        };
        assert_eq!(all, [wanted], "{address}, readable: {readable}");
    }
    // A cloud that does not answer is no answer.
    test.sim.permit_all();
    test.fault("/v2/private-network/*", status(500));
    let certificates = test.cloud.serving_certificates().unwrap();
    let answer = certificates.machine(name, Some(&node("10.0.0.12"))).await;
    assert!(matches!(answer, MachineAnswer::CannotTell(_)), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn proof_case_37_addresses_that_the_operator_gives_count() {
    let file = "instances: {overrides: [{name: pool-a1b2c-xyz, addresses: [{type: InternalIP, \
                address: 10.7.0.7}]}]}";
    let test = Harness::configured(file).await;
    let name = "pool-a1b2c-xyz";
    let node = known(name, &format!("exoscale://{I1}"));
    let wanted = ["198.51.100.21", "10.7.0.7"];
    assert_eq!(machines(&test, name, Some(&node)).await, [wanted]);
    assert_eq!(machines(&test, "other", None).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_questions_share_a_list_and_an_error_is_no_answer() {
    let test = Harness::new().await;
    for _ in 0..20 {
        assert_eq!(machines(&test, "pool-a1b2c-xyz", None).await.len(), 1);
    }
    assert_eq!(test.calls(), [LIST]);
    test.wait(LIST_AGE + Duration::from_secs(1)).await;
    test.fault("/v2/instance", status(403));
    let certificates = test.cloud.serving_certificates().unwrap();
    let answer = certificates.machine("pool-a1b2c-xyz", None).await;
    assert!(matches!(answer, MachineAnswer::CannotTell(_)), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn the_runner_switches_it_on_and_the_words_are_the_originals() {
    let test = Harness::new().await;
    let quiet = test.cloud.serving_certificates().unwrap();
    assert!(!quiet.is_default_on());
    let runner = [("EXOSCALE_SKS_AGENT_RUNNERS", "node-csr-validation")];
    let test = Harness::with(&runner, "").await;
    let certificates = test.cloud.serving_certificates().unwrap();
    assert!(certificates.is_default_on());
    let rules = certificates.rules();
    assert_eq!((rules.node, rules.one_dns_name), (NodePart::Optional, true));
    assert!(!rules.denies_faults);
    assert_eq!(rules.approval.reason, "ExoscaleCloudControllerApproved");
    let message = "This CSR was approved by the Exoscale Cloud Controller Manager";
    assert_eq!(rules.approval.message, message);
    let foreign = Finding::Addresses {
        known: vec![
            "198.51.100.21".parse().unwrap(),
            "2001:db8::21".parse().unwrap(),
        ],
        asked: vec!["192.0.2.42".parse().unwrap()],
    };
    for (finding, words) in [
        (Finding::Approved, "sks-agent: CSR c approved"),
        (
            Finding::NoMachine,
            "sks-agent: CSR c doesn't match any Compute instance",
        ),
        (
            Finding::Faulty(Fault::DnsNames(2)),
            "sks-agent: expected 1 certificate Subject Alternate Name DNS Name value, got 2",
        ),
        (
            foreign,
            "sks-agent: CSR c Node IP addresses don't match corresponding Compute instance IP \
             addresses [\"198.51.100.21\" \"2001:db8::21\"], got [\"192.0.2.42\"]",
        ),
    ] {
        assert_eq!(certificates.phrase("c", &finding).unwrap(), words);
    }
}
