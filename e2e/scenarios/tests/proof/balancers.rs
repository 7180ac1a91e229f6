//! Whose is a load balancer? With a manager, at cloudscale.ch, under the role of the original's manifest.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::manager::{CloudRules, DefaultCloud};
use bowline_core::{BalancerRules, CloudName, NamespaceRule};
use bowline_scenarios::cloud_harness::Several;
use bowline_scenarios::cloudscale::{self, CloudHarness, FINALIZER, UUID};
use bowline_scenarios::objects::{annotated, entrances, finalizers, known, service, text};
use bowline_scenarios::{LEASE, Setup, TestCluster, scenario, slow};
use bowline_simulator::journal::Filter;
use bowline_simulator_cloudscale::{
    BalancerInfo, BalancerSpec, BalancerTimings, Cloudscale, ListenerSpec, MemberSpec, PoolSpec,
};
use serde_json::{Map, Value, json};

const NAME: &str = "k8s.cloudscale.ch/loadbalancer-name";
const TAKE_OVER: &str = "bowline.dev/take-over";
const HAND_OVER: &str = "bowline.dev/hand-over";
const FLOATING_IPS: &str = "k8s.cloudscale.ch/loadbalancer-floating-ips";
const NOT_OURS: &str = "LoadBalancerNotOurs";
const SERVER: &str = "3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613";
/// Compares with the cloud often, and knows which cluster it is.
const OFTEN: &[(&str, &str)] = &[("CLOUDSCALE_DRIFT_CHECK_PERIOD", "10s")];
const UID: &[&str] = &["--cluster-uid=one"];

const FIXTURE: &str = "
networks:
- name: k8s
  subnets:
  - {cidr: 10.20.0.0/24, uuid: 7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d}
machines:
- name: worker-a
  uuid: 3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613
  interfaces:
  - {network: public, addresses: [203.0.113.11]}
  - {network: k8s, addresses: [10.20.0.11]}
floating_ips:
- {address: 203.0.113.77, region: rma}
- {address: 203.0.113.78, region: rma, machine: 3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613}
";

fn soon() -> BalancerTimings {
    BalancerTimings::each(Duration::from_millis(500))
}

/// One node, and no manager yet.
async fn idle(environment: &[(&str, &str)], flags: &[&str]) -> CloudHarness {
    let harness = CloudHarness::set_up(Setup::default().seed, FIXTURE, environment, flags).await;
    harness.cloud.set_balancer_timings(soon());
    put_node(&harness).await;
    harness
}

async fn put_node(bench: &TestCluster) {
    let id = format!("cloudscale://{SERVER}");
    let node = known("worker-a", &id, "True", &["InternalIP:10.20.0.11"]);
    bench.put(node).await;
}

async fn open(environment: &[(&str, &str)], flags: &[&str]) -> CloudHarness {
    let mut harness = idle(environment, flags).await;
    harness.start().await;
    harness
}

/// What somebody made by hand for the API server.
fn kube_api() -> BalancerSpec {
    let node: IpAddr = [10, 20, 0, 11].into();
    let pool = PoolSpec::named("kube-api")
        .listener(ListenerSpec::on("tcp", 6443))
        .member(MemberSpec::at(node, 6443));
    BalancerSpec::named("kube-api").pool(pool)
}

fn find(harness: &CloudHarness, id: &str) -> BalancerInfo {
    let mut all = harness.cloud.balancers().into_iter();
    all.find(|it| it.uuid == id).expect("it is there")
}

/// What the cloud was asked to change, from that entry of the journal on.
fn writes(bench: &TestCluster, mark: usize) -> Vec<String> {
    let filter = Filter::any().server("cloudscale").mutating();
    let all = bench.entries().into_iter().skip(mark);
    let all = all.filter(|it| filter.matches(it));
    all.map(|it| format!("{} {}", it.method, it.path)).collect()
}

fn uid(bench: &TestCluster, name: &str) -> String {
    text(&bench.service(name)["metadata"]["uid"]).to_owned()
}

/// What the annotation says by which a Service is handed something.
fn key(bench: &TestCluster, name: &str) -> String {
    format!("shop/{}", bench.cluster.names().own(name))
}

fn is_owned(cloud: &Cloudscale, id: &str, uid: &str) -> bool {
    let all = cloud.balancers();
    let it = all.iter().find(|it| it.uuid == id);
    it.is_some_and(|it| it.tags.get("k8s-service-uid").map(String::as_str) == Some(uid))
}

/// What the original leaves behind for a Service with a name of its own.
async fn leave_edge(harness: &CloudHarness) -> String {
    let id = harness.leave("web", &[[10, 20, 0, 11].into()]).await;
    let name: Map<String, Value> = [("name".to_owned(), json!("edge"))].into_iter().collect();
    harness.cloud.edit(&id, &name).unwrap();
    harness.annotate("web", NAME, Some("edge")).await;
    id
}

#[scenario]
async fn proof_case_16_what_was_made_by_hand_is_left_alone_and_the_service_can_go() {
    let harness = open(&[], &[]).await;
    let id = harness.cloud.add_balancer(&kube_api()).unwrap();
    let (before, mark) = (find(&harness, &id), harness.mark());
    let ways = [
        ("a", NAME, "kube-api"),
        ("b", UUID, &id),
        ("c", TAKE_OVER, &id),
    ];
    for (name, key, value) in ways {
        harness
            .create_service(annotated(name, &[(key, value)]))
            .await;
        let message = harness.message(name, NOT_OURS).await;
        // Case 30.
        assert_eq!(message.contains(&id), key != NAME, "{message}");
        assert!(!message.contains("10.20.0.11"), "{message}");
    }
    harness.seconds(5).await;
    for (name, ..) in ways {
        harness.delete_service(name).await;
        harness.until_service_gone(name).await;
    }
    assert_eq!(writes(&harness, mark), [""; 0]);
    assert_eq!(find(&harness, &id), before);
    harness.end().await;
}

#[scenario]
async fn proof_case_17_the_originals_custom_name_is_taken_over_with_one_tag_and_nothing_else() {
    for hostname in [false, true] {
        let mut harness = idle(&[], &[]).await;
        let id = leave_edge(&harness).await;
        if hostname {
            let forced = "k8s.cloudscale.ch/loadbalancer-force-hostname";
            harness
                .annotate("web", forced, Some("edge.example.org"))
                .await;
            let shown = json!([{ "hostname": "edge.example.org" }]);
            harness
                .change_service("web", |it| {
                    it["status"]["loadBalancer"]["ingress"] = shown.clone();
                })
                .await;
        }
        let (before, mark) = (harness.service("web"), harness.mark());
        harness.start().await;
        harness
            .until("it is marked", |it| {
                is_owned(&harness.cloud, &id, &uid(it, "web"))
            })
            .await;
        harness.long(300).await;
        let tag = format!("PATCH /v1/load-balancers/{id}");
        assert_eq!(writes(&harness, mark), [tag]);
        assert_eq!(harness.service("web"), before);
        harness.end().await;
    }
}

#[scenario]
async fn proof_case_17_a_type_that_changes_during_the_switch_removes_what_was_the_services() {
    let mut harness = idle(&[], &[]).await;
    leave_edge(&harness).await;
    harness
        .change_service("web", |it| it["spec"]["type"] = "ClusterIP".into())
        .await;
    harness.start().await;
    harness
        .until_service("web", "it is free", |it| finalizers(it).is_empty())
        .await;
    assert_eq!(harness.cloud.balancers(), []);
    harness.end().await;
}

#[scenario]
async fn proof_case_18_a_load_balancer_of_another_cluster_is_not_proven_by_a_port() {
    let harness = open(&[], &[]).await;
    harness
        .create_service(annotated("web", &[(NAME, "theirs")]))
        .await;
    harness.until_published("web").await;
    let port = harness.service("web")["spec"]["ports"][0]["nodePort"].as_u64();
    let port = u16::try_from(port.unwrap()).unwrap();
    let pool = cloudscale::pool(port, &[[10, 20, 0, 99].into()]);
    let other = BalancerSpec::named("other").pool(pool);
    let id = harness.cloud.add_balancer(&other).unwrap();
    let (before, mark) = (find(&harness, &id), harness.mark());
    harness.annotate("web", UUID, Some(&id)).await;
    harness.message("web", NOT_OURS).await;
    harness.delete_service("web").await;
    harness.until_service_gone("web").await;
    assert!(!writes(&harness, mark).iter().any(|it| it.contains(&id)));
    assert_eq!(harness.cloud.balancers(), [before]);
    harness.end().await;
}

#[scenario]
async fn proof_case_19_a_living_services_load_balancer_moves_by_its_owners_word_alone() {
    let harness = open(OFTEN, &[]).await;
    harness.create_service(service("web")).await;
    harness.until_published("web").await;
    let id = harness.cloud.balancers()[0].uuid.clone();
    harness
        .create_service(annotated("thief", &[(TAKE_OVER, &id)]))
        .await;
    harness.message("thief", NOT_OURS).await;
    harness.seconds(5).await;
    assert!(is_owned(&harness.cloud, &id, &uid(&harness, "web")));
    let to = key(&harness, "thief");
    harness.annotate("web", HAND_OVER, Some(&to)).await;
    let taken = |it: &TestCluster| is_owned(&harness.cloud, &id, &uid(it, "thief"));
    harness.until("it is taken over", taken).await;
    harness
        .until("the former owner has another one", |it| {
            let web = uid(it, "web");
            let all = harness.cloud.balancers();
            let others = all.iter().filter(|it| it.uuid != id);
            let new: Vec<&BalancerInfo> = others.collect();
            let [new] = new.as_slice() else { return false };
            let ip = format!("{} Proxy", new.vip_addresses[0]);
            is_owned(&harness.cloud, &new.uuid, &web) && entrances(&it.service("web")).contains(&ip)
        })
        .await;
    harness.delete_service("web").await;
    harness.until_service_gone("web").await;
    assert_eq!(find(&harness, &id).uuid, id);
    harness.end().await;
}

#[scenario]
async fn proof_case_20_what_was_made_by_hand_is_adopted_where_the_operator_allows_it_and_stays() {
    let mut harness = idle(&[], &[]).await;
    harness.use_rules(CloudRules {
        balancers: Arc::new(BalancerRules {
            adoption: NamespaceRule::Only(["shop".to_owned()].into()),
            ..BalancerRules::default()
        }),
        ..CloudRules::default()
    });
    let id = harness.cloud.add_balancer(&kube_api()).unwrap();
    let before = find(&harness, &id);
    harness.start().await;
    harness
        .create_service(annotated("web", &[(TAKE_OVER, &id)]))
        .await;
    harness.until_published("web").await;
    harness.message("web", "LoadBalancerAdopted").await;
    let adopted = find(&harness, &id);
    assert_eq!(adopted.tags["bowline-adopted"], "true");
    let pools: Vec<&str> = adopted.pools.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(pools, ["kube-api", "tcp/http"]);
    harness.delete_service("web").await;
    harness.until_service_gone("web").await;
    let after = find(&harness, &id);
    assert_eq!(after.tags, before.tags);
    let pools: Vec<&str> = after.pools.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(pools, ["kube-api"]);
    harness.end().await;
}

#[scenario]
async fn proof_case_21_a_fixed_name_belongs_to_the_cluster_that_made_it() {
    let flags = ["--cluster-uid=two", "--remove-orphaned-load-balancers"];
    let harness = open(OFTEN, &flags).await;
    let theirs = BalancerSpec::named("fixed")
        .tag("k8s-service-uid", "0e9b9c7e-6a57-4c4b-8a9e-0d9a6d5f1c22")
        .tag("k8s-service", "shop.web")
        .tag("k8s-cluster-uid", "one");
    let id = harness.cloud.add_balancer(&theirs).unwrap();
    let (before, mark) = (find(&harness, &id), harness.mark());
    harness
        .create_service(annotated("web", &[(NAME, "fixed")]))
        .await;
    harness.message("web", NOT_OURS).await;
    harness.long(300).await;
    assert_eq!(writes(&harness, mark), [""; 0]);
    assert_eq!(find(&harness, &id), before);
    harness.end().await;
}

#[scenario]
async fn proof_case_22_under_the_originals_role_work_goes_on_and_what_is_missing_is_told_once() {
    let mut harness = idle(OFTEN, &[]).await;
    // Under the paused clock an event of the election has the same name if it is reported in the same moment.
    harness.fault(slow("GET", "/api/v1/namespaces/kube-system"));
    harness.start().await;
    harness.create_service(service("web")).await;
    harness.until_published("web").await;
    let reported = harness.message(LEASE, "ClusterUIDForbidden").await;
    assert!(reported.contains("--cluster-uid"), "{reported}");
    let tags = harness.cloud.balancers()[0].tags.clone();
    assert!(!tags.contains_key("k8s-cluster-uid"), "{tags:?}");
    harness.long(300).await;
    assert_eq!(harness.event_count(LEASE, "ClusterUIDForbidden"), 1);
    let asked = Filter::any().path("/api/v1/namespaces/kube-system");
    assert_eq!(harness.count(&asked), 1);
    harness.delete_service("web").await;
    harness.until_service_gone("web").await;
    assert_eq!(harness.cloud.balancers(), []);
    harness.end().await;
}

#[scenario]
async fn proof_case_23_a_restored_service_gets_its_load_balancer_back_and_another_namespace_does_not()
 {
    let mut harness = open(&[], UID).await;
    harness.create_service(service("web")).await;
    harness.until_published("web").await;
    let id = harness.cloud.balancers()[0].uuid.clone();
    harness.stop().await;
    let old = uid(&harness, "web");
    harness
        .change_service("web", |it| it["metadata"]["finalizers"] = json!([]))
        .await;
    harness.delete_service("web").await;
    harness.until_service_gone("web").await;
    harness
        .create_service(annotated("thief", &[(UUID, &id)]))
        .await;
    let mark = harness.mark();
    harness.start().await;
    harness.message("thief", NOT_OURS).await;
    assert_eq!(writes(&harness, mark), [""; 0]);
    harness
        .create_service(annotated("web", &[(UUID, &id)]))
        .await;
    harness.until_published("web").await;
    harness.message("web", "LoadBalancerTakenOver").await;
    assert_ne!(uid(&harness, "web"), old);
    assert!(is_owned(&harness.cloud, &id, &uid(&harness, "web")));
    assert_eq!(harness.cloud.balancers().len(), 1);
    harness.end().await;
}

#[scenario]
async fn proof_case_25_of_two_services_one_has_the_floating_ip_and_both_hear_of_it() {
    let harness = open(&[], &[]).await;
    let wanted = r#"["203.0.113.77"]"#;
    harness.create_service(service("older")).await;
    harness.until_published("older").await;
    harness
        .create_service(annotated("younger", &[(FLOATING_IPS, wanted)]))
        .await;
    harness.until_published("younger").await;
    let held = || {
        let all = harness.cloud.balancers().into_iter();
        let all = all.filter(|it| !it.floating_ips.is_empty());
        all.map(|it| it.uuid).collect::<Vec<_>>()
    };
    let holder = held();
    assert_eq!(holder.len(), 1);
    let asked = tokio::time::Instant::now();
    harness.annotate("older", FLOATING_IPS, Some(wanted)).await;
    harness.message("older", "FloatingIPConflict").await;
    harness.message("younger", "FloatingIPConflict").await;
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(10) + harness.slack(), "{took:?}");
    assert_eq!(held(), holder, "the holder keeps it");
    // Other settings of both go on.
    for name in ["older", "younger"] {
        let mark = harness.mark();
        let key = "k8s.cloudscale.ch/loadbalancer-timeout-client-data-ms";
        harness.annotate(name, key, Some("60000")).await;
        harness
            .until("the listener is changed", |it| {
                writes(it, mark).iter().any(|it| it.contains("/listeners/"))
            })
            .await;
    }
    // The holder does not want it any more.
    harness.annotate("younger", FLOATING_IPS, None).await;
    harness
        .until("the other has it", |_| {
            held() != holder && held().len() == 1
        })
        .await;
    harness.end().await;
}

#[scenario]
async fn proof_case_49_what_is_refused_is_described_counted_and_explained() {
    let harness = open(&[], &[]).await;
    let id = harness.cloud.add_balancer(&kube_api()).unwrap();
    let wanted = r#"["203.0.113.78"]"#;
    let refused = [
        ("adopts", TAKE_OVER, id.as_str(), NOT_OURS),
        ("floats", FLOATING_IPS, wanted, "FloatingIPInUse"),
    ];
    for (name, key, value, reason) in refused {
        harness
            .create_service(annotated(name, &[(key, value)]))
            .await;
        harness.assert_visible(name, reason, name).await;
    }
    // Nothing is said of what nobody refused.
    harness.create_service(service("fine")).await;
    harness.until_published("fine").await;
    let explained = harness.explained("fine").await;
    assert!(!explained.contains("Service/"), "{explained}");
    harness.end().await;
}

#[scenario]
async fn proof_case_29_a_load_balancer_that_was_made_twice_is_there_once_and_goes_whole() {
    let harness = open(OFTEN, UID).await;
    harness.create_service(service("web")).await;
    harness.until_published("web").await;
    let ours = harness.cloud.balancers().remove(0);
    let late = || {
        // A POST that a killed manager had sent commits now.
        let tags = ours.tags.iter();
        let spec = BalancerSpec::named(&ours.name);
        let spec = tags.fold(spec, |spec, (key, value)| spec.tag(key, value));
        harness.cloud.add_balancer(&spec).unwrap()
    };
    late();
    harness.message("web", "DuplicateLoadBalancer").await;
    harness
        .until("one is left", |_| harness.cloud.balancers().len() == 1)
        .await;
    assert_eq!(harness.cloud.balancers()[0].uuid, ours.uuid);
    late();
    harness.delete_service("web").await;
    harness.until_service_gone("web").await;
    // What was not seen when the Service went is told as an orphan; nothing was seen before it was made.
    harness
        .until("none is left", |_| harness.cloud.balancers().is_empty())
        .await;
    harness.end().await;
}

const EAST: &str = "cloudscale-a";
const WEST: &str = "cloudscale-b";

#[scenario]
async fn proof_case_31_a_service_of_the_non_default_original_stays_where_it_is_until_a_person_moves_it()
 {
    let setup = Setup {
        clouds: &[],
        ..Setup::default()
    };
    let mut bench = TestCluster::set_up(setup).await;
    bench.use_rules(CloudRules {
        default_cloud: DefaultCloud::Named(CloudName::parse(WEST).unwrap()),
        ..CloudRules::default()
    });
    let mut several = Several::on(bench);
    let east = cloudscale::serve(&several, Some(EAST), FIXTURE, &[]);
    let west = cloudscale::serve(&several, Some(WEST), "machines: []\n", &[]);
    let (east, west) = (several.add(east), several.add(west));
    east.set_balancer_timings(soon());
    west.set_balancer_timings(soon());
    put_node(&several).await;
    let mut web = service("web");
    web["metadata"]["finalizers"] = json!([FINALIZER]);
    several.create_service(web).await;
    let made = several.service("web");
    let port = made["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    let pool = cloudscale::pool(u16::try_from(port).unwrap(), &[[10, 20, 0, 11].into()]);
    let spec = BalancerSpec::named(&format!("k8s-service-{}", uid(&several, "web")));
    let id = east.add_balancer(&spec.pool(pool)).unwrap();
    let vips = east.balancers()[0].vip_addresses.clone();
    let shown: Vec<Value> = vips
        .iter()
        .map(|ip| json!({ "ip": ip.to_string(), "ipMode": "Proxy" }))
        .collect();
    several
        .change_service("web", |it| {
            it["metadata"]["annotations"] = json!({ UUID: id });
            it["status"]["loadBalancer"]["ingress"] = shown.clone().into();
        })
        .await;
    let before = entrances(&several.service("web"));
    several.start().await;
    several
        .until("it is marked", |it| is_owned(&east, &id, &uid(it, "web")))
        .await;
    several.long(300).await;
    let now = several.service("web");
    let conditions = now["status"]["conditions"].as_array().unwrap();
    let record = conditions
        .iter()
        .find(|it| it["type"] == "bowline.dev/Cloud");
    assert_eq!(record.unwrap()["message"], EAST);
    assert_eq!(entrances(&now), before);
    assert_eq!(west.balancers(), []);
    assert_eq!(east.balancers()[0].pools[0].members.len(), 1);
    // By a person's word it moves.
    several
        .annotate("web", "bowline.dev/cloud", Some(WEST))
        .await;
    several
        .annotate("web", "k8s.cloudscale.ch/loadbalancer-zone", Some("rma1"))
        .await;
    several
        .until("it is in the other cloud", |_| {
            east.balancers().is_empty() && west.balancers().len() == 1
        })
        .await;
    several.delete_service("web").await;
    several.until_service_gone("web").await;
    assert_eq!(west.balancers(), []);
    several.stop().await;
}
