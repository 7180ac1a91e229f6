//! Whether credentials see the cluster's account.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use bowline_core::CONFIRM_GONE;
use bowline_scenarios::cloud::Script;
use bowline_scenarios::cloudscale::{CloudHarness, FINALIZER, ZONE};
use bowline_scenarios::objects::{annotated, finalizers, known, service, silent, text};
use bowline_scenarios::{LEASE, Setup, TestCluster, only_in_memory, scenario};
use bowline_simulator::journal::Filter;
use bowline_simulator_cloudscale::DEFAULT_TOKEN;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// Server `worker-a`.
const A: &str = "3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613";
/// Server `worker-b`.
const B: &str = "b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58";
/// A server that never was.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";
/// Another token of the same project.
const ROTATED: &str = "rotated-token";
/// The token of a project in which there are other servers.
const ELSEWHERE: &str = "token-of-another-project";
/// Longer than any proof, budget or back-off of the guard takes.
const A_WHILE: u64 = 1800;

const FIXTURE: &str = "
tokens:
- value: simulated-token
- {value: rotated-token}
- {value: token-of-another-project, project: elsewhere}
machines:
- name: worker-a
  uuid: 3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613
  flavor: flex-8-4
  interfaces:
  - {network: public, addresses: [203.0.113.11]}
- name: worker-b
  uuid: b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58
  flavor: flex-8-4
  interfaces:
  - {network: public, addresses: [203.0.113.12]}
- name: stranger
  project: elsewhere
  flavor: flex-8-4
  interfaces:
  - {network: public, addresses: [203.0.113.99]}
";

/// The same without any server of the cluster.
const EMPTY: &str = "
tokens:
- value: simulated-token
- {value: rotated-token}
- {value: token-of-another-project, project: elsewhere}
networks:
- name: k8s
  subnets:
  - {cidr: 10.20.0.0/24, uuid: 7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d}
";

/// A manager whose token is in a file, under the role of the original's manifest.
struct Harness {
    inner: CloudHarness,
    token: PathBuf,
    _folder: tempfile::TempDir,
}

bowline_scenarios::harness!(Harness, inner: CloudHarness);

impl Harness {
    async fn idle(fixture: &str, token: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, token).unwrap();
        let environment = [("CLOUDSCALE_ACCESS_TOKEN_FILE", file.to_str().unwrap())];
        let seed = Setup::default().seed;
        let inner = CloudHarness::set_up(seed, fixture, &environment, &[]).await;
        Self {
            inner,
            token: file,
            _folder: folder,
        }
    }

    /// Initialised nodes on servers A and B, whose kubelets say that they are well.
    async fn add_nodes(&self) {
        for (name, server, number) in [("worker-a", A, 11), ("worker-b", B, 12)] {
            let id = format!("cloudscale://{server}");
            let address = format!("ExternalIP:203.0.113.{number}");
            let host = format!("Hostname:{name}");
            self.put(known(name, &id, "True", &[&host, &address])).await;
        }
    }

    /// Stops the manager, and starts it with that token.
    async fn restart_with(&mut self, token: &str) {
        self.inner.stop().await;
        self.use_token(token);
        self.inner.start().await;
    }

    fn use_token(&self, token: &str) {
        fs::write(&self.token, token).unwrap();
    }

    async fn until_account(&self, state: &str) {
        let series = format!("bowline_account_state{{cloud=\"cloudscale\",state=\"{state}\"}}");
        let what = format!("the account is {state}");
        self.until(&what, |it| it.metric(&series) == Some(1.0))
            .await;
    }

    /// How often something was told about the account.
    fn told_of_account(&self, reason: &str) -> usize {
        let events = self.events_of(reason).into_iter();
        let about_lease = events.filter(|it| it["involvedObject"]["kind"] == "Lease");
        let counts = about_lease.map(|it| it["count"].as_u64().unwrap_or(1));
        usize::try_from(counts.sum::<u64>()).unwrap()
    }

    /// What the manager did to load balancers of the other project, and all that it removed.
    fn harm(&self) -> Vec<String> {
        let changes = Filter::any().server("cloudscale").mutating();
        let all = self.matching(&changes.path("/v1/load-balancers*"));
        let harmful = all
            .iter()
            .filter(|it| it.method == "DELETE" || it.caller == "elsewhere");
        harmful
            .map(|it| format!("{} {}", it.method, it.path))
            .collect()
    }

    /// What a Service says about its load balancer.
    fn memory(&self, name: &str) -> (Value, Value) {
        let it = self.service(name);
        let status = it["status"]["loadBalancer"].clone();
        (it["metadata"]["annotations"].clone(), status)
    }

    /// What the lease says about the account of a former cloud; none: nothing any more.
    async fn note_account(&self, cloud: &str, note: Option<&str>) {
        let api: Api<Lease> = Api::namespaced(self.admin(), "kube-system");
        let key = format!("account.bowline.dev/{cloud}");
        let patch = json!({ "metadata": { "annotations": { key: note } } });
        let name = self.cluster.names().own(LEASE);
        let merge = Patch::Merge(&patch);
        api.patch(&name, &PatchParams::default(), &merge)
            .await
            .unwrap();
    }

    fn lease_annotations(&self) -> Value {
        let lease = self.cluster.lease(LEASE).expect("there is a lease");
        lease["metadata"]["annotations"].clone()
    }
}

#[scenario]
async fn proof_case_06_what_an_account_that_left_may_have_is_kept_by_the_next_leader() {
    let mut harness = Harness::idle(FIXTURE, DEFAULT_TOKEN).await;
    harness.add_nodes().await;
    harness.inner.start().await;
    harness.until_account("proven").await;
    harness.create_service(service("web")).await;
    harness.until_published("web").await;
    harness.inner.stop().await;
    // Another account of the same provider was configured, and has the machine of one node and the load balancer.
    let noted = format!("{}-{} cloudscale", "0".repeat(16), "0".repeat(32));
    harness.note_account("former", Some(&noted)).await;
    let id = format!("cloudscale://{NOBODY}");
    let address = "ExternalIP:203.0.113.13";
    harness
        .put(known("worker-c", &id, "Unknown", &[address]))
        .await;
    let balancer = harness.cloud.balancers().remove(0).uuid;
    harness.cloud.remove(&balancer).unwrap();
    harness
        .patch_service("web", json!({ "spec": { "type": "ClusterIP" } }))
        .await;
    harness.inner.start().await;
    harness.until_event("worker-c", "NodeOfDepartedCloud").await;
    harness.until_event("web", "AccountDeparted").await;
    // Commands read the lease, too.
    let explained = harness.explained("worker-c").await;
    assert!(explained.contains("former"), "{explained}");
    let planned = harness.planned(&["web"]).await;
    assert!(planned.contains("not configured any more"), "{planned}");
    harness.long(300).await;
    assert!(harness.find("worker-c").is_some());
    assert_eq!(harness.finalizers("web"), [FINALIZER]);
    for node in ["worker-a", "worker-b"] {
        assert!(harness.find(node).is_some(), "{node}");
    }
    // What the account that is left has shown is its own.
    harness.cloud.destroy(B).unwrap();
    harness.set_ready("worker-b", "Unknown").await;
    harness.until_deleted("worker-b").await;
    // A person says that nothing of it is left.
    harness.inner.stop().await;
    harness.note_account("former", None).await;
    harness.inner.start().await;
    harness.until_deleted("worker-c").await;
    let is_free = |it: &Value| finalizers(it).is_empty();
    harness
        .until_service("web", "its finalizer is gone", is_free)
        .await;
    harness.inner.end().await;
}

#[scenario]
async fn proof_case_09_the_token_of_another_project_deletes_no_node_ever() {
    let mut test = Harness::idle(FIXTURE, DEFAULT_TOKEN).await;
    test.add_nodes().await;
    test.start().await;
    test.until_account("proven").await;
    test.restart_with(ELSEWHERE).await;
    test.until_account("contradicted").await;
    // It reboots.
    test.set_ready("worker-a", "False").await;
    let before = test.content("worker-a");
    let held = "NodeDeletionHeld";
    // Case 49.
    test.assert_visible("worker-a", held, "worker-a").await;
    let about_all = test.explained("worker-b").await;
    assert!(about_all.contains("AccountContradicted"), "{about_all}");
    test.long(A_WHILE).await;
    assert_eq!(test.content("worker-a"), before);
    let filter = Filter::any().server("kubernetes").method("DELETE");
    assert_eq!(test.count(&filter.path("/api/v1/nodes*")), 0);
    assert_eq!(test.event_count("worker-a", "NodeDeletionHeld"), 1);
    assert_eq!(test.told_of_account("AccountContradicted"), 1);
    let held = "bowline_guard_held_nodes{cloud=\"cloudscale\",reason=\"AccountContradicted\"}";
    assert_eq!(test.metric(held), Some(1.0));
    test.end().await;
}

#[scenario]
async fn proof_case_09_even_if_all_nodes_are_silent_another_token_deletes_none_by_itself() {
    let mut test = Harness::idle(FIXTURE, DEFAULT_TOKEN).await;
    test.add_nodes().await;
    test.start().await;
    test.until_account("proven").await;
    test.stop().await;
    for name in ["worker-a", "worker-b"] {
        test.set_ready(name, "Unknown").await;
    }
    test.use_token(ELSEWHERE);
    test.start().await;
    test.until_event("worker-a", "NodeDeletionHeld").await;
    test.long(A_WHILE).await;
    let filter = Filter::any().server("kubernetes").method("DELETE");
    assert_eq!(test.count(&filter.path("/api/v1/nodes*")), 0);
    assert!(test.told_of_account("AccountUnproven") > 0);
    test.end().await;
}

#[scenario]
async fn proof_case_10_the_token_of_another_project_touches_no_load_balancer_and_the_right_one_goes_on()
 {
    let mut test = Harness::idle(FIXTURE, DEFAULT_TOKEN).await;
    test.add_nodes().await;
    test.start().await;
    let services = ["s1", "s2", "s3"];
    for name in services {
        test.create_service(service(name)).await;
    }
    for name in services {
        test.until_published(name).await;
        test.message(name, "EnsuredLoadBalancer").await;
    }
    test.stop().await;
    let before = services.map(|name| test.memory(name));
    test.create_service(service("late")).await;
    test.delete_service("s3").await;
    test.use_token(ELSEWHERE);
    test.start().await;
    test.until_account("contradicted").await;
    // Case 49.
    test.assert_visible("s1", "AccountContradicted", "s1").await;
    test.message("late", "AccountContradicted").await;
    let planned = test.planned(&["s1", "s2", "s3", "late"]).await;
    let waiting = planned.matches("AccountContradicted").count();
    assert_eq!(waiting, 4, "{planned}");
    test.long(300).await;
    assert_eq!(test.harm(), [""; 0]);
    assert_eq!(test.cloud.balancers().len(), 3);
    assert_eq!(services.map(|name| test.memory(name)), before);
    assert_eq!(test.entrances("late"), [""; 0]);
    assert_eq!(test.finalizers("s3"), [FINALIZER]);
    test.use_token(DEFAULT_TOKEN);
    test.until_published("late").await;
    test.until_service_gone("s3").await;
    assert_eq!(test.cloud.balancers().len(), 3, "s1, s2 and late");
    assert_eq!(test.memory("s1"), before[0]);
    test.until_account("proven").await;
    test.end().await;
}

#[scenario]
async fn proof_case_10_without_nodes_of_the_cloud_missing_load_balancers_contradict() {
    let mut test = Harness::idle(EMPTY, DEFAULT_TOKEN).await;
    let hosts: [IpAddr; 1] = ["10.20.0.11".parse().unwrap()];
    test.leave("s1", &hosts).await;
    test.leave("s2", &hosts).await;
    let before = ["s1", "s2"].map(|name| test.memory(name));
    test.create_service(annotated("late", &[(ZONE, "rma1")]))
        .await;
    test.delete_service("s2").await;
    test.use_token(ELSEWHERE);
    test.start().await;
    test.until_account("contradicted").await;
    test.long(300).await;
    assert_eq!(test.harm(), [""; 0]);
    assert_eq!(["s1", "s2"].map(|name| test.memory(name)), before);
    assert_eq!(test.finalizers("s2"), [FINALIZER]);
    assert_eq!(test.entrances("late"), [""; 0]);
    test.use_token(DEFAULT_TOKEN);
    test.until_service_gone("s2").await;
    test.until_published("late").await;
    test.end().await;
}

#[scenario]
async fn proof_case_11_the_first_service_in_an_empty_project_gets_its_load_balancer() {
    let mut test = Harness::idle(EMPTY, DEFAULT_TOKEN).await;
    test.start().await;
    // Without nodes nobody else says where.
    test.create_service(annotated("web", &[(ZONE, "rma1")]))
        .await;
    test.until_published("web").await;
    assert_eq!(test.told_of_account("AccountUnproven"), 0, "nothing waits");
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    assert_eq!(test.cloud.balancers().len(), 0);
    test.end().await;
}

#[scenario]
async fn proof_case_12_the_last_node_of_an_unproven_account_goes_after_the_long_proof() {
    if !only_in_memory("the long proof takes ten minutes") {
        return;
    }
    let mut test = Harness::idle(EMPTY, DEFAULT_TOKEN).await;
    let gone = format!("cloudscale://{NOBODY}");
    test.silent_node("last", Some(&gone)).await;
    test.start().await;
    test.until_event("last", "NodeDeletionHeld").await;
    let message = test.message("last", "NodeDeletionHeld").await;
    assert!(message.contains(CONFIRM_GONE), "{message}");
    assert!(
        message.contains("10 looks over at least 10 minutes"),
        "{message}"
    );
    test.seconds(580).await;
    assert!(test.find("last").is_some(), "too early");
    test.until_deleted("last").await;
    test.end().await;
}

#[scenario]
async fn proof_case_12_a_person_who_confirms_shortens_the_long_proof_to_two_looks() {
    let mut test = Harness::idle(EMPTY, DEFAULT_TOKEN).await;
    let mut node = silent("last", Some(&format!("cloudscale://{NOBODY}")));
    node["metadata"]["annotations"] = json!({ CONFIRM_GONE: "true" });
    test.put(node).await;
    test.start().await;
    let begun = test.world.clock.now();
    test.until_deleted("last").await;
    assert!(test.since(begun).as_secs() < 120);
    test.end().await;
}

#[scenario]
async fn proof_case_13_a_rotated_token_is_proven_by_the_first_look_and_a_restart_by_the_fingerprint()
 {
    let mut test = Harness::idle(FIXTURE, DEFAULT_TOKEN).await;
    test.add_nodes().await;
    test.start().await;
    test.until_account("proven").await;
    let noted = |it: &Harness| {
        let noted = it.lease_annotations();
        text(&noted["account.bowline.dev/cloudscale"]).to_owned()
    };
    let is_noted = |it: &TestCluster| {
        let lease = it.cluster.lease(LEASE);
        lease.is_some_and(|it| it["metadata"]["annotations"].is_object())
    };
    test.until("the fingerprint is kept", is_noted).await;
    let first = noted(&test);
    test.use_token(ROTATED);
    let other = |it: &TestCluster| {
        let lease = it.cluster.lease(LEASE).unwrap();
        text(&lease["metadata"]["annotations"]["account.bowline.dev/cloudscale"]) != first
    };
    test.until("the new one is proven and kept", other).await;
    assert_eq!(test.told_of_account("AccountContradicted"), 0);
    let kept = test.lease_annotations().to_string();
    assert!(
        !kept.contains(DEFAULT_TOKEN) && !kept.contains(ROTATED),
        "{kept}"
    );
    // Nothing is left that could prove it but its fingerprint.
    test.stop().await;
    for (name, server) in [("worker-a", A), ("worker-b", B)] {
        test.set_ready(name, "Unknown").await;
        test.cloud.destroy(server).unwrap();
    }
    test.start().await;
    let begun = test.world.clock.now();
    test.until_deleted("worker-a").await;
    test.until_deleted("worker-b").await;
    assert!(test.since(begun).as_secs() < 120, "no long proof");
    assert_eq!(test.told_of_account("AccountUnproven"), 0);
    test.end().await;
}

#[scenario]
async fn proof_case_14_the_same_key_in_another_zone_makes_and_deletes_nothing() {
    use bowline_scenarios::exoscale;

    const ZONES: &str = "
zones: [ch-gva-2, at-vie-1]
instances:
- {name: worker, id: 6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c, public_ip: 198.51.100.21}
- {name: other, zone: at-vie-1, public_ip: 198.51.100.99}
";
    let environment = [("EXOSCALE_API_ZONE", "at-vie-1")];
    let seed = Setup::default().seed;
    let mut inner = exoscale::CloudHarness::set_up(seed, ZONES, "", &environment, &[]).await;
    let id = "exoscale://6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c";
    let addresses = ["Hostname:worker", "ExternalIP:198.51.100.21"];
    inner.put(known("worker", id, "True", &addresses)).await;
    inner
        .put(silent(
            "quiet",
            Some("exoscale://6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b70"),
        ))
        .await;
    inner.create_service(service("web")).await;
    inner.start().await;
    let series = "bowline_account_state{cloud=\"exoscale\",state=\"contradicted\"}";
    inner
        .until("it is contradicted", |it| it.metric(series) == Some(1.0))
        .await;
    inner.message("web", "AccountContradicted").await;
    inner.long(A_WHILE).await;
    assert!(inner.find("quiet").is_some());
    assert_eq!(inner.entrances("web"), [""; 0]);
    let changes = Filter::any().server("exoscale").mutating();
    assert_eq!(inner.count(&changes), 0);
    inner.end().await;
}

#[scenario]
async fn proof_case_15_a_cluster_with_load_balancers_only_is_proven_by_them() {
    let mut test = Harness::idle(EMPTY, DEFAULT_TOKEN).await;
    let addresses = ["Hostname:n1", "InternalIP:10.0.0.1"];
    test.put(known("n1", "bigcorp://n1", "True", &addresses))
        .await;
    let hosts: [IpAddr; 1] = ["10.20.0.11".parse().unwrap()];
    test.leave("s1", &hosts).await;
    test.leave("s2", &hosts).await;
    test.start().await;
    test.until_account("proven").await;
    test.delete_service("s2").await;
    test.until_service_gone("s2").await;
    assert_eq!(test.cloud.balancers().len(), 1);
    assert_eq!(test.told_of_account("AccountUnproven"), 0);
    test.end().await;
}

#[scenario]
async fn proof_case_15_the_only_service_can_go_although_nothing_else_proves_the_account() {
    let mut test = Harness::idle(EMPTY, DEFAULT_TOKEN).await;
    let hosts: [IpAddr; 1] = ["10.20.0.11".parse().unwrap()];
    test.leave("web", &hosts).await;
    test.delete_service("web").await;
    test.start().await;
    test.until_service_gone("web").await;
    assert_eq!(test.cloud.balancers().len(), 0);
    test.end().await;
}

#[scenario]
async fn proof_case_40_a_clock_that_jumps_between_two_looks_changes_nothing() {
    if !only_in_memory("the clock of a real server cannot be set") {
        return;
    }
    for jump in [-3600, 3600] {
        let mut bench = TestCluster::idle(&["--node-monitor-period=1s"]).await;
        bench.cloud().say("n1", Script::Gone);
        let node = known("n1", "demo://m-1", "Unknown", &["InternalIP:10.0.0.5"]);
        bench.put_aged(node, 1800).await;
        bench.start();
        bench
            .until("the check read passed", |it| it.cloud().canaries() == 1)
            .await;
        let first = tokio::time::Instant::now();
        bench.world.clock.set_by(jump);
        bench.until_deleted("n1").await;
        let took = first.elapsed().as_secs_f64();
        assert!((9.0..13.0).contains(&took), "{jump}: after {took} s");
    }
}
