//! What a list that lacks something proves.

use std::time::Duration;

use bowline_scenarios::cache::Cache;
use bowline_scenarios::objects::{known, service};
use bowline_scenarios::{
    LEASE, Setup, Sharing, TestCluster, is_real, refuse, run_scenario, scenario,
};
use bowline_simulator::faults::{Action, Rule};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

const RANGE: &str = "--cluster-cidr=10.244.0.0/16";

/// A cluster whose manager looks after Services, with these nodes.
async fn with_services(flags: &[&str], nodes: &[&str]) -> TestCluster {
    let flags = [&["--controllers=service"], flags].concat();
    let bench = TestCluster::set_up(Setup {
        flags: &flags,
        ..Setup::default()
    })
    .await;
    bench.cloud().offer_balancers();
    for name in nodes {
        bench.put(node(name, None)).await;
    }
    bench
}

/// A node of the cloud; its number is the end of its address.
fn node(name: &str, range: Option<&str>) -> Value {
    let number: u8 = name[1..].parse().unwrap();
    let address = format!("InternalIP:10.0.0.{number}");
    let mut node = known(name, &format!("demo://{name}"), "True", &[&address]);
    if let Some(range) = range {
        node["spec"]["podCIDR"] = range.into();
        node["spec"]["podCIDRs"] = json!([range]);
    }
    node
}

/// So many writes of something else.
async fn revisions(bench: &TestCluster, count: usize) {
    let api: Api<ConfigMap> = Api::namespaced(bench.admin(), "default");
    let name = bench.cluster.names().own("pace");
    let params = PatchParams::apply("test");
    for number in 0..count {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
                          "data": { "number": number.to_string() } });
        api.patch(&name, &params, &Patch::Apply(&map))
            .await
            .unwrap();
    }
}

fn doubts(bench: &TestCluster, resource: &str, result: &str) -> f64 {
    let series =
        format!("bowline_doubtful_objects_total{{resource=\"{resource}\",result=\"{result}\"}}");
    bench.metric(&series).unwrap_or_default()
}

fn range_of(bench: &TestCluster, name: &str) -> String {
    let node = bench.node(name);
    node["spec"]["podCIDR"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

async fn until_range(bench: &TestCluster, name: &str) -> String {
    let what = format!("{name} has a pod range");
    bench
        .until(&what, |it| !range_of(it, name).is_empty())
        .await;
    range_of(bench, name)
}

/// Old enough for a server to be taken for a restored one.
async fn longer_than_a_lag(bench: &TestCluster) {
    bench.seconds(45).await;
}

#[scenario]
async fn proof_case_01_a_service_that_an_old_cache_lacks_keeps_its_load_balancer() {
    let mut bench = with_services(&[], &["n1", "n2"]).await;
    let old = Cache::of_services(&bench).await;
    bench.start();
    bench.ensured("web").await;
    revisions(&bench, 100).await;
    let held = bench.finalizers("web");
    assert!(!held.is_empty());
    let lagging = old.answer(&bench);
    lagging.answered(&bench, 3).await;
    longer_than_a_lag(&bench).await;
    assert_eq!(bench.balancers().all().len(), 1);
    assert_eq!(bench.balancers().count("delete load balancer"), 0);
    assert_eq!(bench.finalizers("web"), held);
    // A consistent read has settled it: what is new is seen although the cache still lags.
    bench.create_service(service("api")).await;
    bench.until_published("api").await;
    drop(lagging);
    bench.delete_service("web").await;
    bench.until_service_gone("web").await;
    assert_eq!(bench.balancers().all().len(), 1);
}

#[scenario]
async fn proof_case_01_a_service_that_a_list_lacks_is_read_once_more_by_its_name() {
    let mut bench = with_services(&[], &["n1", "n2"]).await;
    bench.start();
    for name in ["web", "api", "gone"] {
        bench.ensured(name).await;
    }
    bench.settle().await;
    let mut wrong = Cache::of_services(&bench).await;
    wrong = wrong.without(&bench, &["web", "gone"]);
    // It says that it is of when the one was deleted, and lacks the other, too.
    wrong.version += 50;
    let mut lagging = None;
    bench
        .unseen(async || {
            let free = json!({ "metadata": { "finalizers": null } });
            bench.patch_service("gone", free).await;
            bench.delete_service("gone").await;
            revisions(&bench, 100).await;
            lagging = Some(wrong.answer(&bench));
        })
        .await;
    let lagging = lagging.unwrap();
    lagging.answered(&bench, 1).await;
    bench
        .until("the load balancer of the deleted Service is gone", |it| {
            it.balancers().all().len() == 2
        })
        .await;
    bench.settle().await;
    drop(lagging);
    assert_eq!(bench.balancers().count("delete load balancer"), 1);
    assert_eq!(bench.balancers().count("delete load balancer shop/gone"), 1);
    assert!(doubts(&bench, "services", "there") >= 1.0);
    assert!(doubts(&bench, "services", "gone") >= 1.0);
    bench.delete_service("web").await;
    bench.until_service_gone("web").await;
}

/// A manager that gives pod ranges, keeps routes and looks after Services; nodes `n1` to `n3`.
async fn with_everything(flags: &[&str], sharing: Sharing) -> TestCluster {
    let mut flags = [
        &[
            "--controllers=service,route,node-ipam-controller",
            "--allocate-node-cidrs",
            RANGE,
        ],
        flags,
    ]
    .concat();
    if is_real() {
        flags.push("--route-reconciliation-period=1s");
    }
    let mut bench = TestCluster::set_up(Setup {
        flags: &flags,
        sharing,
        ..Setup::default()
    })
    .await;
    bench.cloud().offer_balancers();
    bench.cloud().offer_routes();
    let audits = Duration::from_secs(if is_real() { 5 } else { 600 });
    bench.balancers().audit_every(audits);
    bench.start();
    for name in ["n1", "n2", "n3"] {
        bench.put(node(name, None)).await;
        until_range(&bench, name).await;
    }
    bench.ensured("web").await;
    bench
        .until("each node has its route and its target", |it| {
            it.cloud().routes().all().len() == 3 && it.balancers().members().len() == 3
        })
        .await;
    bench
}

#[scenario]
async fn proof_case_02_a_node_that_a_list_lacks_keeps_range_routes_and_targets() {
    let bench = with_everything(&[], Sharing::Shared).await;
    let routes = bench.cloud().routes().all();
    let taken = range_of(&bench, "n2");
    let old = Cache::of_nodes(&bench).await.without(&bench, &["n2"]);
    revisions(&bench, 100).await;
    bench.balancers().clear();
    // From a cache that is 100 revisions old.
    let lagging = old.answer(&bench);
    lagging.answered(&bench, 3).await;
    longer_than_a_lag(&bench).await;
    drop(lagging);
    bench.settle().await;
    // From one that says it is current, and has a new node besides.
    bench.put(node("n4", None)).await;
    until_range(&bench, "n4").await;
    let wrong = Cache::of_nodes(&bench).await.without(&bench, &["n2"]);
    let lagging = wrong.answer(&bench);
    lagging.answered(&bench, 1).await;
    bench
        .until("it is found all the same", |it| {
            doubts(it, "nodes", "there") >= 1.0
        })
        .await;
    bench.settle().await;
    drop(lagging);
    bench.put(node("n5", None)).await;
    assert_ne!(until_range(&bench, "n5").await, taken);
    assert_ne!(range_of(&bench, "n4"), taken);
    bench
        .until("the new nodes have routes and targets", |it| {
            it.cloud().routes().all().len() == 5 && it.balancers().members().len() == 5
        })
        .await;
    let now = bench.cloud().routes().all();
    assert!(routes.iter().all(|it| now.contains(it)), "{now:?}");
    let writes = bench.balancers().writes();
    assert!(
        writes.iter().all(|it| !it.starts_with("delete")),
        "{writes:?}"
    );
    let writes = bench.cloud().routes().writes();
    let made = writes.iter().filter(|it| it.starts_with("create"));
    assert_eq!(made.count(), writes.len(), "{writes:?}");
}

/// A server that has no streaming lists.
fn without_streams(bench: &TestCluster, path: &str) {
    bench.fault(refuse(422, "GET", path).query("*sendInitialEvents=true*"));
}

#[test]
fn proof_case_03_the_last_write_of_a_former_leader_is_seen_at_the_start() {
    for streams in [true, false] {
        run_scenario!(async || {
            let flags = [
                "--controllers=node-ipam-controller",
                "--allocate-node-cidrs",
                RANGE,
            ];
            let mut bench = TestCluster::idle(&flags).await;
            bench.put(node("n1", None)).await;
            bench.put(node("n2", None)).await;
            let before = Cache::of_nodes(&bench).await;
            // The last write of the former leader.
            bench
                .change("n1", |it| {
                    it["spec"]["podCIDR"] = "10.244.1.0/24".into();
                    it["spec"]["podCIDRs"] = json!(["10.244.1.0/24"]);
                })
                .await;
            if !streams {
                without_streams(&bench, "/api/v1/nodes");
            }
            let lagging = before.answer(&bench);
            bench.start();
            let given = until_range(&bench, "n2").await;
            bench.settle().await;
            drop(lagging);
            assert_eq!(given, "10.244.0.0/24");
            assert_eq!(range_of(&bench, "n1"), "10.244.1.0/24");
            assert_eq!(bench.writes("n1"), []);
        });
    }
}

#[test]
fn proof_case_03_a_service_that_was_deleted_before_the_start_gets_no_load_balancer() {
    for streams in [true, false] {
        run_scenario!(async || {
            let mut bench = with_services(&[], &["n1"]).await;
            bench.create_service(service("ghost")).await;
            let before = Cache::of_services(&bench).await;
            bench.delete_service("ghost").await;
            if !streams {
                without_streams(&bench, "/api/v1/services");
            }
            bench.create_service(service("web")).await;
            let lagging = before.answer(&bench);
            bench.start();
            bench.until_published("web").await;
            drop(lagging);
            bench.settle().await;
            assert_eq!(bench.balancers().count("shop/ghost"), 0);
            assert_eq!(bench.balancers().all().len(), 1);
        });
    }
}

/// Lists that the manager has made of Services, whole or by name.
fn lists_of_services(bench: &TestCluster) -> usize {
    let entries = bench.entries().into_iter();
    let lists = entries.filter(|it| it.method == "GET" && it.path == "/api/v1/services");
    let is_list =
        |query: &str| !query.contains("watch=true") || query.contains("sendInitialEvents");
    lists.filter(|it| is_list(&it.query)).count()
}

#[scenario]
async fn proof_case_04_a_deletion_that_is_seen_needs_no_other_read() {
    let mut bench = with_services(&[], &["n1"]).await;
    bench.start();
    bench.ensured("web").await;
    let lists = lists_of_services(&bench);
    // Without its finalizer: the watch tells of the deletion, and that is all there is.
    let free = json!({ "metadata": { "finalizers": null } });
    bench.patch_service("web", free).await;
    bench.delete_service("web").await;
    bench
        .until("its load balancer is gone", |it| {
            it.balancers().all().is_empty()
        })
        .await;
    assert_eq!(lists_of_services(&bench), lists);
}

#[scenario]
async fn proof_case_07_of_nodes_that_vanish_from_a_list_those_stay_targets_that_are_there() {
    let names = ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "n10"];
    let mut bench = with_services(&[], &names).await;
    bench.start();
    bench.ensured("web").await;
    assert_eq!(bench.balancers().members().len(), 10);
    let nodes = |it: &TestCluster| it.balancers().members();
    let before = Cache::of_nodes(&bench).await;
    let mut wrong = before.without(&bench, &names[..6]);
    wrong.version += 100;
    // Three of the six are really gone, unseen.
    let away = Rule::new(Action::Reset).named("no nodes");
    bench.fault(away.on("GET", "/api/v1/nodes"));
    bench.cluster.break_watches();
    for name in &names[..3] {
        bench.delete(name).await;
    }
    revisions(&bench, 100).await;
    let lagging = wrong.answer(&bench);
    bench.world.faults.remove("no nodes");
    lagging.answered(&bench, 1).await;
    bench
        .until("three are gone", |it| nodes(it).len() == 7)
        .await;
    bench.settle().await;
    drop(lagging);
    assert_eq!(nodes(&bench).len(), 7);
    assert_eq!(doubts(&bench, "nodes", "gone").to_string(), "3");
    assert!(doubts(&bench, "nodes", "there") >= 3.0);
    let fewest = bench.balancers().calls().into_iter();
    let fewest = fewest.filter(|it| it.starts_with("look at shop/web"));
    let fewest = fewest.map(|it| it.matches('n').count()).min();
    assert!(fewest >= Some(7), "{fewest:?}");
}

#[scenario]
async fn proof_case_43_a_restored_server_is_followed_and_nothing_is_destroyed_for_what_it_lacks() {
    let removing = ["--remove-orphaned-load-balancers", "--cluster-name=prod"];
    let mut bench = with_everything(&removing, Sharing::Alone).await;
    bench.stop().await;
    let backup = bench.cluster.backup().await;
    bench.start();
    bench.ensured("late").await;
    bench.put(node("n4", None)).await;
    let taken = until_range(&bench, "n4").await;
    bench
        .until("the new node is used", |it| {
            it.cloud().routes().all().len() == 4
        })
        .await;
    bench.settle().await;
    let routes = bench.cloud().routes().all();
    let balancers = bench.balancers().all().len();
    revisions(&bench, 300).await;
    bench.cluster.restore(&backup).await;
    assert!(bench.find("n4").is_none() && bench.find_service("late").is_none());
    let from = Instant::now();
    bench.create_service(service("new")).await;
    bench.until_published("new").await;
    let took = from.elapsed();
    assert!(took < Duration::from_secs(60) + bench.slack(), "{took:?}");
    assert_eq!(bench.balancers().all().len(), balancers + 1);
    bench.put(node("n5", None)).await;
    assert_ne!(until_range(&bench, "n5").await, taken);
    // Case 49.
    bench.assert_visible(LEASE, "ServiceLost", "late").await;
    bench.until_event(LEASE, "OrphanedLoadBalancer").await;
    bench.long(7200).await;
    assert_eq!(bench.balancers().all().len(), balancers + 1);
    assert_eq!(bench.balancers().count("delete load balancer"), 0);
    assert_eq!(bench.balancers().count("remove orphan"), 0);
    let now = bench.cloud().routes().all();
    assert!(routes.iter().all(|it| now.contains(it)), "{now:?}");
    assert_eq!(bench.event_count(LEASE, "ServiceLost"), 1);
    let lost = |kind: &str| {
        let series = format!("bowline_lost_objects{{resource=\"{kind}\"}}");
        bench.metric(&series)
    };
    assert_eq!((lost("nodes"), lost("services")), (Some(1.0), Some(1.0)));
}

#[scenario]
async fn proof_case_43_a_restored_server_that_has_overtaken_is_listed_anew() {
    // The lease of a leader shows that the server was restored.
    let flags = ["--leader-elect", "--cluster-name=prod"];
    let bench = with_everything(&flags, Sharing::Alone).await;
    let backup = bench.cluster.backup().await;
    bench.ensured("late").await;
    revisions(&bench, 100).await;
    bench.settle().await;
    let balancers = bench.balancers().all().len();
    // No watch goes on before the server has reached the version from which it would.
    let paths = ["/api/v1/services", "/api/v1/nodes"];
    for path in paths {
        bench.fault(Rule::new(Action::Reset).named(path).on("GET", path));
    }
    bench.cluster.restore(&backup).await;
    bench.create_service(service("new")).await;
    revisions(&bench, 400).await;
    for path in paths {
        bench.world.faults.remove(path);
    }
    bench.until_published("new").await;
    bench.assert_visible(LEASE, "ServiceLost", "late").await;
    assert_eq!(bench.balancers().all().len(), balancers + 1);
    assert_eq!(bench.balancers().count("delete load balancer"), 0);
}
