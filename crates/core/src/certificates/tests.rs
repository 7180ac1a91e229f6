use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::node::examples::{addresses, fresh_node};
use crate::{CloudErrorKind, NodeAddress};

/// A cloud that denies what can never be right, and lets Node objects decide.
const STRICT: ApprovalRules = ApprovalRules {
    node: NodePart::Needed,
    one_dns_name: false,
    denies_faults: true,
    approval: Words {
        reason: "a",
        message: "b",
    },
    denial: Words {
        reason: "c",
        message: "d",
    },
};

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|&it| it.to_owned()).collect()
}

fn ips(list: &[&str]) -> Vec<IpAddr> {
    list.iter().map(|it| it.parse().unwrap()).collect()
}

/// A right request of the node n1 for its name and 10.0.0.5.
fn right() -> CertificateRequest {
    CertificateRequest {
        signer: KUBELET_SERVING.into(),
        username: "system:node:n1".into(),
        groups: texts(&["system:nodes", "system:authenticated"]),
        usages: texts(&["digital signature", "key encipherment", "server auth"]),
        conditions: Vec::new(),
        is_issued: false,
        content: Ok(RequestContent {
            common_names: texts(&["system:node:n1"]),
            organizations: texts(&["system:nodes"]),
            dns_names: texts(&["n1"]),
            addresses: ips(&["10.0.0.5"]),
            ..RequestContent::default()
        }),
    }
}

fn changed(change: impl FnOnce(&mut CertificateRequest)) -> CertificateRequest {
    let mut request = right();
    change(&mut request);
    request
}

fn asking(change: impl FnOnce(&mut RequestContent)) -> CertificateRequest {
    changed(|it| change(it.content.as_mut().unwrap()))
}

fn faults(request: &CertificateRequest) -> Option<Fault> {
    match recognise(request, &ApprovalRules::default()) {
        Recognised::Faulty(fault) => Some(fault),
        Recognised::WellFormedRequest(_) => None,
        other => panic!("{other:?}"),
    }
}

fn candidate(names: &[&str], addresses: &[&str]) -> WellFormedRequest {
    let request = asking(|it| {
        it.dns_names = texts(names);
        it.addresses = ips(addresses);
    });
    match recognise(&request, &ApprovalRules::default()) {
        Recognised::WellFormedRequest(candidate) => candidate,
        other => panic!("{other:?}"),
    }
}

/// The Node n1, initialised, with these addresses.
fn node(list: &[&str]) -> Node {
    Node {
        taints: Vec::new(),
        addresses: addresses(list),
        ..fresh_node()
    }
}

fn machine(list: &[&str]) -> MachineAnswer {
    MachineAnswer::Machines(vec![MachineIdentity {
        addresses: ips(list),
        ..MachineIdentity::default()
    }])
}

#[test]
fn what_is_not_our_matter_is_left_alone() {
    for (what, request) in [
        (
            "another signer",
            changed(|it| it.signer = "kubernetes.io/kube-apiserver-client-kubelet".into()),
        ),
        (
            "approved",
            changed(|it| it.conditions = texts(&["Approved"])),
        ),
        ("denied", changed(|it| it.conditions = texts(&["Denied"]))),
        ("failed", changed(|it| it.conditions = texts(&["Failed"]))),
        ("issued", changed(|it| it.is_issued = true)),
        ("a person", changed(|it| it.username = "jane".into())),
        (
            "an account",
            changed(|it| it.username = "system:serviceaccount:a:b".into()),
        ),
        ("no node", changed(|it| it.username = "system:node:".into())),
        (
            "no node's group",
            changed(|it| it.groups = texts(&["system:authenticated"])),
        ),
        ("nobody", changed(|it| it.groups = texts(&["system:nodes"]))),
        ("no groups", changed(|it| it.groups.clear())),
    ] {
        for rules in [ApprovalRules::default(), STRICT] {
            assert_eq!(recognise(&request, &rules), Recognised::Other, "{what}");
        }
    }
}

#[test]
fn framework_case_126_only_the_usages_of_a_server_pass() {
    for (usages, passes) in [
        (
            vec!["digital signature", "key encipherment", "server auth"],
            true,
        ),
        (vec!["server auth", "digital signature"], true),
        (
            vec!["digital signature", "server auth", "client auth"],
            false,
        ),
        (vec!["digital signature", "key encipherment"], false),
        (vec!["digital signature"], false),
        (vec!["server auth"], false),
        (vec!["key encipherment", "server auth"], false),
        (vec!["any"], false),
        (vec![], false),
    ] {
        let request = changed(|it| it.usages = texts(&usages));
        let wanted = (!passes).then_some(Fault::Usages);
        assert_eq!(faults(&request), wanted, "{usages:?}");
    }
}

#[test]
fn framework_case_127_another_subject_and_other_names_never_pass() {
    for (wanted, request) in [
        (
            Fault::Organization,
            asking(|it| it.organizations = texts(&["system:masters"])),
        ),
        (
            Fault::Organization,
            asking(|it| it.organizations = texts(&["system:nodes", "x"])),
        ),
        (
            Fault::Organization,
            asking(|it| it.organizations = texts(&["system:nodes", "system:nodes"])),
        ),
        (Fault::Organization, asking(|it| it.organizations.clear())),
        (
            Fault::CommonName,
            asking(|it| it.common_names = texts(&["n1"])),
        ),
        (Fault::CommonName, asking(|it| it.common_names.clear())),
        (
            Fault::CommonName,
            asking(|it| it.common_names = texts(&["system:node:n1", "system:node:n2"])),
        ),
        (Fault::Uri, asking(|it| it.uris = 1)),
        (Fault::Email, asking(|it| it.emails = 1)),
        (Fault::OtherName, asking(|it| it.others = 1)),
        (
            Fault::NoName,
            asking(|it| {
                it.dns_names.clear();
                it.addresses.clear();
            }),
        ),
        (
            Fault::ReservedName,
            asking(|it| it.dns_names = texts(&["n1", "kubernetes"])),
        ),
        (
            Fault::ReservedName,
            asking(|it| it.dns_names = texts(&["KUBERNETES.default.svc."])),
        ),
        (
            Fault::ReservedName,
            asking(|it| it.dns_names = texts(&["*.x", "n1"])),
        ),
        (
            Fault::ReservedName,
            asking(|it| it.dns_names = texts(&["n1", ""])),
        ),
    ] {
        assert_eq!(faults(&request), Some(wanted));
    }
    let harmless = asking(|it| it.dns_names = texts(&["kubernetes-1", "kubernetes1.example"]));
    assert_eq!(faults(&harmless), None);
}

#[test]
fn framework_case_128_nobody_asks_for_another_node() {
    let request = changed(|it| it.username = "system:node:n2".into());
    assert_eq!(faults(&request), Some(Fault::Requester));
    let request = asking(|it| it.common_names = texts(&["system:node:n2"]));
    assert_eq!(faults(&request), Some(Fault::Requester));
}

#[test]
fn of_several_faults_the_first_in_the_order_of_denials_is_told() {
    let request = changed(|it| {
        let content = it.content.as_mut().unwrap();
        content.dns_names = texts(&["kubernetes"]);
        content.emails = 1;
        it.usages = texts(&["client auth"]);
    });
    assert_eq!(faults(&request), Some(Fault::ReservedName));
}

#[test]
fn where_one_name_is_wanted_two_or_none_are_a_fault() {
    let rules = ApprovalRules {
        one_dns_name: true,
        ..ApprovalRules::default()
    };
    for (names, passes) in [
        (vec!["n1"], true),
        (vec![], false),
        (vec!["n1", "n1"], false),
    ] {
        let request = asking(|it| it.dns_names = texts(&names));
        let wanted = Recognised::Faulty(Fault::DnsNames(names.len()));
        assert_eq!(recognise(&request, &rules) != wanted, passes, "{names:?}");
    }
}

#[test]
fn what_cannot_be_read_is_told_and_nothing_else() {
    let request = changed(|it| it.content = Err("no PEM".into()));
    let rules = ApprovalRules::default();
    assert_eq!(
        recognise(&request, &rules),
        Recognised::Unreadable("no PEM".into())
    );
}

#[test]
fn the_node_and_the_machine_must_both_have_what_is_asked_for() {
    let rules = ApprovalRules::default();
    let shown = [
        "InternalIP:10.0.0.5",
        "Hostname:n1.local",
        "ExternalDNS:N1.example.",
    ];
    let missing =
        |list: &[&str]| CertificateVerdict::Wait(Finding::NodeAddresses { missing: ips(list) });
    let foreign = |known: &[&str], asked: &[&str]| {
        CertificateVerdict::Wait(Finding::Addresses {
            known: ips(known),
            asked: ips(asked),
        })
    };
    let name = |asked: &str| {
        CertificateVerdict::Wait(Finding::Name {
            asked: asked.into(),
        })
    };
    for (names, asked, on_machine, wanted) in [
        (
            vec!["n1"],
            vec!["10.0.0.5"],
            vec!["10.0.0.5"],
            CertificateVerdict::Approve,
        ),
        (vec!["N1."], vec![], vec![], CertificateVerdict::Approve),
        (
            vec![],
            vec!["10.0.0.5"],
            vec!["10.0.0.5"],
            CertificateVerdict::Approve,
        ),
        (
            vec!["n1.local", "n1.EXAMPLE"],
            vec![],
            vec![],
            CertificateVerdict::Approve,
        ),
        (
            vec!["n1"],
            vec!["::ffff:10.0.0.5"],
            vec!["10.0.0.5"],
            CertificateVerdict::Approve,
        ),
        (
            vec!["n1", "evil.example"],
            vec!["10.0.0.5"],
            vec!["10.0.0.5"],
            name("evil.example"),
        ),
        (vec!["n2"], vec![], vec![], name("n2")),
        (
            vec!["n1"],
            vec!["10.0.0.9"],
            vec!["10.0.0.5"],
            foreign(&["10.0.0.5"], &["10.0.0.9"]),
        ),
        (
            vec!["n1"],
            vec!["10.0.0.9"],
            vec!["10.0.0.9"],
            missing(&["10.0.0.9"]),
        ),
        // On the Node, and yet not the machine's.
        (
            vec!["n1"],
            vec!["10.0.0.5"],
            vec!["10.0.0.9"],
            foreign(&["10.0.0.9"], &["10.0.0.5"]),
        ),
    ] {
        let got = decide(
            &candidate(&names, &asked),
            &rules,
            Some(&node(&shown)),
            &machine(&on_machine),
        );
        assert_eq!(got, wanted, "{names:?} {asked:?} {on_machine:?}");
    }
}

#[test]
fn framework_case_131_a_node_that_waits_for_its_cloud_waits_for_its_certificate() {
    let rules = ApprovalRules::default();
    let (asked, answer) = (candidate(&["n1"], &[]), machine(&[]));
    let waiting = fresh_node();
    let verdict = |node: Option<&Node>| decide(&asked, &rules, node, &answer);
    assert_eq!(verdict(None), CertificateVerdict::Wait(Finding::NoNode));
    assert_eq!(
        verdict(Some(&waiting)),
        CertificateVerdict::Wait(Finding::NotInitialized)
    );
    assert_eq!(verdict(Some(&node(&[]))), CertificateVerdict::Approve);
    let other = Node {
        name: "n2".into(),
        ..node(&[])
    };
    assert_eq!(
        verdict(Some(&other)),
        CertificateVerdict::Wait(Finding::NoNode)
    );
}

#[test]
fn where_the_machine_decides_the_node_may_be_missing() {
    let rules = ApprovalRules {
        node: NodePart::Optional,
        ..ApprovalRules::default()
    };
    let asked = candidate(&["n1"], &["10.0.0.5"]);
    let verdict = |answer: &MachineAnswer| decide(&asked, &rules, None, answer);
    assert_eq!(
        verdict(&machine(&["10.0.0.5"])),
        CertificateVerdict::Approve
    );
    assert_eq!(
        verdict(&MachineAnswer::Unknown),
        CertificateVerdict::Wait(Finding::NoMachine)
    );
    assert_eq!(
        verdict(&MachineAnswer::Machines(Vec::new())),
        CertificateVerdict::Wait(Finding::NoMachine)
    );
    let error = CloudError::new(CloudErrorKind::Unavailable, "down");
    let silent = verdict(&MachineAnswer::CannotTell(error));
    assert_eq!(
        silent,
        CertificateVerdict::Wait(Finding::CannotTell("down".into()))
    );
    let refused = verdict(&MachineAnswer::Refused("stolen".into()));
    assert_eq!(refused, CertificateVerdict::Deny("stolen".into()));
}

#[test]
fn of_machines_that_cannot_be_told_apart_one_alone_must_have_everything() {
    let rules = ApprovalRules {
        node: NodePart::Optional,
        ..ApprovalRules::default()
    };
    let identity = |list: &[&str]| MachineIdentity {
        addresses: ips(list),
        ..MachineIdentity::default()
    };
    let answer = MachineAnswer::Machines(vec![
        identity(&["10.0.0.5", "10.0.0.6"]),
        identity(&["10.0.0.7"]),
    ]);
    for (asked, passes) in [
        (vec!["10.0.0.5", "10.0.0.6"], true),
        (vec!["10.0.0.7"], true),
        (vec!["10.0.0.5", "10.0.0.7"], false),
    ] {
        let got = decide(&candidate(&["n1"], &asked), &rules, None, &answer);
        assert_eq!(got == CertificateVerdict::Approve, passes, "{asked:?}");
    }
}

#[test]
fn the_words_of_faults_are_those_that_people_know() {
    for (fault, words) in [
        (Fault::NoName, "DNS or IP subjectAltName is required"),
        (Fault::ReservedName, "DNS subjectAltNames are not allowed"),
        (Fault::Email, "email subjectAltNames are not allowed"),
        (Fault::Uri, "URI subjectAltNames are not allowed"),
        (
            Fault::Organization,
            "subject organization is not system:nodes",
        ),
        (
            Fault::CommonName,
            "subject common name does not begin with system:node: ",
        ),
        (Fault::Usages, "key usage does not match"),
        (
            Fault::Requester,
            "subject common name does not match the requesting user",
        ),
    ] {
        assert_eq!(fault.to_string(), words);
    }
}

fn some_names() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec("(n[12]|N1\\.|kubernetes|a\\.example|\\*\\.a)", 0..3)
}

fn some_addresses() -> impl Strategy<Value = Vec<IpAddr>> {
    let address = (0_u8..4, any::<bool>()).prop_map(|(end, is_mapped)| {
        let text = format!("{}10.0.0.{end}", if is_mapped { "::ffff:" } else { "" });
        text.parse().unwrap()
    });
    proptest::collection::vec(address, 0..3)
}

fn some_request() -> impl Strategy<Value = CertificateRequest> {
    let user = "(system:node:n[12]|jane|system:node:)";
    let usages = prop_oneof![
        Just(texts(&["digital signature", "server auth"])),
        Just(texts(&["digital signature", "server auth", "client auth"])),
    ];
    let subject = (
        user,
        "(system:nodes|system:masters)",
        some_names(),
        some_addresses(),
    );
    (user, subject, usages, any::<bool>(), 0_usize..2).prop_map(
        |(username, (name, organization, dns_names, addresses), usages, is_node, emails)| {
            changed(|it| {
                it.username = username;
                it.usages = usages;
                if !is_node {
                    it.groups.remove(0);
                }
                it.content = Ok(RequestContent {
                    common_names: vec![name],
                    organizations: vec![organization],
                    dns_names,
                    addresses,
                    emails,
                    ..RequestContent::default()
                });
            })
        },
    )
}

fn some_rules() -> impl Strategy<Value = ApprovalRules> {
    let part = prop_oneof![
        Just(NodePart::Optional),
        Just(NodePart::Needed),
        Just(NodePart::Confirms)
    ];
    (part, any::<bool>()).prop_map(|(node, one_dns_name)| ApprovalRules {
        node,
        one_dns_name,
        ..ApprovalRules::default()
    })
}

fn some_node() -> impl Strategy<Value = Option<Node>> {
    let address = (
        "(Hostname|InternalIP|ExternalDNS)",
        "(n1|a\\.example|kubernetes|10\\.0\\.0\\.[0-3])",
    );
    let list = proptest::collection::vec(address, 0..4);
    proptest::option::of(("n[12]", list).prop_map(|(name, list)| {
        Node {
            name,
            addresses: list
                .iter()
                .map(|(kind, it)| NodeAddress::new(kind.as_str().into(), it))
                .collect(),
            ..node(&[])
        }
    }))
}

fn some_machines() -> impl Strategy<Value = Vec<MachineIdentity>> {
    let identity =
        (some_addresses(), some_names()).prop_map(|(addresses, names)| MachineIdentity {
            addresses,
            names,
            ..MachineIdentity::default()
        });
    proptest::collection::vec(identity, 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn nobody_ever_gets_a_certificate_for_a_name_or_address_that_is_not_its_own(
        request in some_request(),
        rules in some_rules(),
        node in some_node(),
        machines in some_machines(),
    ) {
        let Recognised::WellFormedRequest(asked) = recognise(&request, &rules) else {
            return Ok(());
        };
        let answer = MachineAnswer::Machines(machines.clone());
        if decide(&asked, &rules, node.as_ref(), &answer) != CertificateVerdict::Approve {
            return Ok(());
        }
        // From here on in the words of the request, not of what was made of it.
        let content = request.content.as_ref().unwrap();
        let own = request.username.strip_prefix("system:node:").unwrap();
        prop_assert_eq!(content.common_names.as_slice(), std::slice::from_ref(&request.username));
        prop_assert_eq!(&content.organizations, &["system:nodes"]);
        prop_assert_eq!(content.emails, 0);
        prop_assert!(request.groups.iter().any(|it| it == "system:nodes"));
        prop_assert!(!request.usages.iter().any(|it| it == "client auth"));
        prop_assert!(!content.dns_names.iter().any(|it| it == "kubernetes" || it.contains('*')));
        if rules.node != NodePart::Optional {
            prop_assert_eq!(&node.as_ref().unwrap().name, own);
        }
        let confirms = rules.node == NodePart::Confirms;
        let plain = |text: &str| text.trim_end_matches('.').to_lowercase();
        let shown = |text: &str| {
            let shown = node.iter().flat_map(|it| &it.addresses);
            confirms && shown.into_iter().any(|it| plain(&it.address) == plain(text))
        };
        let is_whole = machines.iter().any(|machine| {
            let has_names = content.dns_names.iter().all(|name| {
                plain(name) == own
                    || machine.names.iter().any(|it| plain(it) == plain(name))
                    || shown(name)
            });
            let has_addresses = content.addresses.iter().all(|asked| {
                let asked = asked.to_canonical();
                let has = machine.addresses.iter().any(|it| it.to_canonical() == asked);
                has && (!confirms || shown(&asked.to_string()))
            });
            has_names && has_addresses
        });
        prop_assert!(is_whole, "{request:?} {node:?} {machines:?}");
    }
}
