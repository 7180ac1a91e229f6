//! The provider against a server that is not ours: the official runtime with the official types,
//! which serves what `e2e/talos/tour.yaml` describes. `e2e/talos/run` starts it, and our simulator
//! with the same machines.

use bowline_test_kit::says;
use std::sync::Arc;

use bowline_core::{CloudName, Lookup, NodeAddress, error_chain};
use bowline_http::{Clock, Connector, ProxyRules, Random, Tls};

use crate::testing::cluster::{found, id, look};
use crate::testing::node;
use crate::{Environment, Need, Seams, Setup, build};

/// Rules that need the firmware's facts.
const RULES: &str = r#"
transformations:
- name: machines
  labels:
    example.com/serial: '{{ getValue .SerialNumber "i" }}'
    example.com/team: '{{ .Tags.team }}'
"#;

fn texts(addresses: &[NodeAddress]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

#[tokio::test]
#[ignore = "needs a server: e2e/talos/run starts it and names its talosconfig in BOWLINE_TALOS_PEER"]
async fn an_official_server_answers_our_client() {
    let talosconfig = std::env::var("BOWLINE_TALOS_PEER").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("ccm-config.yaml");
    std::fs::write(&rules, RULES).unwrap();
    let setup = Setup {
        environment: Environment {
            endpoints: Vec::new(),
            candidates: vec![talosconfig.into()],
        },
        config_file: rules.to_str().unwrap().to_owned(),
        config_text: None,
        need: Need::Machines,
    };
    let clock = Clock::system();
    let seams = Seams {
        name: CloudName::parse("talos").unwrap(),
        connector: Connector::real(Tls::new().build().unwrap(), ProxyRules::default()),
        clock: clock.clone(),
        random: Random::seeded(7),
        metrics: None,
    };
    let cloud = build(setup, seams, None).unwrap();
    cloud.instances().unwrap().canary().await.unwrap();

    let mut web = node("web-1", "10.0.0.5,2001:db8:4::10");
    web.created = clock.now();
    let instance = found(&cloud, &Arc::new(web.clone())).await;
    assert_eq!(id(&instance), "hcloud://4711");
    let facts = [&instance.region, &instance.zone, &instance.instance_type];
    assert_eq!(facts, ["fsn1", "fsn1-dc14", "cax21"]);
    assert_eq!(
        texts(&instance.addresses),
        [
            "InternalIP:10.0.0.5",
            "InternalIP:2001:db8:4::10",
            "ExternalIP:203.0.113.10",
            "Hostname:web-1",
        ]
    );
    for (key, value) in [
        ("example.com/serial", "1234"),
        ("example.com/team", "core"),
        ("node.cloudprovider.kubernetes.io/platform", "hcloud"),
        ("node.cloudprovider.kubernetes.io/lifecycle", "spot"),
    ] {
        assert_eq!(instance.marks.labels[key], value, "{key}");
    }

    // It has no firmware facts: the server has no such resource.
    let mut bare = node("bare-1", "10.0.0.6");
    bare.created = clock.now();
    let instance = found(&cloud, &Arc::new(bare)).await;
    assert_eq!(id(&instance), "talos://metal/10.0.0.6");
    assert_eq!(instance.marks.labels["example.com/serial"], "");

    let networks = cloud.networks().unwrap();
    let ranges = networks.cluster_ranges().await.unwrap();
    let pods: Vec<String> = ranges.pods.iter().map(ToString::to_string).collect();
    assert_eq!(pods, ["10.32.0.0/12", "fd00:10:32::/64"]);
    let services: Vec<String> = ranges.services.iter().map(ToString::to_string).collect();
    assert_eq!(services, ["10.200.0.0/22", "fd40:10:200::/108"]);
    let addresses = networks.machine_addresses(&web).await.unwrap();
    let own: Vec<String> = addresses
        .iter()
        .map(|it| format!("{} {}", it.address, it.permanent))
        .collect();
    for known in ["2001:db8:4::10/64 true", "203.0.113.10/32 false"] {
        assert!(own.iter().any(|it| it == known), "{own:?}");
    }

    let mut nobody = node("nobody", "10.0.0.99");
    nobody.created = clock.now();
    let Lookup::CannotTell(error) = look(&cloud, &Arc::new(nobody)).await else {
        panic!("a machine that is not there was found");
    };
    let text = error_chain(&error);
    says(&text, "error getting metadata from the node nobody");
}
