//! Which instance a node is, and its description.

use bowline_core::{Claim, Lookup, Power, desired_addresses, initialize};
use bowline_simulator_exoscale::State;
use serde_json::json;

use crate::harness::{
    Harness, I1, NOBODY, addresses, cannot_tell, found, fresh, gone, known, status, with_node_ip,
};

const HOST: &str = "Hostname:Pool-a1b2c-xyz";
const EXTERNAL: &str = "ExternalIP:198.51.100.21";
const INTERNAL: &str = "InternalIP:198.51.100.21";

/// A fresh node on I1.
fn worker() -> bowline_core::Node {
    fresh("pool-a1b2c-xyz", I1)
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_18_a_new_node_is_the_instance_that_its_machine_says() {
    let test = Harness::new().await;
    let instance = found(test.ask_one(&worker()).await);
    assert_eq!(
        instance.provider_id.as_ref().unwrap().as_str(),
        format!("exoscale://{I1}")
    );
    assert_eq!(instance.instance_type, "standard.medium");
    assert_eq!(
        (&*instance.zone, &*instance.region),
        ("ch-gva-2", "ch-gva-2")
    );
    assert_eq!(addresses(&instance), [HOST, EXTERNAL, INTERNAL]);
    assert_eq!(instance.power, Power::On);
    let calls = test.calls();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(calls[0], format!("GET /v2/instance/{I1} 200"));
    assert!(calls[1].starts_with("GET /v2/instance-type/"), "{calls:?}");
    found(test.ask_one(&worker()).await);
    let calls = test.calls();
    assert_eq!(
        calls,
        [format!("GET /v2/instance/{I1} 200")],
        "types are known"
    );
}

/// What the provider says about I1 with those addresses and networks, to a kubelet that was given
/// that address.
async fn answer(v4: &str, v6: &str, networks: &[&str], address: &str) -> Vec<String> {
    let test = Harness::new().await;
    test.sim.set_public_ip(I1, v4.parse().ok()).unwrap();
    test.sim.set_ipv6(I1, v6.parse().ok()).unwrap();
    test.sim.set_private_networks(I1, networks).unwrap();
    let node = if address.is_empty() {
        worker()
    } else {
        with_node_ip(worker(), address)
    };
    addresses(&found(test.ask_one(&node).await))
}

const V4: &str = "198.51.100.21";
const V6: &str = "2001:db8::21";
const EXTERNAL_6: &str = "ExternalIP:2001:db8::21";
const INTERNAL_6: &str = "InternalIP:2001:db8::21";
const PRIVATE: &str = "InternalIP:10.0.0.5";

#[tokio::test(start_paused = true)]
async fn exoscale_case_19_both_families_are_external_and_internal() {
    let wanted = [HOST, EXTERNAL, INTERNAL, EXTERNAL_6, INTERNAL_6];
    assert_eq!(answer(V4, V6, &[], "").await, wanted);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_20_the_newer_family_may_be_alone() {
    assert_eq!(
        answer("", V6, &[], "").await,
        [HOST, EXTERNAL_6, INTERNAL_6]
    );
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_21_the_kubelets_address_is_the_internal_one_in_a_private_network() {
    let got = answer(V4, "", &["inside"], "10.0.0.5").await;
    assert_eq!(got, [HOST, PRIVATE, EXTERNAL]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_22_an_instance_may_have_nothing_public() {
    let got = answer("", "", &["inside"], "10.0.0.5").await;
    assert_eq!(got, [HOST, PRIVATE]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_24_a_private_network_alone_says_no_address() {
    let got = answer(V4, "", &["inside"], "").await;
    assert_eq!(got, [HOST, EXTERNAL, INTERNAL]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_21_the_kubelets_address_ends_up_first() {
    let test = Harness::new().await;
    test.sim.set_private_networks(I1, &["inside"]).unwrap();
    let node = with_node_ip(worker(), "10.0.0.5");
    let change = initialize(&node, &found(test.ask_one(&node).await)).unwrap();
    let list: Vec<String> = change
        .addresses
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(list, ["InternalIP:10.0.0.5", HOST, EXTERNAL]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_23_an_address_that_the_instance_does_not_have_is_an_error() {
    let test = Harness::new().await;
    let node = with_node_ip(worker(), "10.0.0.5");
    let instance = found(test.ask_one(&node).await);
    let error = desired_addresses(&instance.addresses, &[], node.provided_node_ip()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to get node address from cloud provider that matches ip: 10.0.0.5"
    );
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_25_two_addresses_of_the_kubelet_are_two_internal_ones() {
    let test = Harness::new().await;
    test.sim.set_private_networks(I1, &["inside"]).unwrap();
    test.sim
        .set_ipv6(I1, Some("2001:db8::21".parse().unwrap()))
        .unwrap();
    let node = with_node_ip(worker(), "10.0.0.5,fd00::5");
    let change = initialize(&node, &found(test.ask_one(&node).await)).unwrap();
    let list: Vec<String> = change
        .addresses
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    let wanted = [
        "InternalIP:10.0.0.5",
        "InternalIP:fd00::5",
        HOST,
        EXTERNAL,
        "ExternalIP:2001:db8::21",
    ];
    assert_eq!(list, wanted);
    test.sim.set_private_networks(I1, &[]).unwrap();
    initialize(&node, &found(test.ask_one(&node).await)).unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_26_a_provider_id_counts_and_the_machine_need_not_say_anything() {
    let test = Harness::new().await;
    for id in [
        format!("exoscale://{I1}"),
        I1.to_owned(),
        format!("exoscale://{}", I1.to_uppercase()),
    ] {
        let mut node = fresh("anything", "");
        node.provider_id = Some(id.clone());
        assert_eq!(test.cloud.match_node(&node).claim, Claim::Mine);
        let instance = found(test.ask_one(&node).await);
        assert_eq!(addresses(&instance)[0], HOST);
        let change = initialize(&node, &instance).unwrap();
        assert_eq!(change.provider_id, None, "{id} is kept");
    }
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_27_a_404_about_the_instance_is_gone_with_evidence() {
    let test = Harness::new().await;
    let evidence = gone(
        test.ask_one(&known("x", &format!("exoscale://{NOBODY}")))
            .await,
    );
    assert_eq!(evidence.text, format!("GET instance/{NOBODY} answered 404"));
    assert_eq!(evidence.at, test.world.clock.now());
    assert_eq!(test.calls(), [format!("GET /v2/instance/{NOBODY} 404")]);
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_zone_is_not_gone_because_this_one_does_not_know_it() {
    let test = Harness::new().await;
    let (zone, region) = (
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
    );
    for (labels, is_gone) in [
        (&[(zone, "ch-gva-2"), (region, "ch-gva-2")][..], true),
        (&[(region, "ch-gva-2")], true),
        (&[(zone, ""), (region, "ch-gva-2")], true),
        (&[(zone, "at-vie-1"), (region, "at-vie-1")], false),
        (&[(region, "at-vie-1")], false),
    ] {
        let mut node = known("x", &format!("exoscale://{NOBODY}"));
        node.labels = labels.iter().copied().collect();
        let answer = test.ask_one(&node).await;
        if is_gone {
            gone(answer);
        } else {
            let text = cannot_tell(answer);
            assert!(text.contains("at-vie-1"), "{text}");
        }
        // One that is here is here, whatever its labels say.
        node.provider_id = Some(I1.to_owned());
        found(test.ask_one(&node).await);
    }
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_28_an_error_is_never_gone() {
    for code in [500, 503, 429] {
        never_gone(code, 5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_82_a_denial_is_never_gone() {
    for code in [401, 403] {
        never_gone(code, 1).await;
    }
}

async fn never_gone(code: u16, calls: usize) {
    let test = Harness::new().await;
    test.fault("/v2/instance/*", status(code));
    let node = known("x", &format!("exoscale://{NOBODY}"));
    let text = cannot_tell(test.ask_one(&node).await);
    assert!(text.contains(&format!("answered {code}")), "{text}");
    assert_eq!(test.calls().len(), calls, "{code}");
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_93_a_bare_uuid_is_a_provider_id_too() {
    let test = Harness::new().await;
    test.sim.stop(I1).unwrap();
    let instance = found(test.ask_one(&known("w", I1)).await);
    assert_eq!(instance.power, Power::Off);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_29_the_state_says_whether_it_is_off_or_gone() {
    let test = Harness::new().await;
    let node = known("w", &format!("exoscale://{I1}"));
    for (state, power) in [
        (State::Running, Power::On),
        (State::Stopping, Power::Off),
        (State::Stopped, Power::Off),
        (State::Destroying, Power::Off),
        (State::Error, Power::Unclear),
        (State::Migrating, Power::Unclear),
        (State::Starting, Power::Unclear),
    ] {
        test.sim.set_state(I1, state).unwrap();
        let instance = found(test.ask_one(&node).await);
        assert_eq!(instance.power, power, "{state:?}");
    }
    for state in ["destroyed", "expunging"] {
        test.deform(I1, &json!({ "state": state }));
        let evidence = gone(test.ask_one(&node).await);
        assert!(evidence.text.ends_with(state), "{}", evidence.text);
    }
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_37_a_node_of_another_cloud_costs_no_call() {
    let test = Harness::new().await;
    for id in ["hcloud://42", "aws:///eu/i-1", "kind://x"] {
        let mut node = known("w", id);
        node.system_uuid = I1.to_owned();
        assert_eq!(test.cloud.match_node(&node).claim, Claim::Foreign);
        let answer = test.ask_one(&node).await;
        assert!(matches!(answer, Lookup::NotMine), "{answer:?}");
    }
    assert_eq!(test.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_38_a_waiting_node_whose_machine_is_unknown_is_not_ours() {
    let test = Harness::new().await;
    let answer = test.ask_one(&fresh("w", NOBODY)).await;
    assert!(matches!(answer, Lookup::NotMine), "{answer:?}");
    test.calls();
    for nothing in ["", "not-a-uuid", "6f1d2c3b7a554e0c9b612d3e4f5a6b7c"] {
        let answer = test.ask_one(&fresh("w", nothing)).await;
        assert!(matches!(answer, Lookup::NotMine), "{answer:?}");
    }
    assert_eq!(test.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_83_a_settled_node_without_provider_id_goes_with_its_machine() {
    let test = Harness::new().await;
    let mut node = known("w", "");
    node.system_uuid = I1.to_owned();
    assert_eq!(test.cloud.match_node(&node).claim, Claim::Mine);
    found(test.ask_one(&node).await);
    test.sim.destroy(I1).unwrap();
    gone(test.ask_one(&node).await);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_92_an_id_that_is_no_uuid_and_of_no_override_costs_no_call() {
    let test = Harness::new().await;
    for id in [
        "exoscale://rack7-u12".to_owned(),
        format!("exoscale://ch-gva-2/{I1}"),
    ] {
        let node = known("w", &id);
        let claim = test.cloud.match_node(&node).claim;
        assert!(matches!(claim, Claim::Malformed(_)), "{claim:?}");
        let text = cannot_tell(test.ask_one(&node).await);
        assert!(text.contains(&id), "{text}");
    }
    assert_eq!(test.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_94_an_id_in_upper_case_is_asked_for_and_written_in_lower_case() {
    let test = Harness::new().await;
    let node = fresh("w", &I1.to_uppercase());
    let instance = found(test.ask_one(&node).await);
    assert_eq!(test.calls()[0], format!("GET /v2/instance/{I1} 200"));
    assert_eq!(
        instance.provider_id.unwrap().as_str(),
        format!("exoscale://{I1}")
    );
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_97_what_an_answer_lacks_is_an_error_of_that_node() {
    let test = Harness::new().await;
    let fleet = test.fleet("w", 5, "standard.small");
    for (members, what) in [
        (json!({ "instance-type": null }), "instance-type"),
        (json!({ "name": null }), "name"),
        (
            json!({ "instance-type": { "id": NOBODY } }),
            "instance-type",
        ),
        (json!({ "public-ip": "nowhere" }), "nowhere"),
    ] {
        test.deform(I1, &members);
        let mut nodes = fleet.clone();
        nodes.insert(2, worker());
        for asked in [&nodes[2..3], &nodes[..]] {
            let mut answers = test.ask(asked).await;
            let own = answers.remove(asked.len().min(3) - 1);
            let text = cannot_tell(own);
            assert!(text.contains(what), "{text}");
            assert!(
                answers.iter().all(|it| matches!(it, Lookup::Found(_))),
                "{answers:?}"
            );
        }
        test.wait(bowline_exoscale::LIST_AGE * 2).await;
    }
    test.deform(I1, &json!({}));
    found(test.ask_one(&worker()).await);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_labels_say_another_zone_is_disclaimed_unless_the_operator_describes_it() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    const REGION: &str = "topology.kubernetes.io/region";
    let test =
        Harness::configured("instances: {overrides: [{name: edge-1, external: true}]}").await;
    let (here, there) = ("ch-gva-2", "de-fra-1");
    for (name, labels, disclaimed) in [
        ("w", &[][..], false),
        ("w", &[(ZONE, here)], false),
        ("w", &[(ZONE, there)], true),
        // The zone counts before the region; an empty one says nothing.
        ("w", &[(ZONE, here), (REGION, there)], false),
        ("w", &[(ZONE, ""), (REGION, there)], true),
        ("w", &[(REGION, here)], false),
        ("w", &[(REGION, there)], true),
        // Where the operator says what it is, its labels do not count.
        ("edge-1", &[(ZONE, there)], false),
    ] {
        let mut node = known(name, &format!("exoscale://{I1}"));
        for key in [ZONE, REGION] {
            node.labels.remove(key);
        }
        let labels = labels.iter();
        let labels = labels.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        node.labels.extend(labels);
        assert_eq!(
            test.cloud.match_node(&node).other_account,
            disclaimed,
            "{name} {:?}",
            node.labels
        );
    }
    assert_eq!(test.calls(), [""; 0]);
}
