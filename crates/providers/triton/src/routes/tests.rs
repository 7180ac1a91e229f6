//! What a survey shows, table by table; and networks that somebody else changes at the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bowline_core::Node;
use bowline_core::routes::{
    ObservedRoutes, Question, RouteNodes, RoutePlacement, RouteStep, Target, cluster_ranges, decide,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::want::{self, MOST_ENTRIES, Machines, Managed};
use super::*;
use crate::reload::Environment;
use crate::testing::{Harness, config, machine, node, refusal, reply, with};

const FABRIC: Uuid = Uuid::from_u128(2);

fn known(number: u128, cidrs: &[&str]) -> Arc<Node> {
    let id = format!("triton://{}", Uuid::from_u128(number));
    Arc::new(Node {
        pod_cidrs: cidrs.iter().map(|&it| it.to_owned()).collect(),
        ..node(&format!("n{number}"), &id)
    })
}

fn question(nodes: &[Arc<Node>]) -> Question {
    Question {
        cluster: "kubernetes".into(),
        ranges: cluster_ranges("10.244.0.0/16").unwrap(),
        nodes: nodes.to_vec(),
        others: Vec::new(),
    }
}

fn network(id: Uuid, subnet: &str, routes: &[(&str, &str)]) -> Managed {
    let routes: BTreeMap<&str, &str> = routes.iter().copied().collect();
    let body = json!({"id": id, "name": "net", "fabric": true, "vlan_id": 2, "subnet": subnet,
        "routes": routes});
    Managed {
        network: serde_json::from_value(body).unwrap(),
        vlan: 2,
    }
}

/// Nodes `n1`, `n2`, … with addresses 10.20.0.1, … on the fabric network.
fn with_cards(count: u8) -> Machines {
    let mut machines = Machines::default();
    let cards = machines.cards.entry(FABRIC).or_default();
    for number in 1..=count {
        cards.insert(format!("n{number}"), [10, 20, 0, number].into());
    }
    machines
}

fn reason(observed: &ObservedRoutes, node: &str, cidr: &str) -> String {
    match &observed.placements[&(node.to_owned(), cidr.to_owned())] {
        RoutePlacement::In(tables) => format!("in {}", tables.len()),
        RoutePlacement::Refused(remark) => format!("refused {}", remark.reason),
        RoutePlacement::Ignored(remark) => format!("ignored {}", remark.reason),
        RoutePlacement::Unknown(why) => format!("unknown {why}"),
    }
}

#[test]
fn every_range_has_its_place_or_a_reason() {
    let mut machines = with_cards(5);
    machines
        .lost
        .insert("n7".to_owned(), "not listed".to_owned());
    let question = question(&[
        known(1, &["10.244.1.0/24", "fd00::/64", "10.99.0.0/24", "words"]),
        known(2, &["10.244.1.0/24"]),
        known(6, &["10.244.6.0/24"]),
        known(7, &["10.244.7.0/24"]),
    ]);
    let managed = [network(FABRIC, "10.20.0.0/24", &[])];
    let observed = want::observe(&question, &managed, &machines);
    for (node, cidr, expected) in [
        ("n1", "10.244.1.0/24", "in 1"),
        ("n1", "fd00::/64", "ignored IPv6RouteIgnored"),
        ("n1", "10.99.0.0/24", "refused PodCIDROutsideCluster"),
        ("n1", "words", "refused PodCIDROutsideCluster"),
        ("n2", "10.244.1.0/24", "refused PodCIDRShared"),
        ("n6", "10.244.6.0/24", "refused NoFabricNIC"),
        ("n7", "10.244.7.0/24", "unknown not listed"),
    ] {
        assert_eq!(reason(&observed, node, cidr), expected, "{node} {cidr}");
    }
}

#[test]
fn pods_have_no_addresses_of_the_network() {
    for (subnet, expected) in [
        ("10.244.1.0/25", "refused PodCIDROverlapsSubnet"),
        ("10.244.0.0/20", "refused PodCIDROverlapsSubnet"),
        ("10.244.2.0/24", "in 1"),
        ("", "in 1"),
    ] {
        let managed = [network(FABRIC, subnet, &[])];
        let question = question(&[known(1, &["10.244.1.0/24"])]);
        let observed = want::observe(&question, &managed, &with_cards(1));
        assert_eq!(
            reason(&observed, "n1", "10.244.1.0/24"),
            expected,
            "{subnet}"
        );
    }
}

#[test]
fn a_network_holds_so_many_routes_and_no_more() {
    let foreign: Vec<String> = (0..MOST_ENTRIES - 1)
        .map(|number| format!("11.{}.{}.0/24", number / 256, number % 256))
        .collect();
    let foreign: Vec<(&str, &str)> = foreign
        .iter()
        .map(|it| (it.as_str(), "10.20.0.9"))
        .collect();
    let managed = [network(FABRIC, "10.20.0.0/24", &foreign)];
    let mut young = Node::clone(&known(1, &["10.244.1.0/24"]));
    young.created = "2026-01-01T00:00:00Z".parse().unwrap();
    let question = question(&[Arc::new(young), known(2, &["10.244.2.0/24"])]);
    let observed = want::observe(&question, &managed, &with_cards(2));
    assert_eq!(
        reason(&observed, "n2", "10.244.2.0/24"),
        "in 1",
        "first come"
    );
    assert_eq!(
        reason(&observed, "n1", "10.244.1.0/24"),
        "refused TooManyRoutes"
    );
}

#[test]
fn entries_lead_to_nodes_to_nobody_or_nobody_can_tell() {
    let entries = [
        ("10.244.1.0/24", "10.20.0.1"),
        ("10.244.2.0/24", "10.20.0.200"),
        ("10.244.3.0/24", "linklocal"),
        ("10.244.4.4", "10.20.0.1"),
        ("10.244.5.0/24", "10.20.0.50"),
        ("10.99.0.0/16", "10.20.0.200"),
        ("10.244.0.0/15", "10.20.0.200"),
        ("words", "10.20.0.1"),
    ];
    let managed = [network(FABRIC, "10.20.0.0/24", &entries)];
    let mut question = question(&[known(1, &["10.244.1.0/24"])]);
    let mut bare = Node::clone(&known(9, &[]));
    bare.provider_id = None;
    bare.addresses = vec![bowline_core::NodeAddress::new(
        bowline_core::AddressKind::InternalIp,
        "10.20.0.50",
    )];
    question.others = vec![Arc::new(bare)];
    let mut machines = with_cards(1);
    for lost in [false, true] {
        if lost {
            machines.lost.insert("n8".into(), "not listed".into());
        }
        let observed = want::observe(&question, &managed, &machines);
        let shown: Vec<(&str, &Target)> = observed
            .routes
            .iter()
            .map(|it| (it.destination.as_str(), &it.target))
            .collect();
        let n1 = Target::Node("n1".into());
        let stray = if lost {
            Target::Unclear
        } else {
            Target::Nobody
        };
        assert_eq!(
            shown,
            [
                ("10.244.1.0/24", &n1),
                ("10.244.2.0/24", &stray),
                ("10.244.3.0/24", &Target::Nobody),
                ("10.244.4.4/32", &n1),
                ("10.244.5.0/24", &Target::Node("n9".into())),
            ]
        );
    }
}

#[test]
fn of_several_cards_on_a_network_the_first_counts() {
    let mut machine = machine(Uuid::from_u128(1), "m");
    let nic = |ip: &str, primary: bool| crate::api::Nic {
        ip: ip.to_owned(),
        primary,
        network: Some(FABRIC),
    };
    machine.nics = Some(vec![
        nic("dhcp", false),
        nic("10.20.0.7", false),
        nic("10.20.0.8", true),
    ]);
    let mut machines = Machines::default();
    machines.add_cards("n1", &machine);
    assert_eq!(machines.cards[&FABRIC]["n1"].to_string(), "10.20.0.8");
}

/// A data center with one fabric network, on which others write too.
struct RouteHarness {
    routes: BTreeMap<String, String>,
    /// What others make of the routes after each of our writes, in turn.
    others: Vec<BTreeMap<String, String>>,
    writes: usize,
}

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    let entries = entries.iter();
    entries
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn harness(
    routes: &[(&str, &str)],
    others: &[&[(&str, &str)]],
) -> (Harness, Arc<Mutex<RouteHarness>>) {
    let harness = Arc::new(Mutex::new(RouteHarness {
        routes: map(routes),
        others: others.iter().rev().map(|it| map(it)).collect(),
        writes: 0,
    }));
    let shared = Arc::clone(&harness);
    let test = Harness::new(move |request| {
        let mut harness = shared.lock().unwrap();
        let network = |harness: &RouteHarness| {
            json!({"id": FABRIC, "name": "net", "fabric": true, "vlan_id": 2,
                "subnet": "10.20.0.0/24", "routes": harness.routes})
        };
        match (request.method().as_str(), request.uri().path()) {
            ("GET", "/acme/networks") => reply(200, &json!([network(&harness)])),
            ("GET", "/acme/machines") => {
                let one = json!({"id": Uuid::from_u128(1), "name": "n1", "state": "running",
                    "nics": [{"ip": "10.20.0.1", "network": FABRIC, "primary": true}]});
                with(reply(200, &json!([one])), "x-resource-count", "1")
            }
            ("GET", path) if path.contains("/fabrics/") => reply(200, &network(&harness)),
            ("PUT", path) if path.contains("/fabrics/") => {
                let body: Value = serde_json::from_slice(request.body()).unwrap();
                harness.routes = serde_json::from_value(body["routes"].clone()).unwrap();
                harness.writes += 1;
                let answer = reply(200, &network(&harness));
                if let Some(others) = harness.others.pop() {
                    harness.routes = others;
                }
                answer
            }
            (method, path) => refusal(404, "ResourceNotFound", &format!("{method} {path}")),
        }
    });
    (test, harness)
}

fn routes(test: &Harness, variables: &[(&str, &str)]) -> FabricRoutes {
    let variables = map(variables);
    let environment: Environment = Arc::new(move |name| variables.get(name).cloned());
    let config = config(&[], None);
    let metrics = crate::TritonMetrics::default();
    let context = Context::new(config, &environment, &test.seams(), &metrics);
    FabricRoutes::new(&context.unwrap())
}

/// One round as a controller makes it.
async fn round(test: &Harness, nodes: &[Arc<Node>]) -> Vec<Result<(), CloudError>> {
    let routes = routes(test, &[]);
    let question = question(nodes);
    let observed = routes.survey(&question).await.unwrap();
    let hood = RouteNodes::new(nodes, &BTreeMap::new(), |_| bowline_core::NodeOwner::Own);
    let decision = decide(&hood, &question.ranges, &observed, |_| 9);
    let removals = decision.changes.iter().flat_map(|it| &it.removals);
    let removals = removals.map(|it| RouteStep::Delete(it.route.clone()));
    let creations = decision.changes.iter().flat_map(|it| &it.creations);
    let steps: Vec<RouteStep> = removals
        .chain(creations.map(bowline_core::routes::Creation::step))
        .collect();
    routes.write(&question, &steps).await
}

const FOREIGN: (&str, &str) = ("10.99.0.0/16", "10.20.0.1");
const OURS: (&str, &str) = ("10.244.1.0/24", "10.20.0.1");
const STRAY: (&str, &str) = ("10.244.7.0/24", "10.20.0.200");

#[tokio::test(start_paused = true)]
async fn what_somebody_else_writes_at_the_same_time_is_kept() {
    let theirs = ("10.98.0.0/16", "linklocal");
    let (test, harness) = harness(&[FOREIGN, STRAY], &[&[FOREIGN, STRAY, theirs]]);
    let outcomes = round(&test, &[known(1, &["10.244.1.0/24"])]).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(outcomes.len(), 2);
    let harness = harness.lock().unwrap();
    assert_eq!(harness.routes, map(&[FOREIGN, OURS, theirs]));
    assert_eq!(harness.writes, 2);
}

#[tokio::test(start_paused = true)]
async fn a_network_that_never_rests_is_given_up_for_now() {
    let theirs: &[&[(&str, &str)]] = &[
        &[("10.99.0.0/16", "10.20.0.2")],
        &[("10.99.0.0/16", "10.20.0.3")],
        &[("10.99.0.0/16", "10.20.0.4")],
    ];
    let (test, harness) = harness(&[FOREIGN], theirs);
    let outcomes = round(&test, &[known(1, &["10.244.1.0/24"])]).await;
    let error = outcomes[0].as_ref().unwrap_err();
    assert_eq!(error.kind(), CloudErrorKind::Unavailable);
    assert_eq!(harness.lock().unwrap().writes, WRITES);
    assert_eq!(
        harness.lock().unwrap().routes["10.99.0.0/16"],
        "10.20.0.4",
        "theirs"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_as_it_should_be_is_not_written() {
    let (test, harness) = harness(&[FOREIGN, OURS], &[]);
    let outcomes = round(&test, &[known(1, &["10.244.1.0/24"])]).await;
    assert!(outcomes.is_empty());
    assert_eq!(harness.lock().unwrap().writes, 0);
}

#[test]
fn what_changed_since_it_was_seen_is_not_removed() {
    let managed = [network(FABRIC, "10.20.0.0/24", &[STRAY])];
    let observed = want::observe(&question(&[]), &managed, &Machines::default());
    let steps = [RouteStep::Delete(observed.routes[0].clone())];
    let hops = BTreeMap::new();
    assert_eq!(
        changed(&map(&[STRAY, FOREIGN]), &steps, &hops),
        map(&[FOREIGN])
    );
    let other = map(&[("10.244.7.0/24", "10.20.0.1")]);
    assert_eq!(changed(&other, &steps, &hops), other);
}

#[tokio::test(start_paused = true)]
async fn the_pod_that_is_reported_about_is_the_manager_s_own() {
    let test = Harness::new(|_| reply(200, &json!({})));
    for (variables, expected) in [
        (
            &[("POD_NAME", "bowline-0"), ("POD_NAMESPACE", "kube-system")][..],
            Some(("kube-system".to_owned(), "bowline-0".to_owned())),
        ),
        (&[("POD_NAME", "bowline-0")], None),
        (&[], None),
    ] {
        let advice = routes(&test, variables).advice().unwrap();
        assert_eq!(advice.pod, expected);
        assert_eq!(advice.remark.reason, "RoutesNeedSpoofing");
        assert!(advice.remark.message.contains("allow_ip_spoofing"));
    }
}
