//! Which VM a node is, and its description.

use bowline_core::{Lookup, Power, initialize};
use bowline_simulator::faults::Action;
use serde_json::json;

use crate::harness::{
    H1, H2, H3, Harness, NOBODY, PA, PB, SWAPPED, VM1, VM2, cannot_tell, found, fresh, id1, known,
    status, w1, with_node_ip,
};

/// What the node of VM1 looks like after it was initialised, as lines.
async fn initialised(test: &Harness, machine: &str) -> Vec<String> {
    let node = with_node_ip(fresh("w1", machine), "10.20.0.11");
    let instance = found(test.ask_one(&node).await);
    let change = initialize(&node, &instance).unwrap();
    assert_eq!(change.skipped_labels, []);
    let mut lines = vec![change.provider_id.unwrap()];
    lines.extend(change.labels.iter().map(|(k, v)| format!("{k}={v}")));
    lines.extend(change.addresses.unwrap().iter().map(ToString::to_string));
    lines
}

fn wanted() -> Vec<String> {
    vec![
        id1(),
        "beta.kubernetes.io/instance-type=4vCPU-4GB".into(),
        format!("failure-domain.beta.kubernetes.io/region={PA}"),
        format!("failure-domain.beta.kubernetes.io/zone={H1}"),
        "node.kubernetes.io/instance-type=4vCPU-4GB".into(),
        format!("topology.k8s.xenorchestra/host_id={H1}"),
        "topology.k8s.xenorchestra/host_name_label=xcp-1".into(),
        format!("topology.k8s.xenorchestra/pool_id={PA}"),
        "topology.k8s.xenorchestra/pool_name_label=lab-pool".into(),
        format!("topology.kubernetes.io/region={PA}"),
        format!("topology.kubernetes.io/zone={H1}"),
        "vm.k8s.xenorchestra/name_label=worker-1".into(),
        "InternalIP:10.20.0.11".into(),
        "ExternalIP:10.20.0.11".into(),
        "Hostname:w1".into(),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_new_node_is_reported_everything_in_three_calls_and_later_ones_in_one() {
    let test = Harness::new().await;
    assert_eq!(initialised(&test, VM1).await, wanted());
    assert_eq!(
        test.calls(),
        [
            format!("GET /rest/v0/vms/{VM1} 200"),
            format!("GET /rest/v0/hosts/{H1} 200"),
            format!("GET /rest/v0/pools/{PA} 200"),
        ]
    );
    assert_eq!(initialised(&test, VM1).await, wanted());
    assert_eq!(test.calls(), [format!("GET /rest/v0/vms/{VM1} 200")]);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_24_the_machine_may_write_its_id_without_dashes() {
    let test = Harness::new().await;
    let machine = VM1.replace('-', "");
    assert_eq!(initialised(&test, &machine).await, wanted());
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_23_the_machine_may_write_its_id_in_any_form() {
    let test = Harness::new().await;
    for machine in [VM1.to_uppercase(), SWAPPED.to_owned()] {
        assert_eq!(initialised(&test, &machine).await, wanted(), "{machine}");
    }
    let paths = test.calls().join("\n");
    assert_eq!(paths, paths.replace(&VM1.to_uppercase(), ""), "lower case");
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_31_a_machine_that_is_not_here_costs_two_calls_and_is_not_ours() {
    let test = Harness::new().await;
    for _ in 0..2 {
        let node = fresh("w9", "12345678-0000-4000-8000-000000000000");
        assert!(matches!(test.ask_one(&node).await, Lookup::NotMine));
        assert_eq!(
            test.calls(),
            [
                "GET /rest/v0/vms/12345678-0000-4000-8000-000000000000 404",
                "GET /rest/v0/vms/78563412-0000-0040-8000-000000000000 404",
            ]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_an_id_is_not_asked_about() {
    let test = Harness::new().await;
    for machine in ["", "not a uuid"] {
        let answer = test.ask_one(&fresh("w1", machine)).await;
        assert!(matches!(answer, Lookup::NotMine));
    }
    assert_eq!(test.calls().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_32_a_host_that_cannot_be_read_has_no_name() {
    has_no_name("hosts", "host_name_label", status(500, "because")).await;
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_33_a_pool_that_is_not_there_has_no_name() {
    let gone = status(404, &format!("no such pool {PA}"));
    has_no_name("pools", "pool_name_label", gone).await;
}

/// With such answers about those, a new node's label of the name is `unknown` and all else is
/// right.
async fn has_no_name(kind: &str, label: &str, answer: Action) {
    let test = Harness::new().await;
    test.fault(&format!("/rest/v0/{kind}/*"), answer);
    let lines = initialised(&test, VM1).await;
    let key = format!("topology.k8s.xenorchestra/{label}=");
    for (line, wanted) in lines.iter().zip(wanted()) {
        if line.starts_with(&key) {
            assert_eq!(*line, format!("{key}unknown"));
        } else {
            assert_eq!(*line, wanted);
        }
    }
    // A node that has a name keeps it.
    let instance = found(test.ask_one(&w1()).await);
    assert!(
        !instance
            .extra_labels
            .contains_key(key.trim_end_matches('='))
    );
    assert_eq!((&*instance.zone, &*instance.region), (H1, PA));
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_34_a_new_node_keeps_a_label_that_it_has() {
    let test = Harness::new().await;
    let mut node = fresh("w1", VM1);
    let key = "vm.k8s.xenorchestra/name_label";
    node.labels.insert(key.into(), "custom".into());
    let instance = found(test.ask_one(&node).await);
    let change = initialize(&node, &instance).unwrap();
    assert!(!change.labels.contains_key(key));
    assert_eq!(
        instance.extra_labels[key], "worker-1",
        "for the synchronisation"
    );
}

#[tokio::test(start_paused = true)]
async fn names_of_all_kinds_become_labels() {
    let test = Harness::new().await;
    let a = "a".repeat(62);
    for (name, wanted) in [("nœud-1", "n-ud-1"), (&format!("{a}-b"), &a), ("###", "")] {
        test.sim.rename(VM1, name).unwrap();
        let instance = found(test.ask_one(&fresh("w1", VM1)).await);
        let label = &instance.extra_labels["vm.k8s.xenorchestra/name_label"];
        assert_eq!(label, wanted);
        initialize(&fresh("w1", VM1), &instance).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_40_an_error_is_no_reason_to_look_elsewhere() {
    let test = Harness::new().await;
    for (action, word) in [
        (status(500, "because"), "500"),
        (status(403, "not enough privileges"), "403"),
        (Action::Html { code: 404 }, "404"),
        (Action::Html { code: 200 }, "not understood"),
        (Action::Reset, "got no answer"),
    ] {
        test.fault("/rest/v0/vms/*", action);
        let error = cannot_tell(test.ask_one(&fresh("w1", SWAPPED)).await);
        assert!(error.contains(word), "{error}");
        let calls = test.calls();
        assert!(calls.iter().all(|call| call.contains(SWAPPED)), "{calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_43_an_id_without_a_pool_is_as_good() {
    let test = Harness::new().await;
    let node = known("w1", &format!("xenorchestra:///{VM1}"));
    let instance = found(test.ask_one(&node).await);
    assert_eq!((&*instance.zone, &*instance.region), (H1, PA));
    assert_eq!(
        instance.provider_id.unwrap().as_str(),
        format!("xenorchestra:///{VM1}")
    );
    assert_eq!(found(test.presence(&node).await).power, Power::On);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_45_a_settled_node_that_is_not_here_is_left_alone() {
    let test = Harness::new().await;
    let mut node = fresh("w9", NOBODY);
    node.taints.clear();
    for _ in 0..2 {
        assert!(matches!(test.ask_one(&node).await, Lookup::NotMine));
    }
}

#[tokio::test(start_paused = true)]
async fn a_settled_node_without_an_id_is_recognised_by_its_machine() {
    let test = Harness::new().await;
    let mut node = fresh("w1", VM1);
    node.taints.clear();
    let instance = found(test.ask_one(&node).await);
    assert_eq!(instance.extra_labels.len(), 5);
    // Never off, and never gone: nobody asks.
    test.calls();
    assert!(matches!(test.presence(&node).await, Lookup::NotMine));
    assert_eq!(test.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nodes_of_other_clouds_cost_nothing() {
    let test = Harness::new().await;
    let foreign = known("w1", "exoscale://6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c");
    let lab = known("w1", "xenorchestra-lab://a/b");
    for node in [foreign, lab] {
        assert!(matches!(test.ask_one(&node).await, Lookup::NotMine));
    }
    assert_eq!(test.calls().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_moves_is_reported_where_it_is() {
    let test = Harness::new().await;
    test.sim.migrate(VM1, H2).unwrap();
    let moved = found(test.ask_one(&w1()).await);
    assert_eq!((&*moved.zone, &*moved.region), (H2, PA));
    assert_eq!(
        moved.extra_labels["topology.k8s.xenorchestra/host_name_label"],
        "xcp-2"
    );
    test.sim.migrate(VM1, H3).unwrap();
    let moved = found(test.ask_one(&w1()).await);
    assert_eq!((&*moved.zone, &*moved.region), (H3, PB));
    assert_eq!(
        moved.extra_labels["topology.k8s.xenorchestra/pool_name_label"],
        "dr-pool"
    );
    assert_eq!(moved.provider_id.unwrap().as_str(), id1());
}

#[tokio::test(start_paused = true)]
async fn a_halted_vm_keeps_its_place_and_a_new_node_gets_none() {
    let test = Harness::new().await;
    test.sim.halt(VM1).unwrap();
    let halted = found(test.ask_one(&w1()).await);
    assert_eq!((&*halted.zone, &*halted.region), ("", PA));
    assert!(
        !halted
            .extra_labels
            .contains_key("topology.k8s.xenorchestra/host_id")
    );
    assert_eq!(found(test.ask_one(&fresh("w1", VM1)).await).zone, "");
    // On the host that has its disk, which a new node may know.
    test.sim.set_local_disk(VM1, Some(H2)).unwrap();
    assert_eq!(found(test.ask_one(&w1()).await).zone, "");
    assert_eq!(found(test.ask_one(&fresh("w1", VM1)).await).zone, H2);
}

#[tokio::test(start_paused = true)]
async fn a_vm_without_a_container_has_no_zone() {
    let test = Harness::new().await;
    test.sim.hide_container(VM1, true).unwrap();
    for node in [fresh("w1", VM1), w1()] {
        let instance = found(test.ask_one(&node).await);
        assert_eq!((&*instance.zone, instance.extra_labels.len()), ("", 3));
    }
}

#[tokio::test(start_paused = true)]
async fn an_odd_vm_is_read_as_far_as_it_can_be() {
    let test = Harness::new().await;
    let odd = json!({ "CPUs": null, "memory": "much", "tags": 7, "$pool": null });
    test.sim.deform(VM1, odd.as_object().cloned().unwrap());
    let instance = found(test.ask_one(&w1()).await);
    assert_eq!((&*instance.instance_type, &*instance.region), ("", PA));
}

#[tokio::test(start_paused = true)]
async fn many_nodes_are_one_list() {
    let test = Harness::new().await;
    let mut nodes: Vec<_> = (0..40).map(|n| fresh(&format!("x{n}"), NOBODY)).collect();
    for node in &mut nodes {
        node.taints.clear();
    }
    nodes.push(w1());
    nodes.push(known("w2", &format!("xenorchestra://{PA}/{VM2}")));
    nodes.push(fresh("w3", SWAPPED));
    let answers = test.ask(&nodes).await;
    let count = answers
        .iter()
        .filter(|it| matches!(it, Lookup::Found(_)))
        .count();
    assert_eq!(count, 3);
    let calls = test.calls();
    let lists = calls
        .iter()
        .filter(|it| it.starts_with("GET /rest/v0/vms "))
        .count();
    assert_eq!(
        (lists, calls.len()),
        (1, 4),
        "a list, two hosts, a pool: {calls:?}"
    );
    test.ask(&nodes).await;
    assert_eq!(test.calls().len(), 0, "the list answers again");
}

#[tokio::test(start_paused = true)]
async fn tags_become_labels_on_request() {
    let test = Harness::configured("events: no\ntagLabelPrefix: k8s/label=\n").await;
    test.sim
        .set_tags(VM1, &["k8s", "k8s/label=team:blue"])
        .unwrap();
    let marks = found(test.ask_one(&w1()).await).marks;
    assert_eq!(marks.labels["team"], "blue");
}

#[tokio::test(start_paused = true)]
async fn a_virtual_address_is_nobody_s() {
    let test = Harness::configured("events: no\naddressMode: internal\n").await;
    for (vm, own) in [(VM1, "10.20.0.11"), (VM2, "10.20.0.12")] {
        let guest = [("0/ipv4/0", own), ("0/ipv4/1", "10.20.0.100")];
        test.sim.set_guest(vm, &guest).unwrap();
    }
    let nodes = [w1(), known("w2", &format!("xenorchestra://{PA}/{VM2}"))];
    let answers = test.ask(&nodes).await;
    for (answer, wanted) in answers.into_iter().zip(["10.20.0.11", "10.20.0.12"]) {
        let addresses = found(answer).addresses;
        assert_eq!(addresses[0].address, wanted);
        assert_eq!(addresses.len(), 2, "{addresses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_new_nodes_of_other_clouds_cost_one_list() {
    let test = Harness::new().await;
    let mut nodes: Vec<_> = (0..150u128)
        .map(|n| fresh(&format!("x{n}"), &uuid::Uuid::from_u128(n + 1).to_string()))
        .collect();
    nodes.push(fresh("w1", VM1));
    let answers = test.ask(&nodes).await;
    let others = answers.iter().filter(|it| matches!(it, Lookup::NotMine));
    assert_eq!(others.count(), 150);
    let calls = test.calls();
    assert!(calls.len() <= 4, "two lists, a host, a pool: {calls:?}");
}
