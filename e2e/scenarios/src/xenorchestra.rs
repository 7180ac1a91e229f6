//! Xen Orchestra in scenarios: the real provider, a simulated server, and the role of the original's chart.

use std::sync::Arc;

use bowline_controllers::metrics::Metrics;
use bowline_simulator::World;
use bowline_simulator_xenorchestra::{DEFAULT_TOKEN, Fixture, XenOrchestra};
use bowline_xenorchestra::{Config, PROVIDER};
use futures::FutureExt;

use crate::cloud_harness::{Called, Original, Served};
use crate::{Sharing, TestCluster};

/// The command line that the original's chart makes for several replicas, but for what a bench says by
/// itself (ports, the lease's name) and for [`ACCOUNTS`].
pub const FLAGS: [&str; 4] = [
    "--leader-elect=true",
    "--v=2",
    "--controllers=cloud-node,cloud-node-lifecycle,cloud-node-label-sync",
    "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
];
/// The chart's flag for accounts of controllers. Their names are nobody's own: a scenario with it has an
/// API server to itself.
pub const ACCOUNTS: &str = "--use-service-account-credentials";
/// Where the server listens in the pipes.
const HOST: &str = "xo.sim";
/// Who the manager is: the service account of the original's chart.
const ACCOUNT: &str = "xenorchestra-cloud-controller-manager";

/// A test cluster whose managers work with a simulated Xen Orchestra.
pub type CloudHarness = crate::cloud_harness::CloudHarness<XenOrchestra>;

impl CloudHarness {
    /// A server with what the scene describes, and the manager with the command line of the original's
    /// chart and more, and with a config file of url, token and these further lines; it is not started
    /// yet.
    pub async fn set_up(seed: u64, fixture: Fixture, settings: &str, arguments: &[&str]) -> Self {
        let original = Original {
            command: ACCOUNT,
            provider: PROVIDER,
            account: ACCOUNT,
            manifest: &bowline_simulator_xenorchestra::manifest(),
        };
        let open = |bench: &TestCluster| serve(bench, None, fixture, settings);
        let flags = [&FLAGS, arguments].concat();
        let sharing = if flags.contains(&ACCOUNTS) {
            Sharing::Alone
        } else {
            Sharing::Shared
        };
        Self::open_on(sharing, seed, &flags, &original, open).await
    }
}

/// A server with what the scene describes, for managers with a config file of url, token and these further lines; of
/// that name where there are several.
pub fn serve(
    bench: &TestCluster,
    name: Option<&str>,
    fixture: Fixture,
    settings: &str,
) -> Served<XenOrchestra> {
    let called = Called::only(name, PROVIDER, HOST);
    let cloud = XenOrchestra::from_fixture(&bench.world, fixture).unwrap();
    let server = called.serve(&bench.world, cloud.clone());
    let host = called.host();
    let file = format!("url: http://{host}\ntoken: {DEFAULT_TOKEN}\n{settings}");
    let config = Config::of_file(&file).unwrap();
    let (name, label) = (called.name(), called.label());
    let factory = move |world: World, metrics: Arc<Metrics>| {
        let metrics =
            metrics.register_for(label.as_deref(), bowline_xenorchestra::register_metrics);
        let seams = Called::seams(&name, &world, Some(metrics.calls));
        let made = bowline_xenorchestra::build(&config, &seams, &metrics.gauges);
        async { made.map_err(|error| error.to_string()) }.boxed_local()
    };
    Served {
        cloud,
        server,
        factory: Box::new(factory),
    }
}
