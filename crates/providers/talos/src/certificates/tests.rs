use super::*;

use bowline_core::{
    CertificateRequest, CertificateVerdict as Verdict, Fault, Finding, KUBELET_SERVING,
    NodeAddress, Recognised, RequestContent, decide_certificate, recognise_certificate,
};

use crate::testing;

fn n1() -> Node {
    let mut node = testing::node("n1", "10.0.0.5");
    node.addresses = vec![
        NodeAddress::new(AddressKind::InternalIp, "10.0.0.5"),
        NodeAddress::new(AddressKind::Hostname, "n1"),
    ];
    node
}

fn request(names: &[&str], addresses: &[&str]) -> CertificateRequest {
    let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    CertificateRequest {
        signer: KUBELET_SERVING.into(),
        username: "system:node:n1".into(),
        groups: texts(&["system:nodes", "system:authenticated"]),
        usages: texts(&["digital signature", "server auth"]),
        conditions: Vec::new(),
        is_issued: false,
        content: Ok(RequestContent {
            common_names: texts(&["system:node:n1"]),
            organizations: texts(&["system:nodes"]),
            dns_names: texts(names),
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
            ..RequestContent::default()
        }),
    }
}

/// What becomes of a request of n1.
async fn verdict(request: &CertificateRequest, node: Option<&Node>) -> Result<Verdict, Fault> {
    let certificates = Certificates::new(None, None);
    let rules = certificates.rules();
    match recognise_certificate(request, &rules) {
        Recognised::WellFormedRequest(candidate) => {
            let answer = certificates.machine("n1", node).await;
            Ok(decide_certificate(&candidate, &rules, node, &answer))
        }
        Recognised::Faulty(fault) => Err(fault),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn talos_case_62_and_68_and_69_what_is_the_nodes_own_is_approved() {
    let mut node = n1();
    for (names, addresses) in [
        (&["n1"][..], &["10.0.0.5"][..]),
        (&[], &["10.0.0.5"]),
        (&["N1."], &[]),
    ] {
        let made = request(names, addresses);
        assert_eq!(verdict(&made, Some(&node)).await, Ok(Verdict::Approve));
    }
    let internal = NodeAddress::new(AddressKind::InternalDns, "a-internal.example");
    node.addresses.push(internal);
    let made = request(&["a-internal.example", "n1"], &["10.0.0.5"]);
    assert_eq!(verdict(&made, Some(&node)).await, Ok(Verdict::Approve));
    let rules = Certificates::new(None, None).rules();
    assert_eq!(
        rules.approval.reason,
        "Approved by TalosCloudControllerManager"
    );
    assert_eq!(
        rules.approval.message,
        "This CSR was approved by Talos Cloud Controller Manager"
    );
}

#[tokio::test]
async fn talos_case_66_and_91_and_92_what_is_not_the_nodes_waits() {
    let mut node = n1();
    let early = request(&["n1"], &["10.0.0.6"]);
    assert!(matches!(
        verdict(&early, Some(&node)).await,
        Ok(Verdict::Wait(Finding::Addresses { .. }))
    ));
    let added = NodeAddress::new(AddressKind::ExternalIp, "10.0.0.6");
    node.addresses.push(added);
    assert_eq!(verdict(&early, Some(&node)).await, Ok(Verdict::Approve));
    let foreign = request(&["n1", "evil.example"], &["10.0.0.5"]);
    assert!(matches!(
        verdict(&foreign, Some(&node)).await,
        Ok(Verdict::Wait(Finding::Name { .. }))
    ));
    let before = request(&["n1"], &["10.0.0.5"]);
    assert_eq!(
        verdict(&before, None).await,
        Ok(Verdict::Wait(Finding::NoNode))
    );
}

#[tokio::test]
async fn talos_case_64_and_65_what_can_never_be_right_is_denied_in_the_originals_words() {
    let rules = Certificates::new(None, None).rules();
    assert!(rules.denies_faults);
    let fault = verdict(&request(&[], &[]), Some(&n1())).await.unwrap_err();
    assert_eq!(
        format!("{}{fault}", rules.denial.message),
        "This CSR was denied by Talos Cloud Controller Manager, Reason: DNS or IP subjectAltName is \
         required"
    );
    assert_eq!(rules.denial.reason, "Denied by TalosCloudControllerManager");
    let made = request(&["KUBERNETES.default.svc"], &[]);
    assert_eq!(verdict(&made, Some(&n1())).await, Err(Fault::ReservedName));
}

#[tokio::test(start_paused = true)]
async fn proof_case_34_and_35_the_machine_says_what_is_its_own() {
    let harness = testing::cluster::Harness::new();
    harness.metal("n1", &["eth0/10.0.0.5/24", "external/198.51.100.7/32"]);
    harness.metal("n2", &["eth0/10.0.0.6/24"]);
    let cloud = harness.cloud("");
    let certificates = cloud.serving_certificates().unwrap();
    let shows = |node: &mut Node, kind: AddressKind, address: &str| {
        node.addresses.push(NodeAddress::new(kind, address));
    };
    let mut node = n1();
    shows(&mut node, AddressKind::ExternalIp, "198.51.100.7");
    shows(&mut node, AddressKind::ExternalIp, "10.0.0.6");
    shows(&mut node, AddressKind::ExternalDns, "evil.example");
    let MachineAnswer::Machines(machines) = certificates.machine("n1", Some(&node)).await else {
        panic!("its machine answers");
    };
    let own = ["10.0.0.5", "10.0.0.5", "198.51.100.7"];
    let own: Vec<IpAddr> = own.iter().map(|it| it.parse().unwrap()).collect();
    assert_eq!(machines[0].addresses, own);
    assert!(machines[0].names.is_empty() && machines[0].claimed_addresses.is_empty());
    // Another machine answers at its address.
    let mut elsewhere = testing::node("n1", "10.0.0.6");
    let answer = certificates.machine("n1", Some(&elsewhere)).await;
    assert!(
        matches!(answer, MachineAnswer::NotItsMachine(_)),
        "{answer:?}"
    );
    // A Node of another OS is believed, unless a machine has described it.
    elsewhere.os_image = "Debian GNU/Linux 12 (bookworm)".into();
    let answer = certificates.machine("n1", Some(&elsewhere)).await;
    assert!(matches!(answer, MachineAnswer::Machines(_)), "{answer:?}");
    elsewhere.labels.insert(PLATFORM.into(), "metal".into());
    let answer = certificates.machine("n1", Some(&elsewhere)).await;
    assert!(
        matches!(answer, MachineAnswer::NotItsMachine(_)),
        "{answer:?}"
    );
    // Silence is no answer.
    let nowhere = testing::node("n1", "10.0.0.99");
    let answer = certificates.machine("n1", Some(&nowhere)).await;
    assert!(matches!(answer, MachineAnswer::CannotTell(_)), "{answer:?}");
}

#[tokio::test]
async fn a_node_of_any_cloud_is_spoken_for() {
    let mut node = n1();
    node.provider_id = Some("exoscale://9f".into());
    let made = request(&["n1"], &["10.0.0.5"]);
    assert_eq!(verdict(&made, Some(&node)).await, Ok(Verdict::Approve));
    assert!(Certificates::new(None, None).speaks_for_all());
}
