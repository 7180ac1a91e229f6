//! Prometheus is led to the metrics service.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_simulator_triton::MachineSpec;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::json;
use tokio::time::sleep;
use x509_parser::der_parser::Oid;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::harness::{CMON, Harness, UID, id};

const GROUPS: &str = "triton.cmon.groups";
const RECORD: &str = "bowline.cmon";
const GROUP: &str = "k8s-kubernetes";

fn is_in_group(test: &Harness, number: u32) -> bool {
    test.tag(number, RECORD).as_deref() == Some(GROUP)
}

async fn until_grouped(test: &Harness, numbers: std::ops::RangeInclusive<u32>) {
    test.until("all machines are in the group", |it| {
        numbers.clone().all(|number| is_in_group(it, number))
    })
    .await;
}

/// Subject and extended usages of a certificate.
fn certificate(pem: &str) -> (String, Vec<String>) {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let (_, parsed) = X509Certificate::from_der(&der).unwrap();
    let usages = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(usages.client_auth);
    let usages = usages.other.iter().map(Oid::to_id_string).collect();
    (parsed.subject().to_string(), usages)
}

#[tokio::test(start_paused = true)]
async fn triton_case_64_machines_are_in_the_group_and_everything_to_find_them_is_there() {
    let mut test = Harness::new(3);
    test.set_tag(1, GROUPS, "db");
    test.start("discovery");
    until_grouped(&test, 1..=3).await;
    assert_eq!(test.tag(1, GROUPS).as_deref(), Some("db,k8s-kubernetes"));
    for number in [2, 3] {
        assert_eq!(test.tag(number, GROUPS).as_deref(), Some(GROUP));
    }
    assert_eq!(test.tag(1, "bowline.node").as_deref(), Some(UID));
    assert_eq!(test.tag_writes(), 3, "one write for each machine");

    let secret = test.cluster.object("Secret", "triton-cmon-client");
    let keys: Vec<&str> = secret.keys().map(String::as_str).collect();
    assert_eq!(keys, ["tls.crt", "tls.key"]);
    let (subject, usages) = certificate(&secret["tls.crt"]);
    assert_eq!(subject, "CN=acme");
    assert_eq!(usages, ["1.3.6.1.4.1.38678.1.4.2"]);

    let reported = test.discovered();
    assert_eq!(reported.len(), 3);
    let target = format!("{}.{CMON}:9163", id(1));
    assert_eq!(reported[0]["targets"], json!([target]));
    let labels = &reported[0]["labels"];
    assert_eq!(labels["__meta_triton_machine_id"], id(1));
    assert_eq!(labels["__meta_triton_machine_alias"], "k8s-1");
    assert_eq!(labels["__meta_triton_machine_brand"], "bhyve");
    assert!(labels["__meta_triton_server_id"].as_str().unwrap().len() == 36);
    assert_eq!(labels["node"], "k8s-1");
    assert_eq!(labels["role"], "node");

    let snippets = test.cluster.object("ConfigMap", "triton-cmon-scrape");
    let page = "url: https://bowline-metrics.kube-system.svc:10258/sd/triton\n";
    assert!(snippets["http-sd.yaml"].contains(page), "{snippets:?}");
    assert!(snippets["triton-sd.yaml"].contains("groups: [k8s-kubernetes]\n"));
    assert_eq!(test.page("/metrics/triton"), None, "only in mode export");
    assert_eq!(test.page("/sd/other"), None);
}

#[tokio::test(start_paused = true)]
async fn triton_case_81_machines_that_run_are_listed_though_the_service_is_never_asked() {
    for is_open in [false, true] {
        let mut test = Harness::new(3);
        if is_open {
            test.open_cmon();
        }
        test.sim.stop(&id(2)).unwrap();
        test.start("discovery");
        test.until("a list", |it| it.discovered().len() == 2).await;
        let reported = test.discovered();
        for (reported, number) in reported.iter().zip([1, 3]) {
            assert_eq!(
                reported["targets"][0],
                format!("{}.{CMON}:9163", id(number))
            );
        }
        sleep(Duration::from_secs(600)).await;
        assert_eq!(test.asked_cmon(), 0);
        test.sim.start(&id(2)).unwrap();
        test.until("all", |it| it.discovered().len() == 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_listed_before_machines_are_known_so_that_nobody_forgets_any() {
    let mut test = Harness::new(1);
    test.world.faults.fail_reads("triton", true);
    test.start("discovery");
    sleep(Duration::from_secs(120)).await;
    assert_eq!(test.page("/sd/triton"), None);
    test.world.faults.fail_reads("triton", false);
    test.until("a list", |it| it.discovered().len() == 1).await;
    test.world.faults.fail_reads("triton", true);
    sleep(Duration::from_secs(300)).await;
    assert_eq!(test.discovered().len(), 1, "what was last known stays");
}

#[tokio::test(start_paused = true)]
async fn load_balancers_of_the_cluster_are_found_and_grouped_like_nodes() {
    let mut test = Harness::new(1);
    for (number, uid) in [(8, UID), (9, "dddddddd-0000-4000-8000-00000000000d")] {
        let spec = MachineSpec::named(&format!("clb-{number}")).id(&id(number));
        test.sim.add_machine(&spec).unwrap();
        test.set_tag(number, "bowline.clb", uid);
    }
    test.start("discovery");
    test.until("two", |it| it.discovered().len() == 2).await;
    let labels = test.discovered()[1]["labels"].clone();
    assert_eq!(labels["node"], "clb-8");
    assert_eq!(labels["role"], "clb");
    until_grouped(&test, 8..=8).await;
    assert_eq!(test.tag(8, "bowline.node"), None, "it is no node");
    assert_eq!(test.tag(9, GROUPS), None, "another cluster's");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_is_grouped_and_one_that_leaves_is_not_after_a_minute() {
    let mut test = Harness::new(2);
    let node = test.cluster.node(2);
    test.cluster.change(2, None);
    test.set_tag(2, GROUPS, "db");
    test.start("discovery");
    until_grouped(&test, 1..=1).await;
    assert_eq!(test.discovered().len(), 1);
    test.cluster.change(2, Some(node.clone()));
    until_grouped(&test, 2..=2).await;
    test.until("both", |it| it.discovered().len() == 2).await;
    let writes = test.tag_writes();
    // A node that registers anew is gone for a moment.
    test.cluster.change(2, None);
    sleep(Duration::from_secs(30)).await;
    test.cluster.change(2, Some(node));
    sleep(Duration::from_secs(300)).await;
    assert_eq!(test.tag_writes(), writes);
    test.cluster.change(2, None);
    let left = |it: &Harness| it.tag(2, RECORD).is_none();
    test.until("the group is left", left).await;
    assert_eq!(test.tag(2, GROUPS).as_deref(), Some("db"));
    let unmarked = |it: &Harness| it.tag(2, "bowline.node").is_none();
    test.until("the mark is gone", unmarked).await;
    assert!(is_in_group(&test, 1));
}

#[tokio::test(start_paused = true)]
async fn who_takes_the_group_away_has_it_put_back_and_nothing_is_written_without_need() {
    let mut test = Harness::new(2);
    test.start("discovery");
    until_grouped(&test, 1..=2).await;
    let writes = test.tag_writes();
    let objects = test.cluster.writes.load(Ordering::Relaxed);
    test.start("discovery");
    sleep(Duration::from_secs(900)).await;
    assert_eq!(test.tag_writes(), writes, "a restart writes nothing");
    assert_eq!(test.cluster.writes.load(Ordering::Relaxed), objects);
    let none = serde_json::Map::new();
    test.sim.replace_tags(&id(1), none).unwrap();
    until_grouped(&test, 1..=1).await;
    assert_eq!(test.tag_writes(), writes + 1);
    assert_eq!(test.cluster.reported(), Vec::<String>::new());
}

/// Days pass at one stroke, and then a few minutes in which things happen.
async fn pass(days: u64) {
    tokio::time::advance(Duration::from_secs(days * 86_400)).await;
    sleep(Duration::from_secs(600)).await;
}

#[tokio::test(start_paused = true)]
async fn the_certificate_is_renewed_at_two_thirds_of_its_life_and_when_the_key_changes() {
    let mut test = Harness::new(1);
    let pem = |it: &Harness| {
        let mut secret = it.cluster.object("Secret", "triton-cmon-client");
        secret.remove("tls.crt")
    };
    test.start("discovery");
    test.until("a certificate", |it| pem(it).is_some()).await;
    let first = pem(&test);
    pass(59).await;
    assert_eq!(pem(&test), first);
    test.start("discovery");
    sleep(Duration::from_secs(600)).await;
    assert_eq!(pem(&test), first, "another leader goes on with it");
    pass(2).await;
    let second = pem(&test);
    assert_ne!(second, first);
    let rsa = include_str!("../../../src/keys/examples/rsa.pkcs1");
    test.add_key(rsa);
    test.start_with("discovery", rsa);
    test.until("another key's", |it| pem(it) != second).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_signs_no_certificates_is_reported_once_and_machines_are_listed_all_the_same() {
    let mut test = Harness::new(1);
    let key = include_str!("../../../src/keys/examples/ed25519.openssh");
    test.add_key(key);
    test.start_with("discovery", key);
    until_grouped(&test, 1..=1).await;
    sleep(Duration::from_secs(900)).await;
    assert_eq!(test.discovered().len(), 1);
    let reported = test.cluster.reported();
    assert_eq!(reported.len(), 1, "{reported:?}");
    let expected = "CMONKeyNotUsable Secret triton-cmon-client: ";
    assert!(reported[0].starts_with(expected), "{reported:?}");
    assert!(
        test.cluster
            .object("Secret", "triton-cmon-client")
            .is_empty()
    );
    let snippets = test.cluster.object("ConfigMap", "triton-cmon-scrape");
    assert!(!snippets.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_observer_lists_machines_and_changes_nothing() {
    let mut test = Harness::new(2);
    test.cluster.observing.store(true, Ordering::Relaxed);
    test.start("discovery");
    test.until("a list", |it| it.discovered().len() == 2).await;
    sleep(Duration::from_secs(900)).await;
    assert_eq!(test.tag_writes(), 0);
    assert_eq!(test.cluster.writes.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_somebody_elses_is_left_alone_and_reported() {
    let mut test = Harness::new(2);
    test.cluster.occupy("triton-cmon-scrape");
    let other = "dddddddd-0000-4000-8000-00000000000d";
    for (key, value) in [("bowline.node", other), (GROUPS, "mine")] {
        test.set_tag(2, key, value);
    }
    test.start("discovery");
    until_grouped(&test, 1..=1).await;
    sleep(Duration::from_secs(900)).await;
    assert_eq!(test.tag(2, GROUPS).as_deref(), Some("mine"));
    let reported = test.cluster.reported();
    assert_eq!(reported.len(), 2, "{reported:?}");
    let has = |words: &str| reported.iter().any(|it| it.starts_with(words));
    let not_ours = "CMONObjectNotOurs ConfigMap triton-cmon-scrape: ";
    assert!(has(not_ours), "{reported:?}");
    assert!(
        has("MachineOwnedByOtherCluster Node k8s-2: "),
        "{reported:?}"
    );
    // Its node says that it is ours by now.
    let mut node = test.cluster.node(2);
    let key = "cloud.tritoncompute/take_over".to_owned();
    node.annotations.insert(key, "true".to_owned());
    test.cluster.change(2, Some(node));
    until_grouped(&test, 2..=2).await;
    assert_eq!(test.tag(2, "bowline.node").as_deref(), Some(UID));
}
