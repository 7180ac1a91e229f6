//! The framework's cases 125 to 131, and 142.

use bowline_scenarios::certificates::Ask;
use bowline_scenarios::cloud::{Script, machine, runs};
use bowline_scenarios::objects::fresh;
use bowline_scenarios::{TestCluster, scenario};
use serde_json::json;

use crate::certificates::harness::{self, ALONE, APPROVED, right, until_looked_at};

#[scenario]
async fn framework_case_125_a_right_request_is_approved_once_and_signed() {
    let bench = harness::new().await;
    let is_signing = bench.cluster.sign().await;
    bench.ask(&right("c")).await;
    assert_eq!(bench.until_decided("c").await, [APPROVED]);
    if is_signing {
        bench.until_signed("c").await;
    }
    bench.settle().await;
    let written: Vec<u16> = bench.decisions("c").iter().map(|it| it.status).collect();
    assert_eq!(written, [200]);
    let request = bench.request("c");
    // What others wrote on it is still there.
    assert_eq!(
        request["metadata"]["annotations"],
        json!({ "bowline.test/keep": "this" })
    );
    assert!(request["status"]["conditions"][0]["lastUpdateTime"].is_string());
    bench.until_event("c", "CertificateApproved").await;
    let series = "bowline_certificate_requests_decided_total{cloud=\"demo\",result=\"approved\"}";
    assert_eq!(bench.metric(series), Some(1.0));
}

/// All of these stay undecided, and unsigned where somebody signs.
async fn stay_pending(bench: &TestCluster, asked: &[Ask]) {
    bench.cluster.sign().await;
    for ask in asked {
        bench.put_request(ask).await;
    }
    until_looked_at(bench).await;
    if bench.cluster.sign().await {
        bench.until_signed("last").await;
    }
    for ask in asked {
        let request = bench.request(&ask.name);
        assert_eq!(bench.decided(&ask.name), [""; 0], "{}", ask.name);
        assert!(request["status"]["certificate"].is_null(), "{}", ask.name);
        assert!(bench.decisions(&ask.name).is_empty(), "{}", ask.name);
    }
}

#[scenario]
async fn framework_case_126_only_the_usages_of_a_server_are_approved() {
    let bench = harness::new().await;
    bench
        .put_request(
            &right("curve").with(|it| it.usages = vec!["digital signature", "server auth"]),
        )
        .await;
    let wrong = [
        (
            "client",
            vec!["digital signature", "server auth", "client auth"],
        ),
        ("no-server", vec!["digital signature", "key encipherment"]),
    ];
    let wrong = wrong.map(|(name, usages)| right(name).with(|it| it.usages = usages));
    stay_pending(&bench, &wrong).await;
    assert_eq!(bench.decided("curve"), [APPROVED]);
    bench.until_event("client", "CertificateNotApproved").await;
}

#[scenario]
async fn framework_case_127_another_subject_and_other_names_are_not_approved() {
    let bench = harness::new().await;
    let wrong = [
        right("masters").with(|it| it.organizations = vec!["system:masters"]),
        right("two").with(|it| it.organizations = vec!["system:nodes", "system:masters"]),
        right("bare").with(|it| it.common_name = "n1".into()),
        right("uri").with(|it| it.uris = vec!["https://example.com/"]),
        right("email").with(|it| it.emails = vec!["a@example.com"]),
        right("nothing").with(|it| {
            it.dns_names.clear();
            it.addresses.clear();
        }),
        right("server").with(|it| it.dns_names.push("kubernetes".into())),
    ];
    stay_pending(&bench, &wrong).await;
}

#[scenario]
async fn framework_case_128_nobody_gets_a_certificate_of_another_node() {
    let bench = harness::new().await;
    bench.cloud().say("n2", runs("n2", "10.0.0.6"));
    bench
        .put(harness::node("n2", &["InternalIP:10.0.0.6"]))
        .await;
    let wrong = [
        right("other-user").with(|it| it.user = "system:node:n2".into()),
        right("other-name").with(|it| it.dns_names = vec!["n2".into()]),
        right("both-names").with(|it| it.dns_names.push("n2".into())),
        right("other-address").with(|it| it.addresses = vec!["10.0.0.6".into()]),
        right("foreign-name").with(|it| it.dns_names.push("evil.example".into())),
        right("no-group").with(|it| it.groups = vec!["system:authenticated"]),
    ];
    stay_pending(&bench, &wrong).await;
}

#[scenario]
async fn framework_case_129_an_address_counts_when_node_and_cloud_have_it() {
    let bench = harness::new().await;
    bench.ask(&Ask::new("c", "n1", &["10.0.0.99"])).await;
    bench.until_event("c", "CertificateNotApproved").await;
    let add = |node: &mut serde_json::Value| {
        let more = json!({ "type": "InternalIP", "address": "10.0.0.99" });
        node["status"]["addresses"]
            .as_array_mut()
            .unwrap()
            .push(more);
    };
    // The Node alone does not count: its kubelet may write there.
    bench.change("n1", add).await;
    bench.settle().await;
    assert_eq!(bench.decided("c"), [""; 0]);
    let both = ["InternalIP:10.0.0.5", "InternalIP:10.0.0.99"];
    bench
        .cloud()
        .say("n1", Script::Machine(machine("demo://n1", &both)));
    assert_eq!(bench.until_decided("c").await, [APPROVED]);
}

#[scenario]
async fn framework_case_130_requests_for_other_signers_are_not_even_seen() {
    let bench = harness::new().await;
    let client = "kubernetes.io/kube-apiserver-client-kubelet";
    let wrong = [
        right("client").with(|it| it.signer = client),
        right("foreign").with(|it| it.signer = "example.com/foo"),
    ];
    stay_pending(&bench, &wrong).await;
    let lists = bench.entries().into_iter();
    let lists = lists.filter(|it| it.path.ends_with("/certificatesigningrequests"));
    let mut lists = lists.filter(|it| it.method == "GET").peekable();
    assert!(lists.peek().is_some());
    for list in lists {
        assert!(list.query.contains("spec.signerName"), "{}", list.query);
    }
}

#[scenario]
async fn framework_case_131_decided_requests_stay_and_early_ones_wait_for_their_node() {
    let flags = ["--controllers=cloud-node,node-csr-approval"];
    let mut bench = harness::idle(&flags).await;
    for condition in ["Denied", "Approved", "Failed"] {
        let name = condition.to_lowercase();
        let ask = right(&name).with(|it| it.conditions = vec![condition]);
        bench.put_request(&ask).await;
    }
    // Asks before there is a Node, and the Node waits for its cloud.
    bench
        .put_request(&Ask::new("early", "n2", &["10.0.0.6"]))
        .await;
    bench.start();
    until_looked_at(&bench).await;
    bench.cloud().say("n2", Script::Error("not yet"));
    bench.create(fresh("n2")).await;
    bench.settle().await;
    assert_eq!(bench.decided("early"), [""; 0]);
    bench.cloud().say("n2", runs("n2", "10.0.0.6"));
    assert_eq!(bench.until_decided("early").await, [APPROVED]);
    assert!(bench.is_initialized("n2"));
    for condition in ["Denied", "Approved", "Failed"] {
        let name = condition.to_lowercase();
        assert_eq!(bench.decided(&name), [format!("{condition} Test: ")]);
        assert!(bench.decisions(&name).is_empty());
    }
}

#[scenario]
async fn framework_case_142_the_approver_runs_only_when_it_is_named() {
    let series = "running_managed_controllers{manager=\"cloud-controller-manager\",\
                      name=\"node-csr-approval\"}";
    for (flags, runs) in [
        ("--controllers=*", None),
        ("--controllers=*,node-csr-approval", Some(1.0)),
        (
            "--controllers=certificatesigningrequest-approving-controller",
            Some(1.0),
        ),
    ] {
        let mut bench = harness::idle(&[flags]).await;
        bench.put_request(&right("c")).await;
        bench.start();
        if runs.is_some() {
            bench.until_decided("c").await;
        }
        bench.settle().await;
        assert_eq!(bench.metric(series), runs, "{flags}");
        assert_eq!(bench.decided("c").is_empty(), runs.is_none(), "{flags}");
    }
}

#[scenario]
async fn a_cloud_that_says_nothing_of_certificates_starts_nothing() {
    let mut bench = TestCluster::idle(&[ALONE]).await;
    bench.put_request(&right("c")).await;
    bench.start();
    bench.settle().await;
    assert_eq!(bench.decided("c"), [""; 0]);
    let asked = bench.entries().into_iter();
    assert!(
        !asked
            .into_iter()
            .any(|it| it.method == "GET" && it.path.contains("certificates"))
    );
}
