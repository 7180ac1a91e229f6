use bowline_core::Ingress;
use bowline_test_kit::rows;
use serde_json::{Value, json};

use super::super::examples::{port, service};
use super::*;

#[test]
fn proof_case_21_a_mark_is_ours_by_the_uid_of_the_cluster_alone() {
    for [cluster, uid, name_tag, uid_tag, owner] in rows(
        "named    | a | prod-1     | a | ours
         named    | a | prod-2     | a | ours
         nameless | a |            | a | ours
         named    | a | prod-1     | b | foreign
         named    | a | prod-1     |   | has the name of this cluster, but not its uid
         named    |   | prod-1     | a | has the name of this cluster, but not its uid
         named    |   | prod-2     |   | foreign
         named    |   | kubernetes |   | has the name that every cluster has by default
         named    |   |            |   | names no cluster
         several  |   | prod-2     |   | has one of several names that nodes of this cluster give it
         several  |   | prod-3     |   | foreign
         nameless |   | prod-1     |   | foreign
         nameless |   | kubernetes |   | has the name that every cluster has by default
         nameless |   |            |   | names no cluster",
    ) {
        let cluster = match cluster {
            "named" => Cluster::Named("prod-1".into()),
            "several" => Cluster::Ambiguous(["prod-1".to_owned(), "prod-2".to_owned()].into()),
            _ => Cluster::Nameless,
        };
        let mut tags = BTreeMap::new();
        for (key, value) in [(CLUSTER_TAG, name_tag), (CLUSTER_UID_MARK, uid_tag)] {
            if !value.is_empty() {
                tags.insert(key.to_owned(), value.to_owned());
            }
        }
        let uid = Some(uid).filter(|uid| !uid.is_empty());
        let owner = match owner {
            "ours" => ClusterMatch::Ours,
            "foreign" => ClusterMatch::Foreign,
            why => ClusterMatch::Unclear(why),
        };
        let verdict = cluster.cluster_match(&tags, uid);
        assert_eq!(verdict, owner, "{cluster:?} {uid:?} {tags:?}");
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn id(number: u8) -> Uuid {
    Uuid::from_u128(u128::from(number))
}

/// The load balancer `edge` as the original makes it for the Service, with these members.
fn edge(members: &[(&str, u16)]) -> Seen {
    let member = |(at, (address, port)): (usize, &(&str, u16))| {
        read(
            json!({"uuid": Uuid::from_u128(100 + at as u128), "name": format!("{address}:{port}"),
                    "address": address, "protocol_port": port}),
        )
    };
    Seen {
        balancer: read(json!({"uuid": id(1), "name": "edge",
                              "vip_addresses": [{"address": "203.0.113.9"}]})),
        pools: vec![SeenPool {
            pool: read(json!({"uuid": id(2), "name": "tcp/http"})),
            members: members.iter().enumerate().map(member).collect(),
            listeners: vec![read(
                json!({"uuid": id(3), "name": "tcp/80", "protocol": "tcp",
                                        "protocol_port": 80}),
            )],
            monitors: Vec::new(),
        }],
        loose: Vec::new(),
    }
}

fn shown(mut service: Service) -> Service {
    service.ingress = vec![Ingress {
        ip: Some("203.0.113.9".into()),
        ..Ingress::default()
    }];
    service
}

const NODE: &str = "10.0.0.11";

fn proven(service: &Service, there: &Seen, all: &[Arc<Service>]) -> bool {
    let nodes = [NODE.parse().unwrap()].into();
    is_proven(service, there, &nodes, all)
}

#[test]
fn proof_case_17_what_is_on_a_load_balancer_proves_whose_it_is() {
    let strange = "10.9.9.9";
    let rename: fn(&mut Seen) = |it| it.pools[0].pool.name = "api".into();
    let rename_member: fn(&mut Seen) = |it| it.pools[0].members[0].name = "cp-1".into();
    let rename_listener: fn(&mut Seen) = |it| it.pools[0].listeners[0].name = "kube-api".into();
    let loose: fn(&mut Seen) = |it| {
        let listener =
            json!({"uuid": id(9), "name": "mine", "protocol": "tcp", "protocol_port": 6443});
        it.loose.push(read(listener));
    };
    let as_is: fn(&mut Seen) = |_| {};
    for (members, change, by_targets, by_status) in [
        (&[(NODE, 31080)][..], as_is, true, true),
        (&[(NODE, 31080), (strange, 31080)], as_is, true, true),
        // Case 18: the port is this Service's, the machine is not this cluster's.
        (&[(strange, 31080)], as_is, false, true),
        (&[(NODE, 31080), (NODE, 6443)], as_is, false, false),
        (&[], as_is, false, false),
        (&[(NODE, 31080)], rename, false, false),
        (&[(NODE, 31080)], rename_member, false, false),
        (&[(NODE, 31080)], rename_listener, false, false),
        (&[(NODE, 31080)], loose, false, false),
    ] {
        let mut there = edge(members);
        change(&mut there);
        assert_eq!(proven(&service(), &there, &[]), by_targets, "{there:?}");
        let service = shown(service());
        assert_eq!(proven(&service, &there, &[]), by_status, "{there:?}, shown");
    }
}

#[test]
fn proof_case_17_a_service_of_another_type_by_now_is_proven_by_targets_alone() {
    let mut changed = service();
    changed.is_load_balancer = false;
    changed.ports = vec![port("http", "TCP", 80, 0)];
    let there = edge(&[(NODE, 31080)]);
    assert!(proven(&changed, &there, &[]));
    // Somebody else's of this cluster, whoever puts the finalizer on a Service of theirs.
    let mut other = service();
    other.uid = "another".into();
    assert!(!proven(&changed, &there, &[Arc::new(other)]));
    assert!(!proven(
        &changed,
        &edge(&[(NODE, 31080), ("10.9.9.9", 31080)]),
        &[]
    ));
    changed.ports[0].port = 8080;
    assert!(!proven(&changed, &there, &[]));
    changed.ports[0].port = 80;
    changed.is_load_balancer = true;
    assert!(!proven(&changed, &there, &[]));
}

#[test]
fn proof_case_24_only_whole_uids_make_a_default_name() {
    let uid = service().uid;
    let name = |text: &str| format!("k8s-service-{text}");
    assert_eq!(uid_in_name(&name(&uid)), Some(uid.as_str()));
    assert_eq!(uid_in_name(&name("edge")), None);
    assert_eq!(uid_in_name("edge"), None);
}
