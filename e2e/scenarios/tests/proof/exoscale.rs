//! Exoscale: whose a load balancer and its services are, and whose an address.

use bowline_scenarios::certificates::Ask;
use bowline_scenarios::exoscale::CloudHarness;
use bowline_scenarios::objects::{PROVIDED_NODE_IP, known, service};
use bowline_scenarios::{Setup, scenario};
use bowline_simulator_exoscale::{BalancerInfo, BalancerSpec, InstanceSpec, ServiceSpec};
use serde_json::{Value, json};

use crate::exoscale::harness::{I1, I2, P1};
use crate::exoscale::services::service_harness::{FINALIZER, ServiceHarness, key, uid};

const L1: &str = "7d2f7f4e-22d1-4b38-8f0b-94c8a54d6d01";
const NOTE: &str = "example.org/note";

/// The Service `web` as it was before the manager began, and its node port.
async fn before(test: &ServiceHarness, annotations: &[(&str, &str)]) -> (String, u16) {
    let mut web = service("web");
    for (suffix, value) in annotations {
        web["metadata"]["annotations"][key(suffix)] = json!(value);
    }
    test.create_service(web).await;
    let there = test
        .until_service("web", "there with a node port", |it| node_port(it) != 0)
        .await;
    (uid(&there), node_port(&there))
}

fn node_port(service: &Value) -> u16 {
    let port = service["spec"]["ports"][0]["nodePort"].as_u64();
    u16::try_from(port.unwrap_or_default()).unwrap()
}

fn put(test: &ServiceHarness, name: &str, services: &[ServiceSpec]) {
    let ip = "203.0.113.80".parse().unwrap();
    let mut spec = BalancerSpec::named(name).id(L1).ip(ip);
    for service in services {
        spec = spec.service(service.clone());
    }
    test.cloud.add_balancer(&spec).unwrap();
    test.cloud.describe_balancer(L1, "by hand").unwrap();
}

/// The load balancer L1.
fn there(test: &ServiceHarness) -> BalancerInfo {
    let mut all = test.cloud.balancers().into_iter();
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
async fn look(test: &ServiceHarness, value: &str) -> usize {
    let mark = test.mark();
    test.annotate("web", NOTE, Some(value)).await;
    test.until_asked(mark, "get-load-balancer").await;
    test.seconds(3).await;
    mark
}

#[scenario]
async fn proof_case_17_the_originals_load_balancer_with_a_name_is_marked_and_nothing_else() {
    let mut test = ServiceHarness::idle(&[I1, I2]).await;
    let pairs = [
        ("name", "edge"),
        ("id", L1),
        ("service-instancepool-id", P1),
    ];
    let (uid, port) = before(&test, &pairs).await;
    put(
        &test,
        "edge",
        &[ServiceSpec::new(&format!("{uid}-80"), P1, 80, port)],
    );
    let mark = test.mark();
    test.start().await;
    test.until_ensured("web").await;
    assert_eq!(test.changes(mark), ["update-load-balancer"]);
    let marked = there(&test);
    assert_eq!(marked.labels["bowline-service-uid"], uid);
    assert_eq!(marked.description.as_deref(), Some("by hand"));
    // Its own from now on: it goes with its Service.
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    assert_eq!(test.cloud.balancers(), []);
    test.end().await;
}

#[scenario]
async fn proof_case_17_one_that_is_no_load_balancer_any_more_at_the_switch_is_removed() {
    let mut test = ServiceHarness::idle(&[I1, I2]).await;
    let pairs = [
        ("name", "edge"),
        ("id", L1),
        ("service-instancepool-id", P1),
    ];
    let (uid, port) = before(&test, &pairs).await;
    put(
        &test,
        "edge",
        &[ServiceSpec::new(&format!("{uid}-80"), P1, 80, port)],
    );
    test.change_service("web", |it| {
        it["metadata"]["finalizers"] = json!([FINALIZER]);
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
    test.start().await;
    test.message("web", "DeletedLoadBalancer").await;
    assert_eq!(test.cloud.balancers(), []);
    test.end().await;
}

#[scenario]
async fn proof_case_26_what_others_have_on_a_managed_load_balancer_stays(test: ServiceHarness) {
    let shown = test.serve().await;
    let (uid, id) = (uid(&shown), test.balancer().id);
    let theirs = ServiceSpec::new("theirs", P1, 9000, 31999);
    test.cloud.add_service(&id, &theirs).unwrap();
    let mark = look(&test, "free port").await;
    assert_eq!(test.changes(mark), [""; 0]);
    // At a port that is wanted: refused, and the rest works.
    test.change_service("web", |it| {
        let ports = it["spec"]["ports"].as_array_mut().unwrap();
        for port in [9000, 443] {
            let name = format!("p{port}");
            ports.push(json!({"name": name, "protocol": "TCP", "port": port, "targetPort": port}));
        }
    })
    .await;
    // Case 49.
    test.assert_visible("web", "PortInUse", "web").await;
    let message = test.message("web", "PortInUse").await;
    assert!(
        message.contains("9000/tcp") && !message.contains("theirs"),
        "{message}"
    );
    let served = || names(&test.balancer()).contains(&format!("{uid}-443").as_str());
    test.until("port 443 is served", |_| served()).await;
    let kept = test.balancer().services.into_iter();
    let kept: Vec<u16> = kept
        .filter(|it| it.name == "theirs")
        .map(|it| it.target_port)
        .collect();
    assert_eq!(kept, [31999]);
    // The Service goes, and what is not its own stays.
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    assert_eq!(names(&test.balancer()), ["theirs"]);
}

#[scenario]
async fn proof_case_27_the_originals_service_name_is_recorded_and_nothing_is_written_to_the_cloud()
{
    let mut test = ServiceHarness::idle(&[I1, I2]).await;
    let pairs = [
        ("service-name", "front"),
        ("id", L1),
        ("service-instancepool-id", P1),
    ];
    let (uid, port) = before(&test, &pairs).await;
    let front = ServiceSpec::new("front", P1, 80, port);
    let theirs = ServiceSpec::new("theirs", P1, 9000, 31999);
    put(&test, &format!("k8s-{uid}"), &[front, theirs]);
    let id = |name: &str| {
        let mut all = there(&test).services.into_iter();
        all.find(|it| it.name == name).unwrap().id
    };
    let (front, theirs) = (id("front"), id("theirs"));
    // What a tenant writes into the annotation of before proves nothing.
    let old = "bowline.dev/exoscale-nlb-service-ids";
    test.annotate("web", old, Some(&format!("{front},{theirs}")))
        .await;
    let mark = test.mark();
    test.start().await;
    test.until_ensured("web").await;
    assert_eq!(test.changes(mark), [""; 0]);
    let kept = record(&test.service("web"));
    assert!(kept.contains(&front) && !kept.contains(&theirs), "{kept}");
    test.restart().await;
    let mark = look(&test, "after the restart").await;
    assert_eq!(test.changes(mark), [""; 0]);
    // It is known wherever it goes, since that is remembered.
    test.change_service("web", |it| it["spec"]["ports"][0]["port"] = json!(8080))
        .await;
    let moved = || {
        let there = there(&test);
        there
            .services
            .iter()
            .any(|it| it.name == "front" && it.port == 8080)
    };
    test.until("the port has moved", |_| moved()).await;
    assert_eq!(there(&test).services.len(), 2);
    test.end().await;
}

/// A load balancer of somebody else's, empty or not, and a Service that is attached to it; then these edits. Whatever
/// their order, what is not the Service's stays.
async fn edited(empty: bool, first: &[(&str, &str)], edits: &[(&str, Option<&str>)]) {
    let test = ServiceHarness::new().await;
    let theirs = [ServiceSpec::new("api", P1, 6443, 31643)];
    put(&test, "shared", if empty { &[] } else { &theirs });
    let foreign = there(&test);
    before(&test, first).await;
    let uid = uid(&test.service("web"));
    test.until_published("web").await;
    let remembers = || record(&test.service("web")).contains(L1);
    test.until("it is remembered", |_| remembers()).await;
    for (suffix, value) in edits {
        let mark = test.mark();
        test.annotate("web", &key(suffix), *value).await;
        test.until_asked(mark, "get-load-balancer").await;
        test.seconds(3).await;
        let now = there(&test);
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
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    assert_eq!(there(&test), foreign, "{first:?} {edits:?}");
    test.end().await;
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
    let mut harness = CloudHarness::set_up(Setup::default().seed, fixture, "", &runner, &[]).await;
    for (node, id, address) in [("w1", I1, "10.0.0.11"), ("w2", I2, "10.0.0.12")] {
        let name = harness.cluster.names().own(node);
        let instance = InstanceSpec::named(&name).id(id).private_network("inside");
        harness.cloud.add_instance(&instance).unwrap();
        harness
            .cloud
            .lease("inside", id, address.parse().unwrap())
            .unwrap();
    }
    harness.start().await;
    let id = format!("exoscale://{I1}");
    let mut node = known("w1", &id, "True", &["InternalIP:10.0.0.11"]);
    let reported = "10.0.0.11,10.0.0.12,10.0.0.13";
    node["metadata"]["annotations"] = json!({ PROVIDED_NODE_IP: reported });
    harness.put(node).await;
    let pending = [
        Ask::new("anothers", "w1", &["10.0.0.12"]),
        Ask::new("nobodys", "w1", &["10.0.0.13"]),
    ];
    for ask in &pending {
        harness.put_request(ask).await;
    }
    harness
        .put_request(&Ask::new("own", "w1", &["10.0.0.11"]))
        .await;
    let decided = harness.until_decided("own").await;
    assert!(decided[0].starts_with("Approved"), "{decided:?}");
    harness.seconds(12).await;
    for ask in &pending {
        assert_eq!(harness.decided(&ask.name), [""; 0], "{}", ask.name);
    }
    harness.end().await;
}
