//! Who may have which names and addresses in a certificate, and which machine may describe a Node. A stolen kubelet
//! writes what it likes into the status and the annotations of its own Node.

use bowline_scenarios::certificates::Ask;
use bowline_scenarios::objects::{PROVIDED_NODE_IP, fresh, is_uninitialized, known, node_info};
use bowline_scenarios::scenario;
use bowline_scenarios::talos::{Beginning, CONTROLLERS, CloudHarness, Need, Role};
use bowline_scenarios::{Sharing, TestCluster};
use bowline_simulator_talos::{OS_IMAGE, PlatformSpec, Stage};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

const ALONE: &str = "--controllers=node-csr-approval";
const APPROVED: &str = "Approved Approved by TalosCloudControllerManager: This CSR was approved by \
                        Talos Cloud Controller Manager";
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
const PLATFORM: &str = "node.cloudprovider.kubernetes.io/platform";
/// The name by which people reach the API server.
const API: &str = "api.cluster.example";

/// Talos machines, their Nodes as their kubelets show them, and a manager that looks at requests alone.
struct Requests(CloudHarness);

bowline_scenarios::harness!(Requests, 0: CloudHarness);

impl Requests {
    /// Where machines can be asked.
    async fn new() -> Self {
        Self::with(Beginning {
            flags: &[ALONE],
            ..Beginning::default()
        })
        .await
    }

    async fn with(beginning: Beginning<'_>) -> Self {
        let inner = CloudHarness::set_up(beginning).await;
        inner.api_server_shows(&["kubernetes.default.svc", "10.96.0.1", "10.0.0.1", API]);
        Self(inner)
    }

    /// Where there are no credentials for machines.
    async fn without_access() -> Self {
        let inner = CloudHarness::without_endpoint(Beginning {
            flags: &[ALONE],
            need: Need::Nodes,
            ..Beginning::default()
        })
        .await;
        inner.cloud.take_credentials();
        inner.api_server_shows(&["kubernetes.default.svc", "10.96.0.1", "10.0.0.1", API]);
        Self(inner)
    }

    /// A machine at that address, and the Node that its kubelet shows.
    async fn worker(&self, name: &str, address: &str, node: Value) {
        let own = format!("eth0/{address}/24");
        self.cloud.add(name, &[&own], PlatformSpec::default());
        self.put(node).await;
    }

    /// The Node of the control plane, which has its label from somebody who may give it.
    async fn control_plane(&self) {
        let mut node = shown("cp1", &["InternalIP:10.0.0.1"], "10.0.0.1");
        node["metadata"]["labels"] = json!({ CONTROL_PLANE: "" });
        self.put(node).await;
    }

    /// Makes these requests, and checks that each stays pending and says so in an event.
    async fn stay_pending(&self, asked: &[Ask]) {
        for ask in asked {
            self.put_request(ask).await;
        }
        for Ask { name, .. } in asked {
            self.until_event(name, "CertificateNotApproved").await;
        }
        self.settle().await;
        for Ask { name, .. } in asked {
            assert_eq!(self.decided(name), [""; 0], "{name}");
        }
    }

    async fn are_approved(&self, asked: &[Ask]) {
        for ask in asked {
            self.put_request(ask).await;
        }
        for Ask { name, .. } in asked {
            assert_eq!(self.until_decided(name).await, [APPROVED], "{name}");
        }
    }
}

/// An initialised Node of a Talos machine that shows these addresses, and that in the annotation.
fn shown(name: &str, addresses: &[&str], reported: &str) -> Value {
    let host = format!("Hostname:{name}");
    let addresses = [addresses, &[&host]].concat();
    let mut node = known(name, &format!("talos://metal/{name}"), "True", &addresses);
    node["metadata"]["annotations"][PROVIDED_NODE_IP] = reported.into();
    node["status"]["nodeInfo"] = node_info("", OS_IMAGE);
    node
}

/// What a kubelet of a Talos machine says about its system.
/// What a thief on that node asks for beside its own.
fn thefts(node: &str, own: &str) -> Vec<Ask> {
    let ask = |what: &str, addresses: &[&str], names: &[&str]| {
        Ask::new(&format!("{node}-{what}"), node, addresses).with(|it| {
            it.dns_names.extend(names.iter().map(|&it| it.to_owned()));
        })
    };
    vec![
        ask("plane", &[own, "10.0.0.1"], &[]),
        ask("only-plane", &["10.0.0.1"], &[]),
        ask("name", &[own], &["cp1"]),
        ask("service", &[own, "10.96.0.1"], &[]),
        ask("public", &[own], &[API]),
        ask("svc", &[own], &["foo.default.svc"]),
    ]
}

/// The three ways in which a kubelet can claim the address of the control plane: in its annotation, in its status, in
/// both.
async fn thieves(requests: &Requests) {
    requests.control_plane().await;
    let (one, both) = (
        "InternalIP:10.0.0.5",
        ["InternalIP:10.0.0.6", "InternalIP:10.0.0.1"],
    );
    let reported = shown("w1", &[one], "10.0.0.5,10.0.0.1");
    requests.worker("w1", "10.0.0.5", reported).await;
    let mut status = shown("w2", &both, "10.0.0.6");
    let names = [API, "foo.default.svc", "cp1"];
    let addresses = status["status"]["addresses"].as_array_mut().unwrap();
    addresses.extend(names.map(|it| json!({ "type": "ExternalDNS", "address": it })));
    addresses.push(json!({ "type": "ExternalIP", "address": "10.96.0.1" }));
    requests.worker("w2", "10.0.0.6", status).await;
    let both = [
        "InternalIP:10.0.0.1",
        "InternalIP:10.0.0.7",
        "ExternalIP:10.96.0.1",
    ];
    let both = shown("w3", &both, "10.0.0.1,10.0.0.7");
    requests.worker("w3", "10.0.0.7", both).await;
}

const WORKERS: [(&str, &str); 3] = [("w1", "10.0.0.5"), ("w2", "10.0.0.6"), ("w3", "10.0.0.7")];

async fn nobody_steals(mut requests: Requests) {
    thieves(&requests).await;
    requests.start().await;
    let own = WORKERS.map(|(node, own)| Ask::new(&format!("{node}-own"), node, &[own]));
    requests.are_approved(&own).await;
    let thefts: Vec<Ask> = WORKERS
        .iter()
        .flat_map(|(node, own)| thefts(node, own))
        .collect();
    requests.stay_pending(&thefts).await;
    requests.end().await;
}

#[scenario]
async fn proof_case_32_a_kubelet_gets_no_certificate_for_what_it_only_writes_on_its_node() {
    nobody_steals(Requests::new().await).await;
}

#[scenario]
async fn proof_case_32_nor_where_no_machine_can_be_asked() {
    nobody_steals(Requests::without_access().await).await;
}

#[scenario]
async fn proof_case_33_a_control_plane_has_its_own_address_and_kubernetes_may_begin_a_name() {
    let mut requests = Requests::with(Beginning {
        flags: &[ALONE],
        role: Role::Reading,
        sharing: Sharing::Alone,
        ..Beginning::default()
    })
    .await;
    // A second endpoint, which no certificate shows yet.
    requests
        .cloud
        .add("cp2", &["eth0/10.0.0.2/24"], PlatformSpec::default());
    endpoint(&requests, "10.0.0.2").await;
    requests.control_plane().await;
    let mut second = shown("cp2", &["InternalIP:10.0.0.2"], "10.0.0.2");
    second["metadata"]["labels"] = json!({ CONTROL_PLANE: "" });
    requests.put(second).await;
    let worker = "kubernetes-worker-1";
    let node = shown(worker, &["InternalIP:10.0.0.5"], "10.0.0.5");
    requests.worker(worker, "10.0.0.5", node).await;
    requests.start().await;
    requests
        .are_approved(&[
            Ask::new("plane", "cp1", &["10.0.0.1"]),
            Ask::new("endpoint", "cp2", &["10.0.0.2"]),
            Ask::new("worker", worker, &["10.0.0.5"]),
        ])
        .await;
    // The label goes, and with it the right to be the API server.
    requests
        .change("cp2", |node| node["metadata"]["labels"] = json!({}))
        .await;
    let asked = Ask::new("unlabelled", "cp2", &["10.0.0.2"]);
    requests.stay_pending(&[asked]).await;
    let reported = requests
        .message("unlabelled", "CertificateNotApproved")
        .await;
    assert!(
        reported.contains("10.0.0.2 is of the API server"),
        "{reported}"
    );
    requests.end().await;
}

/// One more address of `default/kubernetes`.
async fn endpoint(bench: &TestCluster, address: &str) {
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {
            "namespace": "default", "name": "kubernetes-second",
            "labels": { "kubernetes.io/service-name": "kubernetes" },
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
        "ports": [{ "name": "https", "port": 6443, "protocol": "TCP" }],
    }))
    .unwrap();
    let api: Api<EndpointSlice> = Api::namespaced(bench.admin(), "default");
    api.create(&PostParams::default(), &slice).await.unwrap();
}

/// w1 lists the addresses of its peers.
async fn greedy(requests: &Requests) {
    let all = [
        "InternalIP:10.0.0.5",
        "ExternalIP:10.0.0.6",
        "ExternalIP:10.0.0.7",
    ];
    requests
        .worker("w1", "10.0.0.5", shown("w1", &all, "10.0.0.5"))
        .await;
    for (name, address) in &WORKERS[1..] {
        let node = shown(name, &[&format!("InternalIP:{address}")], address);
        requests.worker(name, address, node).await;
    }
}

#[scenario]
async fn proof_case_34_who_lists_the_addresses_of_others_stops_nobodys_renewal(
    mut requests: Requests,
) {
    greedy(&requests).await;
    requests.start().await;
    let all = Ask::new("greedy", "w1", &["10.0.0.5", "10.0.0.6", "10.0.0.7"]);
    requests.stay_pending(&[all]).await;
    requests
        .are_approved(&[
            Ask::new("second", "w2", &["10.0.0.6"]),
            Ask::new("third", "w3", &["10.0.0.7"]),
            Ask::new("modest", "w1", &["10.0.0.5"]),
        ])
        .await;
    // The thief's machine falls silent: it proves nothing.
    requests.cloud.set_stage("w1", Stage::Booting).unwrap();
    let again = Ask::new("again", "w2", &["10.0.0.6"]);
    requests.are_approved(&[again]).await;
    for (node, _) in WORKERS {
        assert_eq!(
            requests.event_count(node, "AddressClaimedTwice"),
            0,
            "{node}"
        );
    }
}

#[scenario]
async fn proof_case_34_where_no_machine_can_be_asked_both_wait_and_both_are_told() {
    let mut requests = Requests::without_access().await;
    greedy(&requests).await;
    requests.start().await;
    let modest = Ask::new("modest", "w1", &["10.0.0.5"]);
    requests.are_approved(&[modest]).await;
    let greedy = Ask::new("greedy", "w1", &["10.0.0.5", "10.0.0.6"]);
    let robbed = Ask::new("robbed", "w2", &["10.0.0.6"]);
    requests.stay_pending(&[greedy, robbed]).await;
    for node in ["w1", "w2"] {
        let twice = "AddressClaimedTwice";
        // Case 49.
        requests.assert_visible(node, twice, node).await;
        let reported = requests.message(node, twice).await;
        assert!(
            reported.starts_with("10.0.0.6 is shown by this Node and by Node"),
            "{reported}"
        );
    }
    assert_eq!(requests.event_count("w3", "AddressClaimedTwice"), 0);
    let refused = "CertificateNotApproved";
    requests.assert_visible("robbed", refused, "w2").await;
    let pending = "bowline_certificate_requests_left_pending_total{cloud=\"talos\",\
                       reason=\"AddressClaimedTwice\"}";
    assert_eq!(requests.metric(pending), Some(2.0));
    // It takes back what it claimed.
    let honest = shown("w1", &["InternalIP:10.0.0.5"], "10.0.0.5");
    requests
        .change("w1", |node| {
            node["status"]["addresses"] = honest["status"]["addresses"].clone();
        })
        .await;
    assert_eq!(requests.until_decided("robbed").await, [APPROVED]);
    requests.end().await;
}

#[scenario]
async fn proof_case_35_an_address_is_a_nodes_if_its_own_machine_lists_it(mut requests: Requests) {
    let listed = ["eth0/10.0.0.5/24", "external/198.51.100.7/32"];
    requests.cloud.add("w1", &listed, PlatformSpec::default());
    let all = ["InternalIP:10.0.0.5", "ExternalIP:198.51.100.7"];
    requests.put(shown("w1", &all, "10.0.0.5")).await;
    // Its kubelet says that it is where w3's machine is, which has no Node.
    requests
        .cloud
        .add("w2", &["eth0/10.0.0.6/24"], PlatformSpec::default());
    requests
        .cloud
        .add("w3", &["eth0/10.0.0.7/24"], PlatformSpec::default());
    requests
        .put(shown("w2", &["InternalIP:10.0.0.7"], "10.0.0.7"))
        .await;
    requests.start().await;
    let nat = Ask::new("nat", "w1", &["10.0.0.5", "198.51.100.7"]);
    requests.are_approved(&[nat]).await;
    let address = Ask::new("address", "w2", &["10.0.0.7"]);
    let name = Ask::new("name", "w2", &[]);
    requests.stay_pending(&[address, name]).await;
    let reported = requests.message("address", "CertificateNotApproved").await;
    assert!(reported.contains("reports that its node is"), "{reported}");
    // A kubelet that denies its system is asked about all the same: a machine has described its Node.
    let elsewhere = |node: &mut Value| {
        node["metadata"]["labels"] = json!({ PLATFORM: "metal" });
        node["status"]["nodeInfo"]["osImage"] = "Debian GNU/Linux 12 (bookworm)".into();
    };
    requests.change("w2", elsewhere).await;
    let denying = Ask::new("denying", "w2", &["10.0.0.7"]);
    requests.stay_pending(&[denying]).await;
}

#[scenario]
async fn proof_case_36_a_request_from_before_its_addresses_is_approved_when_they_appear(
    mut requests: Requests,
) {
    let own = "eth0/10.0.0.5/24";
    requests.cloud.add("w1", &[own], PlatformSpec::default());
    requests
        .cloud
        .add("w2", &["eth0/10.0.0.6/24"], PlatformSpec::default());
    requests.cloud.set_stage("w2", Stage::Booting).unwrap();
    requests
        .put(shown("w2", &["InternalIP:10.0.0.6"], "10.0.0.6"))
        .await;
    let mut bare = fresh("w1");
    bare["status"]["nodeInfo"] = node_info("", OS_IMAGE);
    requests.put(bare).await;
    requests.start().await;
    requests
        .put_request(&Ask::new("early", "w1", &["10.0.0.5"]))
        .await;
    requests
        .put_request(&Ask::new("silent", "w2", &["10.0.0.6"]))
        .await;
    requests.seconds(30).await;
    assert_eq!(requests.decided("early"), [""; 0]);
    assert_eq!(requests.decided("silent"), [""; 0]);
    // The addresses of one Node appear, and the machine of the other one answers at last.
    let later = shown("w1", &["InternalIP:10.0.0.5"], "10.0.0.5");
    requests
        .change("w1", |node| {
            node["status"]["addresses"] = later["status"]["addresses"].clone();
        })
        .await;
    requests.cloud.set_stage("w2", Stage::Ready).unwrap();
    let begun = requests.world.clock.now();
    for name in ["early", "silent"] {
        assert_eq!(requests.until_decided(name).await, [APPROVED], "{name}");
        let took = requests.since(begun);
        let limit = std::time::Duration::from_secs(10) + requests.slack();
        assert!(took <= limit, "{name}: {took:?}");
    }
}

#[scenario]
async fn proof_case_38_a_machine_describes_only_its_own_node() {
    let mut inner = CloudHarness::set_up(Beginning {
        flags: &[CONTROLLERS],
        ..Beginning::default()
    })
    .await;
    inner.start().await;
    let mut node = fresh("w1");
    node["status"]["nodeInfo"] = node_info("", OS_IMAGE);
    node["metadata"]["annotations"][PROVIDED_NODE_IP] = "10.0.0.1".into();
    inner.create(node).await;
    // Case 49.
    inner
        .assert_visible("w1", "MachineNameMismatch", "w1")
        .await;
    let reported = inner.message("w1", "MachineNameMismatch").await;
    assert!(reported.contains("\"cp1\", not \"w1\""), "{reported}");
    inner.seconds(30).await;
    let node = inner.node("w1");
    assert!(is_uninitialized(&node));
    assert!(node["spec"]["providerID"].is_null());
    assert!(node["metadata"]["labels"][PLATFORM].is_null(), "{node}");
    assert_eq!(inner.event_count("w1", "Synced"), 0);
    assert_eq!(
        inner.event_count("w1", "MachineNameMismatch"),
        1,
        "reported once"
    );
    let failures = "bowline_node_initialization_failures_total{cloud=\"talos\",\
                        reason=\"MachineNameMismatch\"}";
    assert!(inner.metric(failures).is_some_and(|it| it >= 1.0));
    inner.end().await;
}
