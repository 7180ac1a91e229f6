use super::*;
use crate::config::Config;
use crate::testing::node;
use bowline_core::{PROVIDED_NODE_IP, Taint, UNINITIALIZED_TAINT};
use bowline_test_kit::rows;
use serde_json::{Value, json};

const I1: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c";

/// Instance I1 of the cases with these members on top.
fn instance(members: &Value) -> api::Instance {
    let mut whole = json!({
        "id": I1, "name": "Pool-a1b2c-xyz", "state": "running",
        "instance-type": {"id": "b6cd1ff5-3a2f-4e9d-a4d1-8988c1191fe8"},
    });
    for (key, value) in members.as_object().unwrap() {
        whole[key] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

/// A fresh node with that `--node-ip`; empty for none.
fn fresh(provided: &str) -> Node {
    let mut fresh = node("pool-a1b2c-xyz", "");
    fresh.taints = vec![Taint::new(UNINITIALIZED_TAINT, "true", "NoSchedule")];
    if !provided.is_empty() {
        let key = PROVIDED_NODE_IP.to_owned();
        fresh.annotations.insert(key, provided.to_owned());
    }
    fresh
}

fn shown(addresses: &[NodeAddress]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

#[test]
fn addresses_follow_networks_annotation_and_what_is_public() {
    let host = "Hostname:Pool-a1b2c-xyz";
    // What stands for no address is none; where nothing is known, it is the kubelet's own.
    for [members, provided, wanted] in rows(
        "4         |                  | E4 I4
         4 6       |                  | E4 I4 E6 I6
         6         |                  | E6 I6
         4 private | 10.0.0.5         | P4 E4
         private   | 10.0.0.5         | P4
         4         | 10.0.0.5         | E4 I4
         4 private |                  | E4 I4
         4 6 private | 10.0.0.5,fd00::5 | P4 P6 E4 E6
         zero empty  | 10.0.0.5         |
         zero      |                  | K4 K6
         private   |                  | K4 K6",
    ) {
        let members = members.split(' ').map(|member| match member {
            "4" => ("public-ip", json!("198.51.100.21")),
            "6" => ("ipv6-address", json!("2001:db8::21")),
            "zero" => ("public-ip", json!("0.0.0.0")),
            "empty" => ("ipv6-address", json!("")),
            _ => (
                "private-networks",
                json!([{"id": "0f0e0d0c-0b0a-4908-8706-050403020100"}]),
            ),
        });
        let members: Value = members
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        let mut node = fresh(provided);
        node.addresses = ["Hostname:k", "InternalIP:10.9.0.1", "InternalIP:fd09::1"]
            .iter()
            .filter_map(|text| text.split_once(':'))
            .map(|(kind, address)| NodeAddress::new(kind.into(), address))
            .collect();
        let described = describe(&instance(&members), &node, None, "z", Ok("t")).unwrap();
        let wanted = wanted.split_whitespace().map(|short| match short {
            "E4" => "ExternalIP:198.51.100.21",
            "I4" => "InternalIP:198.51.100.21",
            "E6" => "ExternalIP:2001:db8::21",
            "I6" => "InternalIP:2001:db8::21",
            "P4" => "InternalIP:10.0.0.5",
            "P6" => "InternalIP:fd00::5",
            "K4" => "InternalIP:10.9.0.1",
            _ => "InternalIP:fd09::1",
        });
        let wanted: Vec<&str> = std::iter::once(host).chain(wanted).collect();
        assert_eq!(shown(&described.addresses), wanted, "{members} {provided}");
    }
}

#[test]
fn every_state_says_whether_it_runs() {
    for (state, power) in [
        ("running", Power::On),
        ("stopping", Power::Off),
        ("stopped", Power::Off),
        ("destroying", Power::Off),
        ("starting", Power::Unclear),
        ("migrating", Power::Unclear),
        ("error", Power::Unclear),
        ("dreaming", Power::Unclear),
    ] {
        let one = instance(&json!({ "state": state }));
        let described = describe(&one, &fresh(""), None, "z", Ok("t")).unwrap();
        assert_eq!(described.power, power, "{state}");
    }
}

#[test]
fn what_is_missing_stops_only_the_initialisation() {
    let nameless = instance(&json!({ "name": null, "public-ip": "198.51.100.21" }));
    let lost = || Err(CloudError::new(CloudErrorKind::Unavailable, "no type"));
    let mut settled = fresh("");
    settled.taints.clear();
    for (kind, why) in [(lost(), "no type"), (Ok("t"), "without name")] {
        let error = describe(&nameless, &fresh(""), None, "z", kind).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let described = describe(&nameless, &settled, None, "z", lost()).unwrap();
    assert_eq!(
        (described.instance_type.as_str(), described.power),
        ("", Power::On)
    );
    let addresses = shown(&described.addresses);
    assert_eq!(addresses[0], "ExternalIP:198.51.100.21", "{addresses:?}");
}

#[test]
fn an_override_replaces_what_it_says_and_a_region_only_of_external_nodes() {
    let file = "
instances:
  overrides:
    - name: n1
      type: big
      region: elsewhere
      addresses: [{type: InternalIP, address: 10.1.1.1}]
    - {name: n2, type: big}
    - {name: edge-1, external: true}
";
    let environment = |name: &str| match name {
        "EXOSCALE_API_KEY" | "EXOSCALE_API_SECRET" => Some("x".to_owned()),
        _ => None,
    };
    let config = Config::read(environment, Some(file)).unwrap().instances;
    // It has no name, and needs none.
    let one = instance(&json!({ "name": null }));
    let node_override = config.overrides.by_name("n1");
    let described = describe(&one, &fresh(""), node_override, "ch-gva-2", Ok("big")).unwrap();
    assert_eq!(shown(&described.addresses), ["InternalIP:10.1.1.1"]);
    let location = (described.zone.as_str(), described.region.as_str());
    assert_eq!(location, ("ch-gva-2", "ch-gva-2"));
    let node_override = config.overrides.by_name("n2");
    let described = describe(
        &instance(&json!({})),
        &fresh(""),
        node_override,
        "z",
        Ok("big"),
    )
    .unwrap();
    assert_eq!(shown(&described.addresses), ["Hostname:Pool-a1b2c-xyz"]);

    let node_override = config.overrides.by_name("edge-1").unwrap();
    let mut node = fresh("");
    node.addresses = vec![NodeAddress::new(AddressKind::InternalIp, "10.9.0.33")];
    assert_eq!(shown(&external(node_override, &node).addresses), [""; 0]);
    node.annotations
        .insert(PROVIDED_NODE_IP.to_owned(), "10.9.0.33".to_owned());
    let described = external(node_override, &node);
    assert_eq!(shown(&described.addresses), ["InternalIP:10.9.0.33"]);
    assert_eq!(described.power, Power::Unclear);
}
