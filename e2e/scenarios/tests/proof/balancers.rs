//! Whose is a load balancer? With a manager, at cloudscale.ch, under the role of the original's manifest.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::manager::{CloudRules, DefaultCloud};
use bowline_core::{BalancerRules, CloudName, NamespaceRule};
use bowline_scenarios::cloudscale::{self, FINALIZER, Site, UUID};
use bowline_scenarios::objects::{annotated, entrances, finalizers, known, service, text};
use bowline_scenarios::site::Several;
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
async fn idle(environment: &[(&str, &str)], flags: &[&str]) -> Site {
    let site = Site::set_up(Setup::default().seed, FIXTURE, environment, flags).await;
    site.cloud.set_balancer_timings(soon());
    put_node(&site).await;
    site
}

async fn put_node(bench: &TestCluster) {
    let id = format!("cloudscale://{SERVER}");
    let node = known("worker-a", &id, "True", &["InternalIP:10.20.0.11"]);
    bench.put(node).await;
}

async fn open(environment: &[(&str, &str)], flags: &[&str]) -> Site {
    let mut site = idle(environment, flags).await;
    site.start().await;
    site
}

/// What somebody made by hand for the API server.
fn kube_api() -> BalancerSpec {
    let node: IpAddr = [10, 20, 0, 11].into();
    let pool = PoolSpec::named("kube-api")
        .listener(ListenerSpec::on("tcp", 6443))
        .member(MemberSpec::at(node, 6443));
    BalancerSpec::named("kube-api").pool(pool)
}

fn find(site: &Site, id: &str) -> BalancerInfo {
    let mut all = site.cloud.balancers().into_iter();
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
async fn leave_edge(site: &Site) -> String {
    let id = site.leave("web", &[[10, 20, 0, 11].into()]).await;
    let name: Map<String, Value> = [("name".to_owned(), json!("edge"))].into_iter().collect();
    site.cloud.edit(&id, &name).unwrap();
    site.annotate("web", NAME, Some("edge")).await;
    id
}

#[scenario]
async fn proof_case_16_what_was_made_by_hand_is_left_alone_and_the_service_can_go() {
    let site = open(&[], &[]).await;
    let id = site.cloud.add_balancer(&kube_api()).unwrap();
    let (before, mark) = (find(&site, &id), site.mark());
    let ways = [
        ("a", NAME, "kube-api"),
        ("b", UUID, &id),
        ("c", TAKE_OVER, &id),
    ];
    for (name, key, value) in ways {
        site.create_service(annotated(name, &[(key, value)])).await;
        let message = site.message(name, NOT_OURS).await;
        // Case 30.
        assert_eq!(message.contains(&id), key != NAME, "{message}");
        assert!(!message.contains("10.20.0.11"), "{message}");
    }
    site.seconds(5).await;
    for (name, ..) in ways {
        site.delete_service(name).await;
        site.until_service_gone(name).await;
    }
    assert_eq!(writes(&site, mark), [""; 0]);
    assert_eq!(find(&site, &id), before);
    site.end().await;
}

#[scenario]
async fn proof_case_17_the_originals_custom_name_is_taken_over_with_one_tag_and_nothing_else() {
    for hostname in [false, true] {
        let mut site = idle(&[], &[]).await;
        let id = leave_edge(&site).await;
        if hostname {
            let forced = "k8s.cloudscale.ch/loadbalancer-force-hostname";
            site.annotate("web", forced, Some("edge.example.org")).await;
            let shown = json!([{ "hostname": "edge.example.org" }]);
            site.change_service("web", |it| {
                it["status"]["loadBalancer"]["ingress"] = shown.clone();
            })
            .await;
        }
        let (before, mark) = (site.service("web"), site.mark());
        site.start().await;
        site.until("it is marked", |it| {
            is_owned(&site.cloud, &id, &uid(it, "web"))
        })
        .await;
        site.long(300).await;
        let tag = format!("PATCH /v1/load-balancers/{id}");
        assert_eq!(writes(&site, mark), [tag]);
        assert_eq!(site.service("web"), before);
        site.end().await;
    }
}

#[scenario]
async fn proof_case_17_a_type_that_changes_during_the_switch_removes_what_was_the_services() {
    let mut site = idle(&[], &[]).await;
    leave_edge(&site).await;
    site.change_service("web", |it| it["spec"]["type"] = "ClusterIP".into())
        .await;
    site.start().await;
    site.until_service("web", "it is free", |it| finalizers(it).is_empty())
        .await;
    assert_eq!(site.cloud.balancers(), []);
    site.end().await;
}

#[scenario]
async fn proof_case_18_a_load_balancer_of_another_cluster_is_not_proven_by_a_port() {
    let site = open(&[], &[]).await;
    site.create_service(annotated("web", &[(NAME, "theirs")]))
        .await;
    site.until_published("web").await;
    let port = site.service("web")["spec"]["ports"][0]["nodePort"].as_u64();
    let port = u16::try_from(port.unwrap()).unwrap();
    let pool = cloudscale::pool(port, &[[10, 20, 0, 99].into()]);
    let other = BalancerSpec::named("other").pool(pool);
    let id = site.cloud.add_balancer(&other).unwrap();
    let (before, mark) = (find(&site, &id), site.mark());
    site.annotate("web", UUID, Some(&id)).await;
    site.message("web", NOT_OURS).await;
    site.delete_service("web").await;
    site.until_service_gone("web").await;
    assert!(!writes(&site, mark).iter().any(|it| it.contains(&id)));
    assert_eq!(site.cloud.balancers(), [before]);
    site.end().await;
}

#[scenario]
async fn proof_case_19_a_living_services_load_balancer_moves_by_its_owners_word_alone() {
    let site = open(OFTEN, &[]).await;
    site.create_service(service("web")).await;
    site.until_published("web").await;
    let id = site.cloud.balancers()[0].uuid.clone();
    site.create_service(annotated("thief", &[(TAKE_OVER, &id)]))
        .await;
    site.message("thief", NOT_OURS).await;
    site.seconds(5).await;
    assert!(is_owned(&site.cloud, &id, &uid(&site, "web")));
    let to = key(&site, "thief");
    site.annotate("web", HAND_OVER, Some(&to)).await;
    let taken = |it: &TestCluster| is_owned(&site.cloud, &id, &uid(it, "thief"));
    site.until("it is taken over", taken).await;
    site.until("the former owner has another one", |it| {
        let web = uid(it, "web");
        let all = site.cloud.balancers();
        let others = all.iter().filter(|it| it.uuid != id);
        let new: Vec<&BalancerInfo> = others.collect();
        let [new] = new.as_slice() else { return false };
        let ip = format!("{} Proxy", new.vip_addresses[0]);
        is_owned(&site.cloud, &new.uuid, &web) && entrances(&it.service("web")).contains(&ip)
    })
    .await;
    site.delete_service("web").await;
    site.until_service_gone("web").await;
    assert_eq!(find(&site, &id).uuid, id);
    site.end().await;
}

#[scenario]
async fn proof_case_20_what_was_made_by_hand_is_adopted_where_the_operator_allows_it_and_stays() {
    let mut site = idle(&[], &[]).await;
    site.use_rules(CloudRules {
        balancers: Arc::new(BalancerRules {
            adoption: NamespaceRule::Only(["shop".to_owned()].into()),
            ..BalancerRules::default()
        }),
        ..CloudRules::default()
    });
    let id = site.cloud.add_balancer(&kube_api()).unwrap();
    let before = find(&site, &id);
    site.start().await;
    site.create_service(annotated("web", &[(TAKE_OVER, &id)]))
        .await;
    site.until_published("web").await;
    site.message("web", "LoadBalancerAdopted").await;
    let adopted = find(&site, &id);
    assert_eq!(adopted.tags["bowline-adopted"], "true");
    let pools: Vec<&str> = adopted.pools.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(pools, ["kube-api", "tcp/http"]);
    site.delete_service("web").await;
    site.until_service_gone("web").await;
    let after = find(&site, &id);
    assert_eq!(after.tags, before.tags);
    let pools: Vec<&str> = after.pools.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(pools, ["kube-api"]);
    site.end().await;
}

#[scenario]
async fn proof_case_21_a_fixed_name_belongs_to_the_cluster_that_made_it() {
    let flags = ["--cluster-uid=two", "--remove-orphaned-load-balancers"];
    let site = open(OFTEN, &flags).await;
    let theirs = BalancerSpec::named("fixed")
        .tag("k8s-service-uid", "0e9b9c7e-6a57-4c4b-8a9e-0d9a6d5f1c22")
        .tag("k8s-service", "shop.web")
        .tag("k8s-cluster-uid", "one");
    let id = site.cloud.add_balancer(&theirs).unwrap();
    let (before, mark) = (find(&site, &id), site.mark());
    site.create_service(annotated("web", &[(NAME, "fixed")]))
        .await;
    site.message("web", NOT_OURS).await;
    site.long(300).await;
    assert_eq!(writes(&site, mark), [""; 0]);
    assert_eq!(find(&site, &id), before);
    site.end().await;
}

#[scenario]
async fn proof_case_22_under_the_originals_role_work_goes_on_and_what_is_missing_is_told_once() {
    let mut site = idle(OFTEN, &[]).await;
    // Under the paused clock an event of the election has the same name if it is told in the same moment.
    site.fault(slow("GET", "/api/v1/namespaces/kube-system"));
    site.start().await;
    site.create_service(service("web")).await;
    site.until_published("web").await;
    let told = site.message(LEASE, "ClusterUIDForbidden").await;
    assert!(told.contains("--cluster-uid"), "{told}");
    let tags = site.cloud.balancers()[0].tags.clone();
    assert!(!tags.contains_key("k8s-cluster-uid"), "{tags:?}");
    site.long(300).await;
    assert_eq!(site.told(LEASE, "ClusterUIDForbidden"), 1);
    let asked = Filter::any().path("/api/v1/namespaces/kube-system");
    assert_eq!(site.count(&asked), 1);
    site.delete_service("web").await;
    site.until_service_gone("web").await;
    assert_eq!(site.cloud.balancers(), []);
    site.end().await;
}

#[scenario]
async fn proof_case_23_a_restored_service_gets_its_load_balancer_back_and_another_namespace_does_not()
 {
    let mut site = open(&[], UID).await;
    site.create_service(service("web")).await;
    site.until_published("web").await;
    let id = site.cloud.balancers()[0].uuid.clone();
    site.stop().await;
    let old = uid(&site, "web");
    site.change_service("web", |it| it["metadata"]["finalizers"] = json!([]))
        .await;
    site.delete_service("web").await;
    site.until_service_gone("web").await;
    site.create_service(annotated("thief", &[(UUID, &id)]))
        .await;
    let mark = site.mark();
    site.start().await;
    site.message("thief", NOT_OURS).await;
    assert_eq!(writes(&site, mark), [""; 0]);
    site.create_service(annotated("web", &[(UUID, &id)])).await;
    site.until_published("web").await;
    site.message("web", "LoadBalancerTakenOver").await;
    assert_ne!(uid(&site, "web"), old);
    assert!(is_owned(&site.cloud, &id, &uid(&site, "web")));
    assert_eq!(site.cloud.balancers().len(), 1);
    site.end().await;
}

#[scenario]
async fn proof_case_25_of_two_services_one_has_the_floating_ip_and_both_hear_of_it() {
    let site = open(&[], &[]).await;
    let wanted = r#"["203.0.113.77"]"#;
    site.create_service(service("older")).await;
    site.until_published("older").await;
    site.create_service(annotated("younger", &[(FLOATING_IPS, wanted)]))
        .await;
    site.until_published("younger").await;
    let held = || {
        let all = site.cloud.balancers().into_iter();
        let all = all.filter(|it| !it.floating_ips.is_empty());
        all.map(|it| it.uuid).collect::<Vec<_>>()
    };
    let holder = held();
    assert_eq!(holder.len(), 1);
    let asked = tokio::time::Instant::now();
    site.annotate("older", FLOATING_IPS, Some(wanted)).await;
    site.message("older", "FloatingIPConflict").await;
    site.message("younger", "FloatingIPConflict").await;
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(10) + site.slack(), "{took:?}");
    assert_eq!(held(), holder, "the holder keeps it");
    // Other settings of both go on.
    for name in ["older", "younger"] {
        let mark = site.mark();
        let key = "k8s.cloudscale.ch/loadbalancer-timeout-client-data-ms";
        site.annotate(name, key, Some("60000")).await;
        site.until("the listener is changed", |it| {
            writes(it, mark).iter().any(|it| it.contains("/listeners/"))
        })
        .await;
    }
    // The holder does not want it any more.
    site.annotate("younger", FLOATING_IPS, None).await;
    site.until("the other has it", |_| {
        held() != holder && held().len() == 1
    })
    .await;
    site.end().await;
}

#[scenario]
async fn proof_case_49_what_is_refused_is_described_counted_and_explained() {
    let site = open(&[], &[]).await;
    let id = site.cloud.add_balancer(&kube_api()).unwrap();
    let wanted = r#"["203.0.113.78"]"#;
    let refused = [
        ("adopts", TAKE_OVER, id.as_str(), NOT_OURS),
        ("floats", FLOATING_IPS, wanted, "FloatingIPInUse"),
    ];
    for (name, key, value, reason) in refused {
        site.create_service(annotated(name, &[(key, value)])).await;
        site.assert_visible(name, reason, name).await;
    }
    // Nothing is said of what nobody refused.
    site.create_service(service("fine")).await;
    site.until_published("fine").await;
    let explained = site.explained("fine").await;
    assert!(!explained.contains("Service/"), "{explained}");
    site.end().await;
}

#[scenario]
async fn proof_case_29_a_load_balancer_that_was_made_twice_is_there_once_and_goes_whole() {
    let site = open(OFTEN, UID).await;
    site.create_service(service("web")).await;
    site.until_published("web").await;
    let ours = site.cloud.balancers().remove(0);
    let late = || {
        // A POST that a killed manager had sent commits now.
        let tags = ours.tags.iter();
        let spec = BalancerSpec::named(&ours.name);
        let spec = tags.fold(spec, |spec, (key, value)| spec.tag(key, value));
        site.cloud.add_balancer(&spec).unwrap()
    };
    late();
    site.message("web", "DuplicateLoadBalancer").await;
    site.until("one is left", |_| site.cloud.balancers().len() == 1)
        .await;
    assert_eq!(site.cloud.balancers()[0].uuid, ours.uuid);
    late();
    site.delete_service("web").await;
    site.until_service_gone("web").await;
    // What was not seen when the Service went is told as an orphan; nothing was seen before it was made.
    site.until("none is left", |_| site.cloud.balancers().is_empty())
        .await;
    site.end().await;
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
