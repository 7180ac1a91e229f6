use serde_json::{Value, json};

use super::*;

const WEB: &str = "aa0e0d0c-0b0a-4908-8706-050403020101";

fn clusters(list: &Value) -> Listing<SksCluster> {
    let read = list.as_array().unwrap().iter();
    let items = read.map(|it| serde_json::from_value(it.clone()).unwrap());
    Listing {
        items: items.collect(),
        bad: Vec::new(),
    }
}

#[test]
fn a_nodepool_is_found_by_its_name_in_any_case() {
    let id = "10000000-0000-4000-8000-000000000001";
    let twin = "10000000-0000-4000-8000-000000000002";
    let all = clusters(&json!([
        {"id": id, "name": "prod", "nodepools": [
            {"name": "web"},
            {"name": "web", "instance-pool": {"id": WEB}},
            {"name": "db", "instance-pool": {"id": id}}]},
        {"id": twin, "name": "twin"},
        {"id": "10000000-0000-4000-8000-000000000003", "name": "twin"},
    ]));
    for (cluster, nodepool, wanted) in [
        ("prod", "web", Ok(WEB)),
        ("prod", "WEB", Ok(WEB)),
        (id, "Web", Ok(WEB)),
        ("prod", "we", Err("SKS node pool with name we not found")),
        ("Prod", "web", Err("SKS cluster with name Prod not found")),
        ("twin", "web", Err("several SKS clusters")),
        (twin, "web", Err("SKS node pool with name web not found")),
    ] {
        let found = of_nodepool(&all, cluster, nodepool).unwrap();
        match (found, wanted) {
            (Ok(pool), Ok(wanted)) => assert_eq!(pool.to_string(), wanted),
            (Err(fault), Err(text)) => assert!(fault.message.contains(text), "{}", fault.message),
            (found, wanted) => panic!("{cluster} {nodepool}: {found:?}, not {wanted:?}"),
        }
    }
}

#[test]
fn what_cannot_be_read_may_be_what_is_looked_for() {
    let bad = |object: &str| bowline_http::BadItem {
        position: 0,
        reason: "no".to_owned(),
        object: Some(object.to_owned()),
    };
    let mut all = clusters(&json!([]));
    all.bad.push(bad("prod"));
    assert!(of_nodepool(&all, "prod", "web").is_err());
    let list = |object: &str| Listing::<Instance> {
        items: Vec::new(),
        bad: vec![bad(object)],
    };
    let ids = BTreeSet::from([WEB.parse().unwrap()]);
    assert!(listed_pools(&list(WEB), &ids).is_err());
    assert_eq!(
        listed_pools(&list("another"), &ids).unwrap(),
        BTreeSet::new()
    );
}
