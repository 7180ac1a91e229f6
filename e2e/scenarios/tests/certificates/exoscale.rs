//! Exoscale's cases of certificates, on a simulated Exoscale and under the role of the original's
//! manifest: its runner is on, no flag names the controller.

use bowline_scenarios::certificates::Ask;
use bowline_scenarios::cloud_harness::OPTIONAL_READS;
use bowline_scenarios::exoscale::{CloudHarness, PREFIX};
use bowline_scenarios::log::Log;
use bowline_scenarios::objects::{PROVIDED_NODE_IP, annotated, fresh, known};
use bowline_scenarios::{Setup, scenario};
use bowline_simulator_exoscale::InstanceSpec;
use tracing::subscriber::DefaultGuard;

/// The instance of the cases, and its node.
const I1: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c";
const NODE: &str = "pool-a1b2c-xyz";
const IPV4: &str = "198.51.100.21";
const IPV6: &str = "2001:db8:1::21";
/// Its pool.
const P1: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";
const FIXTURE: &str = "
instance_pools:
- {name: workers, id: 0f0e0d0c-0b0a-4908-8706-050403020100}
private_networks:
- {name: inside}
";
const APPROVED: &str = "Approved ExoscaleCloudControllerApproved: This CSR was approved by the \
                        Exoscale Cloud Controller Manager";

struct Harness {
    inner: CloudHarness,
    log: Log,
    _logging: DefaultGuard,
}

bowline_scenarios::wrapper!(Harness, inner: CloudHarness);

impl Harness {
    /// The instance I1, and a manager with the original's command line.
    async fn new() -> Self {
        let (log, logging) = Log::keep();
        let runner = [("EXOSCALE_SKS_AGENT_RUNNERS", "node-csr-validation")];
        let seed = Setup::default().seed;
        let mut inner = CloudHarness::set_up(seed, FIXTURE, "", &runner, &[]).await;
        let instance = InstanceSpec::named(&inner.cluster.names().own(NODE)).id(I1);
        let instance = instance.pool("workers").public_ip(IPV4.parse().unwrap());
        let instance = instance.ipv6(IPV6.parse().unwrap());
        inner.cloud.add_instance(&instance).unwrap();
        inner.start().await;
        Self {
            inner,
            log,
            _logging: logging,
        }
    }

    /// Stores these, and one that is right; waits until that one is approved.
    async fn look_at(&self, asked: &[Ask]) {
        for ask in asked {
            self.put_request(ask).await;
        }
        self.put_request(&right("last")).await;
        assert_eq!(self.until_decided("last").await, [APPROVED]);
        self.settle().await;
    }

    /// All of these stay pending, and nobody tried to decide about them.
    async fn stay_pending(&self, asked: &[Ask]) {
        self.look_at(asked).await;
        for ask in asked {
            assert_eq!(self.decided(&ask.name), [""; 0], "{}", ask.name);
            assert!(self.decisions(&ask.name).is_empty(), "{}", ask.name);
        }
    }

    /// What was logged, in the scenario's names.
    fn said(&self) -> String {
        self.cluster.names().plain(&self.log.text())
    }

    fn assert_said(&self, words: &str) {
        assert!(
            self.said().contains(words),
            "no {words:?} in\n{}",
            self.said()
        );
    }
}

fn right(name: &str) -> Ask {
    Ask::new(name, NODE, &[IPV4, IPV6])
}

#[scenario]
async fn exoscale_case_074_a_requester_outside_of_the_nodes_group_is_ignored() {
    let test = Harness::new().await;
    let wrong = [
        right("no-node").with(|it| it.groups = vec!["system:authenticated"]),
        right("no-groups").with(|it| it.groups.clear()),
    ];
    test.stay_pending(&wrong).await;
}

#[scenario]
async fn exoscale_case_075_the_instances_own_addresses_are_approved() {
    let test = Harness::new().await;
    let is_signing = test.cluster.sign().await;
    test.ask(&right("c")).await;
    assert_eq!(test.until_decided("c").await, [APPROVED]);
    // The server decides before the manager hears of it.
    test.settle().await;
    test.assert_said("sks-agent: CSR c approved");
    if is_signing {
        test.until_signed("c").await;
    }
}

#[scenario]
async fn exoscale_case_076_an_address_that_is_not_the_instances_stays_pending() {
    let test = Harness::new().await;
    let wrong = [
        Ask::new("v4", NODE, &["192.0.2.42"]),
        Ask::new("v6", NODE, &[IPV4, "2001:db8:1::22"]),
    ];
    test.stay_pending(&wrong).await;
    let known = format!("instance IP addresses [\"{IPV4}\" \"{IPV6}\"], got");
    test.assert_said("sks-agent: CSR v4 Node IP addresses don't match");
    test.assert_said("sks-agent: CSR v6 Node IP addresses don't match");
    test.assert_said(&format!("{known} [\"192.0.2.42\"]"));
    test.assert_said(&format!("{known} [\"{IPV4}\" \"2001:db8:1::22\"]"));
}

#[scenario]
async fn exoscale_case_077_what_is_decided_is_not_touched() {
    let test = Harness::new().await;
    let kinds = ["Approved", "Denied"];
    let asked = kinds.map(|kind| {
        let name = kind.to_lowercase();
        right(&name).with(|it| it.conditions = vec![kind])
    });
    test.look_at(&asked).await;
    for kind in kinds {
        let name = kind.to_lowercase();
        assert_eq!(test.decided(&name), [format!("{kind} Test: ")]);
        assert!(test.decisions(&name).is_empty());
    }
}

#[scenario]
async fn exoscale_case_078_another_nodes_name_stays_pending() {
    let test = Harness::new().await;
    let other = |it: &mut Ask| it.user = "system:node:other".into();
    let both = |it: &mut Ask| {
        it.user = "system:node:other".into();
        it.common_name = "system:node:other".into();
    };
    test.stay_pending(&[right("user").with(other), right("name").with(both)])
        .await;
    // It is a fault of the request, and no answer of the cloud.
    test.assert_said("sks-agent: CSR user not approved");
}

#[scenario]
async fn exoscale_case_108_one_name_is_enough_two_are_too_many_and_none_must_be_unknown() {
    let test = Harness::new().await;
    test.put_request(&Ask::new("bare", NODE, &[])).await;
    let two = right("two").with(|it| it.dns_names.push("other".into()));
    test.stay_pending(&[two, Ask::new("unknown", "nobody", &[])])
        .await;
    assert_eq!(test.decided("bare"), [APPROVED]);
    test.assert_said(
        "sks-agent: expected 1 certificate Subject Alternate Name DNS Name value, got 2",
    );
    test.assert_said("sks-agent: CSR unknown doesn't match any Compute instance");
}

#[scenario]
async fn exoscale_case_109_another_signers_request_is_ignored() {
    let test = Harness::new().await;
    let wrong = right("foreign").with(|it| it.signer = "example.com/foo");
    test.stay_pending(&[wrong]).await;
    assert!(!test.said().contains("CSR foreign"));
}

#[scenario]
async fn exoscale_case_110_under_the_originals_role_everything_works_unrefused() {
    let mut test = Harness::new().await;
    let mut node = fresh(NODE);
    node["status"]["nodeInfo"] = serde_json::json!({ "systemUUID": I1 });
    test.put(node).await;
    test.until_initialized(NODE).await;
    test.put_request(&right("c")).await;
    assert_eq!(test.until_decided("c").await, [APPROVED]);
    test.until_event("c", "CertificateApproved").await;
    let pool = format!("{PREFIX}service-instancepool-id");
    test.create_service(annotated("web", &[(&pool, P1)])).await;
    test.until_published("web").await;
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    test.stop().await;
    let own = test
        .entries()
        .into_iter()
        .filter(|it| it.caller == test.user);
    let own: Vec<_> = own.collect();
    assert!(own.iter().any(|it| it.path.contains("/leases")));
    // What is the cluster's own is read where the role allows it.
    let refused = own.iter().filter(|it| it.status == 403);
    let refused = refused.filter(|it| !OPTIONAL_READS.contains(&it.path.as_str()));
    let refused: Vec<_> = refused.collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let reads = own
        .iter()
        .filter(|it| it.path.contains("/certificatesigningrequests/"));
    assert!(
        reads.into_iter().all(|it| it.method == "PUT"),
        "nothing is got"
    );
}

#[scenario]
async fn the_instance_on_the_node_counts_and_what_the_kubelet_was_told_inside_of_a_network() {
    let test = Harness::new().await;
    let name = test.cluster.names().own(NODE);
    let twin = InstanceSpec::named(&name).public_ip("198.51.100.99".parse().unwrap());
    test.cloud.add_instance(&twin).unwrap();
    test.cloud.set_private_networks(I1, &["inside"]).unwrap();
    let mut node = known(NODE, &format!("exoscale://{I1}"), "True", &[]);
    node["metadata"]["annotations"][PROVIDED_NODE_IP] = "10.0.0.7,fd00::7".into();
    test.put(node).await;
    test.put_request(&Ask::new("inside", NODE, &["10.0.0.7", "fd00::7", IPV4]))
        .await;
    test.stay_pending(&[Ask::new("twin", NODE, &["198.51.100.99"])])
        .await;
    assert_eq!(test.decided("inside"), [APPROVED]);
}
