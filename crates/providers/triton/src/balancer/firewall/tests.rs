//! Tables of rules: texts, hashes, limits, and what is changed.

use super::*;

const CLUSTER: &str = "cccccccc-0000-4000-8000-00000000000c";
const UID: &str = "3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01";

fn holder() -> Holder {
    Holder::new(CLUSTER, UID)
}

fn ranges(texts: &[&str]) -> BTreeSet<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn machines(ports: &[u16], from: &[&str]) -> Wanted {
    holder().of_machines(&Machines {
        ports: &ports.iter().copied().collect(),
        sources: &ranges(from),
        metrics: None,
        back: None,
        shared: None,
    })
}

fn nodes(ports: &[(Protocol, u16)], from: &[&str], guarded: usize, open: usize) -> Wanted {
    holder().of_nodes(&Nodes {
        ports,
        sources: &ranges(from),
        guarded,
        open,
        enforced: false,
        keeps_rules: true,
    })
}

fn there(id: u128, rule: &WantedRule) -> FirewallRule {
    FirewallRule {
        id: Uuid::from_u128(id),
        // As the server writes it.
        rule: rule.rule.to_lowercase(),
        enabled: true,
        description: rule.description.clone(),
        global: false,
    }
}

fn nobody(_: &str) -> bool {
    false
}

fn kinds(wanted: &Wanted) -> Vec<&str> {
    let labels = wanted.rules.iter().map(|it| Label::parse(&it.description));
    labels.map(|it| it.unwrap().kind).collect()
}

#[test]
fn texts_and_hashes_are_those_of_the_specification() {
    for (ports, from, text, hash) in [
        (
            &[80, 443][..],
            &["0.0.0.0/0"][..],
            "FROM any TO tag \"bowline.uid\" = \"3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01\" ALLOW tcp \
             (PORT 443 AND PORT 80)",
            "85222cef",
        ),
        (
            &[80, 443],
            &["203.0.113.0/24", "198.51.100.0/24"],
            "FROM (subnet 198.51.100.0/24 OR subnet 203.0.113.0/24) TO tag \"bowline.uid\" = \
             \"3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01\" ALLOW tcp (PORT 443 AND PORT 80)",
            "daec830f",
        ),
        (
            &[80],
            &["192.0.2.7/32"],
            "FROM ip 192.0.2.7 TO tag \"bowline.uid\" = \"3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01\" \
             ALLOW tcp PORT 80",
            "",
        ),
    ] {
        let wanted = machines(ports, from);
        let [rule] = wanted.rules.as_slice() else {
            panic!("{wanted:?}");
        };
        assert_eq!(rule.rule, text);
        assert!(rule.enabled);
        let start = format!("bowline:cccccccc:{UID}:front-tcp:{hash}");
        assert!(rule.description.starts_with(&start), "{rule:?}");
    }
}

#[test]
fn what_does_not_fit_one_rule_becomes_several() {
    let kinds = |wanted: &Wanted| -> Vec<String> {
        let all = wanted.rules.iter().map(|rule| {
            let label = Label::parse(&rule.description).unwrap();
            let ports = rule.rule.matches("PORT").count();
            let from = rule.rule.matches("subnet").count();
            format!("{} {ports}p {from}s", label.kind)
        });
        all.collect()
    };
    let ports: Vec<u16> = (1..=9).collect();
    let all = kinds(&machines(&ports, &["0.0.0.0/0"]));
    assert_eq!(all, ["front-tcp 8p 0s", "front-tcp-1 1p 0s"]);
    let many: Vec<String> = (0..30).map(|it| format!("10.0.{it}.0/24")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let some = kinds(&machines(&[80], &many));
    assert_eq!(some, ["front-tcp 1p 24s", "front-tcp-1 1p 6s"]);
    let both = kinds(&machines(&ports, &many));
    assert_eq!(both[..2], ["front-tcp 8p 24s", "front-tcp-1 8p 6s"]);
    assert_eq!(both[2..], ["front-tcp-2 1p 24s", "front-tcp-3 1p 6s"]);
}

#[test]
fn ranges_of_ipv6_are_left_out_and_reported_and_never_open_anything() {
    let wanted = machines(&[80], &["2001:db8::/32", "10.0.0.0/8"]);
    let rule = &wanted.rules[0].rule;
    assert!(rule.starts_with("FROM subnet 10.0.0.0/8 TO"));
    assert_eq!(wanted.notices[0].reason, "IPv6RangesIgnored");
    let wanted = machines(&[80], &["2001:db8::/32"]);
    assert_eq!(wanted.rules, [], "nobody is let in");
    assert!(wanted.notices[0].message.contains("2001:db8::/32"));
}

#[test]
fn load_balancers_reach_nodes_and_those_who_measure_reach_load_balancers() {
    let wanted = holder().of_machines(&Machines {
        ports: &BTreeSet::from([80]),
        sources: &ranges(&["0.0.0.0/0"]),
        metrics: Some((&ranges(&["10.0.0.0/8"]), 8405)),
        back: Some(&BTreeSet::from([30080, 31000])),
        shared: None,
    });
    let texts: Vec<&str> = wanted.rules.iter().map(|it| it.rule.as_str()).collect();
    assert_eq!(
        texts[1..],
        [
            "FROM tag \"bowline.uid\" = \"3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01\" TO tag \"bowline.node\" = \
             \"cccccccc-0000-4000-8000-00000000000c\" ALLOW tcp (PORT 30080 AND PORT 31000)",
            "FROM subnet 10.0.0.0/8 TO tag \"bowline.uid\" = \"3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01\" \
             ALLOW tcp PORT 8405",
        ]
    );
    assert_eq!(kinds(&wanted), ["front-tcp", "back-tcp", "metrics-tcp"]);
}

#[test]
fn nodes_are_opened_where_they_have_firewalls_and_else_it_is_reported() {
    let tcp = [(Protocol::Tcp, 30080)];
    let from = ["198.51.100.0/24"];
    let wanted = nodes(&tcp, &from, 3, 0);
    assert_eq!(
        wanted.rules[0].rule,
        "FROM subnet 198.51.100.0/24 TO tag \"bowline.node\" = \
         \"cccccccc-0000-4000-8000-00000000000c\" ALLOW tcp PORT 30080"
    );
    assert_eq!(wanted.notices, []);
    let reasons =
        |wanted: &Wanted| -> Vec<&str> { wanted.notices.iter().map(|it| it.reason).collect() };
    let mut opened = Nodes {
        ports: &tcp,
        sources: &ranges(&from),
        guarded: 0,
        open: 3,
        enforced: true,
        keeps_rules: true,
    };
    let direct = holder().of_nodes(&opened);
    assert_eq!(direct, Wanted::default(), "kube-proxy enforces them");
    (opened.guarded, opened.open) = (3, 0);
    (opened.enforced, opened.keeps_rules) = (false, false);
    let never = holder().of_nodes(&opened);
    for (wanted, rules) in [
        (nodes(&tcp, &from, 0, 3), 0),
        (nodes(&tcp, &from, 1, 2), 1),
        (never, 0),
    ] {
        assert_eq!(wanted.rules.len(), rules);
        assert_eq!(reasons(&wanted), ["SourceRangesNotEnforced"]);
    }
    assert_eq!(nodes(&tcp, &["0.0.0.0/0"], 0, 3), Wanted::default());
    let ports = [
        (Protocol::Udp, 30053),
        (Protocol::Other("SCTP".to_owned()), 30132),
        (Protocol::Tcp, 30053),
    ];
    let mixed = nodes(&ports, &["0.0.0.0/0"], 1, 0);
    assert_eq!(kinds(&mixed), ["front-tcp", "front-udp"]);
    assert_eq!(reasons(&mixed), ["FirewallUnsupported"]);
}

#[test]
fn a_rule_is_changed_for_its_hash_or_because_it_is_off_and_never_for_its_text() {
    let wanted = machines(&[80, 443], &["0.0.0.0/0"]).rules;
    let changes =
        |wanted: &[WantedRule], found: &[FirewallRule]| compare(&holder(), wanted, found, nobody);
    let good = there(1, &wanted[0]);
    assert_eq!(changes(&wanted, std::slice::from_ref(&good)), []);
    let off = FirewallRule {
        enabled: false,
        ..good.clone()
    };
    let old = there(2, &machines(&[80], &["0.0.0.0/0"]).rules[0]);
    for found in [off, old] {
        let update = RuleChange::Update {
            id: found.id,
            rule: wanted[0].clone(),
        };
        assert_eq!(changes(&wanted, &[found]), [update]);
    }
    let create = RuleChange::Create(wanted[0].clone());
    assert_eq!(create.name(), "front-tcp");
    assert_eq!(changes(&wanted, &[]), [create]);
    let mut twice = [there(3, &wanted[0]), good.clone()];
    twice[0].enabled = false;
    let one = [removal(&twice[0])];
    assert_eq!(changes(&wanted, &twice), one, "one is enough");
    let none = [removal(&good)];
    assert_eq!(changes(&[], &[good]), none);
}

#[test]
fn rules_of_others_are_never_touched() {
    let wanted = machines(&[80], &["0.0.0.0/0"]).rules;
    let ours = &wanted[0].description;
    let described = |description: &str, global| FirewallRule {
        description: description.to_owned(),
        global,
        ..there(9, &wanted[0])
    };
    let gone = |uid: &str| uid == "u2";
    for (description, global, touched) in [
        (ours.as_str(), true, false),
        ("", false, false),
        ("bowline", false, false),
        ("bowline:cccccccc:u1:front-tcp", false, false),
        ("bowline:dddddddd:u2:front-tcp:85222cef", false, false),
        ("bowline:cccccccc:u1:front-tcp:85222cef", false, false),
        ("bowline:cccccccc:u2:front-tcp:85222cef", false, true),
        ("my bowline:cccccccc:u2:front-tcp:85222cef", false, false),
        (
            "bowline:cccccccc:3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01:front-sctp:85222cef",
            false,
            true,
        ),
    ] {
        let rule = described(description, global);
        let changes = compare(&holder(), &[], std::slice::from_ref(&rule), gone);
        let removed: Vec<_> = touched.then(|| removal(&rule)).into_iter().collect();
        assert_eq!(changes, removed, "{description}");
    }
}

#[test]
fn a_rule_that_is_somebody_elses_by_now_is_left_alone() {
    let planned = machines(&[80], &["0.0.0.0/0"]).rules.remove(0);
    let is_ours = |change: fn(&mut FirewallRule)| {
        let mut rule = there(1, &planned);
        change(&mut rule);
        is_still(&[rule], Uuid::from_u128(1), &planned.description)
    };
    assert!(is_ours(|_| {}));
    // Its own text by now, but still ours.
    assert!(is_ours(
        |it| it.description = format!("bowline:cccccccc:{UID}:front-tcp:00000000")
    ));
    assert!(!is_ours(|it| it.description = "mine now".to_owned()));
    assert!(!is_ours(
        |it| it.description = format!("bowline:dddddddd:{UID}:front-tcp:85222cef")
    ));
    assert!(!is_ours(|it| it.global = true));
    assert!(!is_ours(|it| it.id = Uuid::from_u128(2)));
}
