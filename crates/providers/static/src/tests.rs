use std::path::PathBuf;
use std::time::Duration;

use bowline_core::{AddressKind, NodeAddress, Power};
use bowline_http::{Clock, Connector, Pipes, Random};
use bowline_provider::{BuildError, CloudRegistry, NoSecrets, ProviderContext, Severity};
use serde_json::json;

use super::*;

const RACK: &str = "
machines:
- name: rack-1
  addresses: {InternalIP: [10.0.0.5, 'fd00::5'], Hostname: [rack-1]}
  type: r640
  zone: row-a
  region: geneva
  labels: {example.com/disk: nvme}
- {name: rack-2, providerID: metal://serial-2, state: stopped}
- {name: rack-3, gone: true}
";

struct Harness {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Harness {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machines.yaml");
        std::fs::write(&path, text).unwrap();
        Self {
            _folder: folder,
            path,
        }
    }

    async fn build(&self) -> Result<Arc<dyn Cloud>, BuildError> {
        let context = ProviderContext {
            name: CloudName::parse("rack").unwrap(),
            input: (KIND.input)(&json!({"file": self.path})),
            connector: Connector::simulated(Pipes::default()),
            clock: Clock::system(),
            random: Random::seeded(1),
            metrics: CloudRegistry::new(None),
            secrets: Arc::new(NoSecrets),
            cluster_name: "kubernetes".into(),
            needs_machines: true,
            waits_for_secrets: false,
        };
        (KIND.build)(&context).await
    }

    /// Writes the file and waits until it was looked at.
    async fn write(&self, text: &str) {
        std::fs::write(&self.path, text).unwrap();
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
}

fn node(name: &str, provider_id: &str) -> Node {
    Node {
        provider_id: (!provider_id.is_empty()).then(|| provider_id.to_owned()),
        name: name.to_owned(),
        ..Node::default()
    }
}

async fn ask(cloud: &Arc<dyn Cloud>, name: &str, provider_id: &str) -> Lookup {
    let nodes = [Arc::new(node(name, provider_id))];
    let mut answers = cloud.instances().unwrap().lookup(&nodes).await;
    answers.pop().unwrap()
}

fn id(answer: &Lookup) -> String {
    match answer {
        Lookup::Found(instance) => instance.provider_id.as_ref().unwrap().to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_found_by_its_provider_id_else_by_its_name() {
    let harness = Harness::new(RACK);
    let cloud = harness.build().await.unwrap();
    let Lookup::Found(rack) = ask(&cloud, "rack-1", "").await else {
        panic!("it is found by its name");
    };
    let address = |kind, value| NodeAddress::new(kind, value);
    assert_eq!(
        rack.addresses,
        [
            address(AddressKind::Hostname, "rack-1"),
            address(AddressKind::InternalIp, "10.0.0.5"),
            address(AddressKind::InternalIp, "fd00::5"),
        ]
    );
    assert_eq!(rack.provider_id.unwrap().to_string(), "static://rack-1");
    assert_eq!(
        (rack.instance_type.as_str(), rack.power),
        ("r640", Power::On)
    );
    assert_eq!(
        (rack.zone.as_str(), rack.region.as_str()),
        ("row-a", "geneva")
    );
    assert_eq!(rack.extra_labels["example.com/disk"], "nvme");

    // The ID counts, whatever the Node is called.
    let renamed = ask(&cloud, "other", "metal://serial-2").await;
    assert_eq!(id(&renamed), "metal://serial-2");
    let Lookup::Found(stopped) = renamed else {
        panic!("it is found by its ID");
    };
    assert_eq!(stopped.power, Power::Off);
    assert!(matches!(
        ask(&cloud, "elsewhere", "").await,
        Lookup::NotMine
    ));
}

#[tokio::test(start_paused = true)]
async fn only_an_entry_that_says_so_proves_that_a_machine_is_gone() {
    let harness = Harness::new(RACK);
    let cloud = harness.build().await.unwrap();
    let Lookup::Gone(evidence) = ask(&cloud, "rack-3", "static://rack-3").await else {
        panic!("its entry says so");
    };
    assert!(
        evidence
            .text
            .ends_with("machines.yaml says gone: true about static://rack-3")
    );
    assert!(matches!(ask(&cloud, "rack-3", "").await, Lookup::NotMine));
    harness.write("machines: []").await;
    let Lookup::CannotTell(why) = ask(&cloud, "rack-3", "static://rack-3").await else {
        panic!("an entry that vanished proves nothing");
    };
    assert!(
        why.to_string()
            .contains("has no entry with the provider ID static://rack-3")
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_is_claimed_by_scheme_or_by_an_id_of_the_file() {
    let harness = Harness::new(RACK);
    let cloud = harness.build().await.unwrap();
    for (provider_id, claim) in [
        ("static://rack-1", Claim::Mine),
        ("static://not-listed", Claim::Mine),
        ("metal://serial-2", Claim::Mine),
        ("metal://serial-9", Claim::Foreign),
        ("", Claim::Foreign),
    ] {
        assert_eq!(
            cloud.match_node(&node("n", provider_id)).claim,
            claim,
            "{provider_id}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_is_read_again_and_a_wrong_one_changes_nothing() {
    let harness = Harness::new(RACK);
    let cloud = harness.build().await.unwrap();
    let canary = || async { cloud.instances().unwrap().canary().await };
    harness
        .write("machines: [{name: rack-1, zone: row-b}]")
        .await;
    let Lookup::Found(moved) = ask(&cloud, "rack-1", "static://rack-1").await else {
        panic!("it is still there");
    };
    assert_eq!(moved.zone, "row-b");
    assert!(canary().await.is_ok());

    harness
        .write("machines: [{name: rack-1, zone: row-c, gone: perhaps}]")
        .await;
    let Lookup::Found(kept) = ask(&cloud, "rack-1", "static://rack-1").await else {
        panic!("the last good file stays");
    };
    assert_eq!(kept.zone, "row-b");
    let error = canary().await.unwrap_err().to_string();
    assert!(
        error.contains("machines.yaml") && error.contains("gone"),
        "{error}"
    );

    harness
        .write("machines: [{name: rack-1, zone: row-c}]")
        .await;
    assert!(canary().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_wrong_file_is_reported_with_entry_field_value_and_what_is_allowed() {
    for (text, wanted) in [
        (
            "machines: [{name: a}, {}]",
            "machines[1].name: \"\": each machine needs a name",
        ),
        (
            "machines: [{name: a}, {name: a}]",
            "machines[1].name: \"a\": each machine needs a name",
        ),
        (
            "machines: [{name: a, providerID: a b}]",
            "machines[0].providerID: \"a b\": each machine needs an ID of its own",
        ),
        (
            "machines: [{name: a}, {name: b, providerID: static://a}]",
            "machines[1].providerID: \"static://a\": each machine needs an ID of its own",
        ),
        (
            "machines: [{name: a, addresses: {internal: [10.0.0.1]}}]",
            "machines[0].addresses: \"internal\": allowed are Hostname, InternalIP",
        ),
        ("machines: [{name: a, disk: 1}]", "disk"),
        ("machines: [{name: a, state: off}]", "state"),
    ] {
        let harness = Harness::new(text);
        let Err(error) = harness.build().await else {
            panic!("{text} was accepted");
        };
        let error = error.to_string();
        assert!(error.contains(wanted), "{text}: {error}");
        let [finding] = (KIND.check)(&(KIND.input)(&json!({"file": harness.path})))
            .try_into()
            .unwrap();
        let bowline_provider::Finding { text, severity } = finding;
        assert!(text.contains(wanted) && severity == Severity::Odd, "{text}");
    }
    let [missing] = (KIND.check)(&(KIND.input)(&json!({}))).try_into().unwrap();
    let bowline_provider::Finding { text, severity } = missing;
    assert!(
        text.contains("settings.file") && severity == Severity::Wrong,
        "{text}"
    );
}
