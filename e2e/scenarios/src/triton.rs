//! Triton in scenarios: the real provider, a simulated data center, and a role with exactly the rights that the
//! provider's specification names. There was no original that worked, so there is no other manifest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::metrics::Metrics;
use bowline_core::Cloud;
use bowline_simulator::World;
use bowline_simulator_kubernetes::fixture;
use bowline_simulator_triton::{DEFAULT_ACCOUNT, DEFAULT_PRIVATE_KEY, Fixture, Triton};
use bowline_triton::{PROVIDER, Sources, TritonMetrics};
use futures::FutureExt;
use serde_json::Value;
use tempfile::TempDir;

use crate::cloud_harness::{Called, Original, Served};
use crate::{TestCluster, is_real};

/// Where the data center listens in the pipes.
const HOST: &str = "cloudapi.sim";
/// The account of the roles.
const ACCOUNT: &str = "triton-cloud-controller-manager";
/// The flag of the lease; a bench has none without it.
const FLAGS: [&str; 1] = ["--leader-elect=true"];

/// A test cluster whose managers work with a simulated Triton.
pub type CloudHarness = crate::cloud_harness::CloudHarness<Triton>;

/// The objects of the role.
pub fn role() -> Vec<Value> {
    fixture::parse("triton.yaml", include_str!("triton.yaml")).unwrap()
}

/// The account and the roles of the manifest that we ship, without what runs there.
pub fn shipped() -> Vec<Value> {
    let kinds = [
        "Role",
        "ClusterRole",
        "RoleBinding",
        "ClusterRoleBinding",
        "ServiceAccount",
    ];
    let is_meant = |document: &&str| {
        let kind = document.lines().find_map(|it| it.strip_prefix("kind: "));
        kinds.contains(&kind.unwrap_or_default())
    };
    let text = include_str!("../../../deploy/triton.yaml");
    let documents: Vec<&str> = text.split("\n---\n").filter(is_meant).collect();
    fixture::parse("deploy/triton.yaml", &documents.join("\n---\n")).unwrap()
}

impl CloudHarness {
    /// A data center with what the scene describes, and a manager with a cloud config file of these lines and with
    /// these arguments; it is not started yet.
    pub async fn set_up(seed: u64, fixture: Fixture, file: &str, arguments: &[&str]) -> Self {
        Self::set_up_as(&role(), seed, fixture, file, arguments).await
    }

    /// The same with the rights of that manifest.
    pub async fn set_up_as(
        manifest: &[Value],
        seed: u64,
        fixture: Fixture,
        file: &str,
        arguments: &[&str],
    ) -> Self {
        let original = Original {
            command: ACCOUNT,
            provider: PROVIDER,
            account: ACCOUNT,
            manifest,
        };
        let cluster_name = cluster_name(arguments);
        let open = |bench: &TestCluster| serve(bench, None, fixture, file, &cluster_name);
        let flags = [&FLAGS, arguments].concat();
        Self::open(seed, &flags, &original, open).await
    }
}

/// A data center with what the scene describes, for managers of that cluster with a cloud config file of these lines; of
/// that name where there are several.
pub fn serve(
    bench: &TestCluster,
    name: Option<&str>,
    fixture: Fixture,
    file: &str,
    cluster_name: &str,
) -> Served<Triton> {
    let called = Called::only(name, PROVIDER, HOST);
    let cloud = Triton::from_fixture(&bench.world, fixture).unwrap();
    cloud.set_throttle(None);
    if is_real() {
        hasten(&cloud);
    }
    let server = called.serve(&bench.world, cloud.clone());
    let config = ConfigFile::new(file, &called.host());
    let cluster_name = cluster_name.to_owned();
    let (name, label) = (called.name(), called.label());
    let factory = move |world: World, metrics: Arc<Metrics>| {
        let metrics = metrics.register_for(label.as_deref(), TritonMetrics::register);
        let seams = Called::seams(&name, &world, metrics.calls.clone());
        let sources = config.sources(&cluster_name);
        let made = bowline_triton::build(sources, &seams, &metrics);
        let made = made.map(|cloud| cloud as Arc<dyn Cloud>);
        async { made.map_err(|error| error.to_string()) }.boxed_local()
    };
    Served {
        cloud,
        server,
        factory: Box::new(factory),
    }
}

/// What a data center does in seconds it does at once, where the seconds are real.
fn hasten(cloud: &Triton) {
    cloud.set_timings(|timings| {
        for time in [
            &mut timings.provision,
            &mut timings.stop,
            &mut timings.start,
            &mut timings.reboot,
            &mut timings.delete,
            &mut timings.job,
        ] {
            *time = Duration::from_millis(200);
        }
        timings.commit = Duration::from_secs(1);
        timings.appliance = Duration::from_secs(1);
    });
}

/// The value of `--cluster-name`.
fn cluster_name(arguments: &[&str]) -> String {
    let mut names = arguments.iter();
    let name = names.find_map(|it| it.strip_prefix("--cluster-name="));
    name.unwrap_or("kubernetes").to_owned()
}

/// A cloud config file, for as long as somebody may read it.
struct ConfigFile {
    folder: TempDir,
    endpoint: String,
}

impl ConfigFile {
    fn new(text: &str, host: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cloud.conf"), text).unwrap();
        let endpoint = format!("http://{host}");
        Self { folder, endpoint }
    }

    fn sources(&self, cluster_name: &str) -> Sources {
        let variables = BTreeMap::from([
            ("SDC_ENDPOINT", self.endpoint.clone()),
            ("SDC_ACCOUNT", DEFAULT_ACCOUNT.to_owned()),
            ("SDC_PRIVATE_KEY", DEFAULT_PRIVATE_KEY.to_owned()),
        ]);
        Sources {
            flags: BTreeMap::new(),
            environment: Arc::new(move |name| variables.get(name).cloned()),
            file: Some(self.folder.path().join("cloud.conf")),
            text: None,
            secret: None,
            cluster_name: cluster_name.to_owned(),
        }
    }
}

/// A section of the cloud config file: its name, and keys with their values.
pub fn section(name: &str, lines: &[(&str, &str)]) -> String {
    let mut text = format!("[{name}]\n");
    for (key, value) in lines {
        let _ = writeln!(text, "{key} = {value}");
    }
    text
}
