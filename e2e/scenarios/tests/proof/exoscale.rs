//! Exoscale: whose a load balancer and its services are, and whose an address.

#[path = "../exoscale/services/shop.rs"]
#[allow(dead_code, reason = "the scenarios of the provider use more of it")]
mod shop;
#[path = "../exoscale/stage.rs"]
#[allow(dead_code, reason = "the scenarios of the provider use more of it")]
mod stage;

use bowline_scenarios::certificates::Ask;
use bowline_scenarios::exoscale::Site;
use bowline_scenarios::objects::{PROVIDED_NODE_IP, known, service};
use bowline_scenarios::{Setup, scenario};
use bowline_simulator_exoscale::{BalancerInfo, BalancerSpec, InstanceSpec, ServiceSpec};
use serde_json::{Value, json};

use shop::{Shop, key, uid};
use stage::{I1, I2, P1};

const L1: &str = "7d2f7f4e-22d1-4b38-8f0b-94c8a54d6d01";
const NOTE: &str = "example.org/note";

/// The Service `web` as it was before the manager began, and its node port.
async fn before(shop: &Shop, annotations: &[(&str, &str)]) -> (String, u16) {
    let mut web = service("web");
    for (suffix, value) in annotations {
        web["metadata"]["annotations"][key(suffix)] = json!(value);
    }
    shop.create_service(web).await;
    let there = shop
        .until_service("web", "there with a node port", |it| node_port(it) != 0)
        .await;
    (uid(&there), node_port(&there))
}

fn node_port(service: &Value) -> u16 {
    let port = service["spec"]["ports"][0]["nodePort"].as_u64();
    u16::try_from(port.unwrap_or_default()).unwrap()
}

fn put(shop: &Shop, name: &str, services: &[ServiceSpec]) {
    let ip = "203.0.113.80".parse().unwrap();
    let mut spec = BalancerSpec::named(name).id(L1).ip(ip);
    for service in services {
        spec = spec.service(service.clone());
    }
    shop.cloud.add_balancer(&spec).unwrap();
    shop.cloud.describe_balancer(L1, "by hand").unwrap();
}

/// The load balancer L1.
fn there(shop: &Shop) -> BalancerInfo {
    let mut all = shop.cloud.balancers().into_iter();
    all.find(|it| it.id == L1).unwrap()
}

fn names(balancer: &BalancerInfo) -> Vec<&str> {
    balancer
        .services
        .iter()
        .map(|it| it.name.as_str())
        .collect()
}

/// What the status remembers.
fn record(service: &Value) -> String {
    let conditions = service["status"]["conditions"].as_array();
    let mut all = conditions.into_iter().flatten();
    let record = all.find(|it| it["type"] == bowline_exoscale::RECORD);
    record.map_or_else(String::new, |it| it["message"].as_str().unwrap().to_owned())
}

/// Gives `web` a turn, and waits until its load balancer was looked at.
async fn look(shop: &Shop, value: &str) -> usize {
    let mark = shop.mark();
    shop.annotate("web", NOTE, Some(value)).await;
    shop.until_asked(mark, "get-load-balancer").await;
    shop.seconds(3).await;
    mark
}

#[scenario]
async fn proof_case_17_the_originals_load_balancer_with_a_name_is_marked_and_nothing_else() {
    let mut shop = Shop::idle(&[I1, I2]).await;
    let pairs = [
        ("name", "edge"),
        ("id", L1),
        ("service-instancepool-id", P1),
    ];
    let (uid, port) = before(&shop, &pairs).await;
    put(
        &shop,
        "edge",
        &[ServiceSpec::new(&format!("{uid}-80"), P1, 80, port)],
    );
    let mark = shop.mark();
    shop.start().await;
    shop.until_ensured("web").await;
    assert_eq!(shop.changes(mark), ["update-load-balancer"]);
    let marked = there(&shop);
    assert_eq!(marked.labels["bowline-service-uid"], uid);
    assert_eq!(marked.description.as_deref(), Some("by hand"));
    // Its own from now on: it goes with its Service.
    shop.delete_service("web").await;
    shop.until_service_gone("web").await;
    assert_eq!(shop.cloud.balancers(), []);
    shop.end().await;
}

#[scenario]
async fn proof_case_17_one_that_is_no_load_balancer_any_more_at_the_switch_is_removed() {
    let mut shop = Shop::idle(&[I1, I2]).await;
    let pairs = [
        ("name", "edge"),
        ("id", L1),
        ("service-instancepool-id", P1),
    ];
    let (uid, port) = before(&shop, &pairs).await;
    put(
        &shop,
        "edge",
        &[ServiceSpec::new(&format!("{uid}-80"), P1, 80, port)],
    );
    shop.change_service("web", |it| {
        it["metadata"]["finalizers"] = json!([shop::FINALIZER]);
        it["spec"]["type"] = json!("ClusterIP");
        let ports = it["spec"]["ports"].as_array_mut().unwrap();
        for port in ports {
            port.as_object_mut().unwrap().remove("nodePort");
        }
        let spec = it["spec"].as_object_mut().unwrap();
        for field in ["externalTrafficPolicy", "allocateLoadBalancerNodePorts"] {
            spec.remove(field);
        }
    })
    .await;
    shop.start().await;
    shop.message("web", "DeletedLoadBalancer").await;
    assert_eq!(shop.cloud.balancers(), []);
    shop.end().await;
}

#[scenario]
async fn proof_case_26_what_others_have_on_a_managed_load_balancer_stays(shop: Shop) {
    let shown = shop.serve().await;
    let (uid, id) = (uid(&shown), shop.balancer().id);
    let theirs = ServiceSpec::new("theirs", P1, 9000, 31999);
    shop.cloud.add_service(&id, &theirs).unwrap();
    let mark = look(&shop, "free port").await;
    assert_eq!(shop.changes(mark), [""; 0]);
    // At a port that is wanted: refused, and the rest works.
    shop.change_service("web", |it| {
        let ports = it["spec"]["ports"].as_array_mut().unwrap();
        for port in [9000, 443] {
            let name = format!("p{port}");
            ports.push(json!({"name": name, "protocol": "TCP", "port": port, "targetPort": port}));
        }
    })
    .await;
    // Case 49.
    shop.assert_visible("web", "PortInUse", "web").await;
    let message = shop.message("web", "PortInUse").await;
    assert!(
        message.contains("9000/tcp") && !message.contains("theirs"),
        "{message}"
    );
    let served = || names(&shop.balancer()).contains(&format!("{uid}-443").as_str());
    shop.until("port 443 is served", |_| served()).await;
    let kept = shop.balancer().services.into_iter();
    let kept: Vec<u16> = kept
        .filter(|it| it.name == "theirs")
        .map(|it| it.target_port)
        .collect();
    assert_eq!(kept, [31999]);
    // The Service goes, and what is not its own stays.
    shop.delete_service("web").await;
    shop.until_service_gone("web").await;
    assert_eq!(names(&shop.balancer()), ["theirs"]);
}

#[scenario]
async fn proof_case_27_the_originals_service_name_is_recorded_and_nothing_is_written_to_the_cloud()
{
    let mut shop = Shop::idle(&[I1, I2]).await;
    let pairs = [
        ("service-name", "front"),
        ("id", L1),
        ("service-instancepool-id", P1),
    ];
    let (uid, port) = before(&shop, &pairs).await;
    let front = ServiceSpec::new("front", P1, 80, port);
    let theirs = ServiceSpec::new("theirs", P1, 9000, 31999);
    put(&shop, &format!("k8s-{uid}"), &[front, theirs]);
    let id = |name: &str| {
        let mut all = there(&shop).services.into_iter();
        all.find(|it| it.name == name).unwrap().id
    };
    let (front, theirs) = (id("front"), id("theirs"));
    // What a tenant writes into the annotation of before proves nothing.
    let old = "bowline.dev/exoscale-nlb-service-ids";
    shop.annotate("web", old, Some(&format!("{front},{theirs}")))
        .await;
    let mark = shop.mark();
    shop.start().await;
    shop.until_ensured("web").await;
    assert_eq!(shop.changes(mark), [""; 0]);
    let kept = record(&shop.service("web"));
    assert!(kept.contains(&front) && !kept.contains(&theirs), "{kept}");
    shop.restart().await;
    let mark = look(&shop, "after the restart").await;
    assert_eq!(shop.changes(mark), [""; 0]);
    // It is known wherever it goes, since that is remembered.
    shop.change_service("web", |it| it["spec"]["ports"][0]["port"] = json!(8080))
        .await;
    let moved = || {
        let there = there(&shop);
        there
            .services
            .iter()
            .any(|it| it.name == "front" && it.port == 8080)
    };
    shop.until("the port has moved", |_| moved()).await;
    assert_eq!(there(&shop).services.len(), 2);
    shop.end().await;
}

/// A load balancer of somebody else's, empty or not, and a Service that is attached to it; then these edits. Whatever
/// their order, what is not the Service's stays.
async fn edited(empty: bool, first: &[(&str, &str)], edits: &[(&str, Option<&str>)]) {
    let shop = Shop::new().await;
    let theirs = [ServiceSpec::new("api", P1, 6443, 31643)];
    put(&shop, "shared", if empty { &[] } else { &theirs });
    let foreign = there(&shop);
    before(&shop, first).await;
    let uid = uid(&shop.service("web"));
    shop.until_published("web").await;
    let remembers = || record(&shop.service("web")).contains(L1);
    shop.until("it is remembered", |_| remembers()).await;
    for (suffix, value) in edits {
        let mark = shop.mark();
        shop.annotate("web", &key(suffix), *value).await;
        shop.until_asked(mark, "get-load-balancer").await;
        shop.seconds(3).await;
        let now = there(&shop);
        assert_eq!(
            (&now.name, &now.description),
            (&foreign.name, &foreign.description)
        );
        assert!(now.labels.is_empty(), "{:?}", now.labels);
        assert!(
            names(&now).contains(&format!("{uid}-80").as_str()),
            "{edits:?}: {now:?}"
        );
    }
    shop.delete_service("web").await;
    shop.until_service_gone("web").await;
    assert_eq!(there(&shop), foreign, "{first:?} {edits:?}");
    shop.end().await;
}

#[scenario]
async fn proof_case_28_what_a_service_is_attached_to_stays_in_every_order_of_edits() {
    let external = [("external", "true"), ("id", L1), ("description", "ours")];
    for empty in [true, false] {
        for said in [None, Some("yes"), Some("True"), Some("false")] {
            edited(empty, &external, &[("external", said)]).await;
        }
    }
}

#[scenario]
async fn proof_case_28_a_fresh_service_that_names_a_foreign_load_balancer_is_only_attached() {
    let fresh = [("id", L1), ("name", "shared"), ("description", "ours")];
    for empty in [true, false] {
        edited(
            empty,
            &fresh,
            &[("name", None), ("external", Some("no")), ("external", None)],
        )
        .await;
    }
    let misspelt = [("external", "ture"), ("name", "shared")];
    edited(true, &misspelt, &[("external", None), ("name", None)]).await;
}

#[scenario]
async fn proof_case_37_an_annotated_address_of_a_managed_network_needs_its_lease() {
    let fixture = "
private_networks:
- {name: inside, start_ip: 10.0.0.10, end_ip: 10.0.0.99, netmask: 255.255.255.0}
";
    let runner = [("EXOSCALE_SKS_AGENT_RUNNERS", "node-csr-validation")];
    let mut site = Site::set_up(Setup::default().seed, fixture, "", &runner, &[]).await;
    for (node, id, address) in [("w1", I1, "10.0.0.11"), ("w2", I2, "10.0.0.12")] {
        let name = site.cluster.names().own(node);
        let instance = InstanceSpec::named(&name).id(id).private_network("inside");
        site.cloud.add_instance(&instance).unwrap();
        site.cloud
            .lease("inside", id, address.parse().unwrap())
            .unwrap();
    }
    site.start().await;
    let id = format!("exoscale://{I1}");
    let mut node = known("w1", &id, "True", &["InternalIP:10.0.0.11"]);
    let told = "10.0.0.11,10.0.0.12,10.0.0.13";
    node["metadata"]["annotations"] = json!({ PROVIDED_NODE_IP: told });
    site.put(node).await;
    let pending = [
        Ask::new("anothers", "w1", &["10.0.0.12"]),
        Ask::new("nobodys", "w1", &["10.0.0.13"]),
    ];
    for ask in &pending {
        site.put_request(ask).await;
    }
    site.put_request(&Ask::new("own", "w1", &["10.0.0.11"]))
        .await;
    let decided = site.until_decided("own").await;
    assert!(decided[0].starts_with("Approved"), "{decided:?}");
    site.seconds(12).await;
    for ask in &pending {
        assert_eq!(site.decided(&ask.name), [""; 0], "{}", ask.name);
    }
    site.end().await;
}
