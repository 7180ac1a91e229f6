//! Requests for serving certificates: what a Node shows counts if its machine says so, and alone where no machine can be
//! asked.

use std::cell::Cell;

use bowline_scenarios::certificates::Ask;
use bowline_scenarios::objects::{PROVIDED_NODE_IP, known};
use bowline_scenarios::scenario;
use bowline_scenarios::talos::{Beginning, CONTROLLERS, CloudHarness, Need};
use bowline_simulator_talos::PlatformSpec;

use crate::talos::harness::{Harness, OFTEN};

const APPROVED: &str = "Approved Approved by TalosCloudControllerManager: This CSR was approved by \
                        Talos Cloud Controller Manager";
const ADDRESS: &str = "10.0.0.5";
const DIGITAL: &str = "digital signature";
const SERVER: &str = "server auth";

/// Node n1 of a Talos machine, which is initialised, and somebody who signs where there is a real server.
struct Requests {
    harness: Harness,
    is_signing: bool,
    /// How often something was looked at.
    looks: Cell<u32>,
}

bowline_scenarios::harness!(Requests, harness: Harness);

impl Requests {
    async fn new() -> Self {
        Self::on(PlatformSpec::default()).await
    }

    async fn on(platform: PlatformSpec) -> Self {
        let harness = Harness::with(Beginning {
            flags: &[CONTROLLERS, OFTEN],
            ..Beginning::default()
        })
        .await;
        harness.join_on("n1", &["eth0/10.0.0.5/24"], platform);
        harness.ready("n1").await;
        let is_signing = harness.cluster.sign().await;
        Self {
            harness,
            is_signing,
            looks: Cell::new(0),
        }
    }

    /// Stores these and one that is right, and waits until that one has its certificate.
    async fn look_at(&self, asked: &[Ask]) {
        for ask in asked {
            self.put_request(ask).await;
        }
        self.looks.update(|looks| looks + 1);
        let last = format!("last-{}", self.looks.get());
        self.put_request(&right(&last)).await;
        assert_eq!(self.until_decided(&last).await, [APPROVED]);
        if self.is_signing {
            self.until_signed(&last).await;
        }
        self.settle().await;
    }

    /// All of these stay undecided and unsigned.
    async fn stay_pending(&self, asked: &[Ask]) {
        self.look_at(asked).await;
        for Ask { name, .. } in asked {
            assert_eq!(self.decided(name), [""; 0], "{name}");
            assert!(self.decisions(name).is_empty(), "{name}");
            self.assert_unsigned(name);
        }
    }

    /// Each of these is denied with that text, and never signed.
    async fn are_denied(&self, asked: &[(Ask, &str)]) {
        let all: Vec<Ask> = asked.iter().map(|(ask, _)| ask.clone()).collect();
        self.look_at(&all).await;
        for (Ask { name, .. }, text) in asked {
            let denied = format!(
                "Denied Denied by TalosCloudControllerManager: This CSR was denied by Talos Cloud \
                 Controller Manager, Reason: {text}"
            );
            assert_eq!(self.decided(name), [denied], "{name}");
            self.assert_unsigned(name);
        }
    }

    async fn are_approved(&self, asked: &[Ask]) {
        self.look_at(asked).await;
        for Ask { name, .. } in asked {
            assert_eq!(self.decided(name), [APPROVED], "{name}");
            if self.is_signing {
                self.until_signed(name).await;
            }
        }
    }

    fn assert_unsigned(&self, name: &str) {
        let request = self.request(name);
        assert!(request["status"]["certificate"].is_null(), "{name}");
    }

    fn decided_so(&self, status: &str) -> u64 {
        let series = format!("talosccm_csr_approval_count{{status=\"{status}\"}}");
        self.counted(&series)
    }
}

fn right(name: &str) -> Ask {
    Ask::new(name, "n1", &[ADDRESS])
}

fn changed(name: &str, change: impl FnOnce(&mut Ask)) -> Ask {
    right(name).with(change)
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|&it| it.to_owned()).collect()
}

#[scenario]
async fn talos_case_62_a_kubelets_own_request_is_approved_and_signed(requests: Requests) {
    let ask = changed("c", |it| it.usages = vec![DIGITAL, SERVER]);
    requests.ask(&ask).await;
    assert_eq!(requests.until_decided("c").await, [APPROVED]);
    if requests.is_signing {
        requests.until_signed("c").await;
    }
    requests.until_event("c", "CertificateApproved").await;
    assert_eq!(
        (requests.decided_so("approve"), requests.decided_so("deny")),
        (1, 0)
    );
    let statuses: Vec<u16> = requests.decisions("c").iter().map(|it| it.status).collect();
    assert_eq!(statuses, [200]);
}

#[scenario]
async fn talos_case_63_only_the_usages_of_a_server_are_approved(requests: Requests) {
    let key = "key encipherment";
    requests
        .are_approved(&[changed("with-key", |it| {
            it.usages = vec![DIGITAL, key, SERVER];
        })])
        .await;
    requests
        .are_denied(&[
            (
                changed("client", |it| {
                    it.usages = vec![DIGITAL, SERVER, "client auth"];
                }),
                "key usage does not match",
            ),
            (
                changed("signature", |it| it.usages = vec![DIGITAL]),
                "key usage does not match",
            ),
        ])
        .await;
}

#[scenario]
async fn talos_case_64_names_are_needed_and_those_of_the_api_server_are_not_a_nodes(
    requests: Requests,
) {
    requests
        .are_denied(&[
            (
                changed("none", |it| {
                    it.dns_names.clear();
                    it.addresses.clear();
                }),
                "DNS or IP subjectAltName is required",
            ),
            (
                changed("api", |it| {
                    it.dns_names = names(&["kubernetes.default.svc"]);
                }),
                "DNS subjectAltNames are not allowed",
            ),
            (
                changed("short", |it| it.dns_names = names(&["kubernetes"])),
                "DNS subjectAltNames are not allowed",
            ),
        ])
        .await;
}

#[scenario]
async fn talos_case_65_what_can_never_be_a_kubelets_is_denied_for_its_first_fault(
    requests: Requests,
) {
    let organization = "subject organization is not system:nodes";
    requests
        .are_denied(&[
            (
                changed("email", |it| it.emails = vec!["a@b.example"]),
                "email subjectAltNames are not allowed",
            ),
            (
                changed("uri", |it| it.uris = vec!["https://b.example/"]),
                "URI subjectAltNames are not allowed",
            ),
            (
                changed("masters", |it| it.organizations = vec!["system:masters"]),
                organization,
            ),
            (
                changed("two", |it| it.organizations.push("x")),
                organization,
            ),
            (
                changed("common", |it| it.common_name = "n1".into()),
                "subject common name does not begin with system:node: ",
            ),
            (
                changed("several", |it| {
                    it.dns_names = names(&["kubernetes"]);
                    it.emails = vec!["a@b.example"];
                    it.usages.push("client auth");
                }),
                "DNS subjectAltNames are not allowed",
            ),
        ])
        .await;
    assert_eq!(requests.decided_so("deny"), 6);
}

#[scenario]
async fn talos_case_66_an_address_that_the_node_gets_later_is_approved_then(requests: Requests) {
    let early = Ask::new("early", "n1", &[ADDRESS, "198.51.100.7"]);
    requests.stay_pending(&[early]).await;
    requests
        .until_event("early", "CertificateNotApproved")
        .await;
    assert_eq!(requests.decided_so("deny"), 0, "only denials count");
    let found = requests.cloud.add_address("n1", "eth0/198.51.100.7/24");
    found.unwrap();
    assert_eq!(requests.until_decided("early").await, [APPROVED]);
}

#[scenario]
async fn talos_case_67_nobody_gets_the_certificate_of_another_node(requests: Requests) {
    requests.join_metal("n2", &["eth0/10.0.0.6/24"]);
    requests.ready("n2").await;
    requests
        .are_denied(&[(
            changed("subject", |it| it.common_name = "system:node:n2".into()),
            "subject common name does not match the requesting user",
        )])
        .await;
    let theirs = changed("names", |it| {
        it.dns_names = names(&["n2"]);
        it.addresses = names(&["10.0.0.6"]);
    });
    let address = changed("address", |it| it.addresses = names(&["10.0.0.6"]));
    requests.stay_pending(&[theirs, address]).await;
}

#[scenario]
async fn talos_case_68_addresses_alone_are_enough(requests: Requests) {
    let only = changed("only", |it| it.dns_names.clear());
    requests.are_approved(&[only]).await;
}

#[scenario]
async fn talos_case_69_the_internal_name_counts_wherever_it_stands() {
    let requests = Requests::on(PlatformSpec {
        hostname: "a-internal.example".into(),
        ..PlatformSpec::default()
    })
    .await;
    let ask = changed("c", |it| {
        it.dns_names = names(&["a-internal.example", "n1"]);
    });
    requests.are_approved(&[ask]).await;
    requests.end().await;
}

#[scenario]
async fn talos_case_70_what_is_not_ours_or_decided_already_is_not_touched(requests: Requests) {
    let asked = [
        changed("client", |it| {
            it.signer = "kubernetes.io/kube-apiserver-client-kubelet";
            it.usages = vec![DIGITAL, "client auth"];
        }),
        changed("denied", |it| it.conditions = vec!["Denied"]),
        changed("failed", |it| it.conditions = vec!["Failed"]),
        changed("signed", |it| it.is_signed = true),
        changed("account", |it| {
            it.user = "system:serviceaccount:kube-system:x".into();
        }),
    ];
    requests.look_at(&asked).await;
    for Ask {
        name, conditions, ..
    } in &asked
    {
        let before: Vec<String> = conditions.iter().map(|it| format!("{it} Test: ")).collect();
        assert_eq!(requests.decided(name), before, "{name}");
        assert!(requests.decisions(name).is_empty(), "{name}");
    }
}

#[scenario]
async fn talos_case_91_every_name_is_looked_at_and_no_name_stands_for_many(requests: Requests) {
    let not_allowed = "DNS subjectAltNames are not allowed";
    requests
        .are_denied(&[
            (
                changed("upper", |it| {
                    it.dns_names = names(&["KUBERNETES.default.svc"]);
                }),
                not_allowed,
            ),
            (
                changed("star", |it| it.dns_names = names(&["*.x", "n1"])),
                not_allowed,
            ),
        ])
        .await;
    requests
        .stay_pending(&[
            changed("evil", |it| it.dns_names = names(&["n1", "evil.example"])),
            changed("outside", |it| it.groups = vec!["system:authenticated"]),
        ])
        .await;
}

#[scenario]
async fn talos_case_92_a_request_from_before_its_node_waits_for_it(requests: Requests) {
    let early = Ask::new("early", "n9", &["10.0.0.9"]);
    requests.stay_pending(&[early]).await;
    requests.join_metal("n9", &["eth0/10.0.0.9/24"]);
    requests.ready("n9").await;
    let begun = requests.world.clock.now();
    assert_eq!(requests.until_decided("early").await, [APPROVED]);
    let took = requests.since(begun);
    assert!(took.as_secs() <= 60, "{took:?}");
}

#[scenario]
async fn talos_case_93_certificates_alone_need_no_talosconfig() {
    let inner = CloudHarness::without_endpoint(Beginning {
        flags: &["--controllers=node-csr-approval"],
        need: Need::Nodes,
        ..Beginning::default()
    })
    .await;
    inner.cloud.take_credentials();
    let mut harness = Harness::at(inner);
    // What the kubelet was told is as good as what its status says.
    let mut node = known("n1", "hcloud://1", "True", &["Hostname:n1"]);
    node["metadata"]["annotations"][PROVIDED_NODE_IP] = ADDRESS.into();
    harness.put(node).await;
    harness.start().await;
    harness.put_request(&right("c")).await;
    assert_eq!(harness.until_decided("c").await, [APPROVED]);
    assert_eq!(harness.asked("*"), []);
    harness.end().await;
}
