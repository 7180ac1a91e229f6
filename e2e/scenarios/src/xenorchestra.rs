//! Xen Orchestra on a bench: the real provider, a simulated server, and the role of the original's chart.

use std::sync::Arc;

use bowline_controllers::metrics::Metrics;
use bowline_core::{Cloud, CloudName};
use bowline_http::Connector;
use bowline_simulator::World;
use bowline_simulator::kubernetes::auth::originals;
use bowline_simulator::serve::Server;
use bowline_simulator::xenorchestra::{DEFAULT_TOKEN, Scene, XenOrchestra};
use bowline_xenorchestra::{BuildError, Config, PROVIDER, Surroundings};
use futures::FutureExt;

use crate::site::Original;
use crate::{Bench, Sharing};

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
const SERVER: &str = "xo.sim:80";
/// Who the manager is: the service account of the original's chart.
const ACCOUNT: &str = "xenorchestra-cloud-controller-manager";

/// A bench whose managers work with a simulated Xen Orchestra.
pub type Site = crate::site::Site<XenOrchestra>;

impl Site {
    /// A server with what the scene describes, and the manager with the command line of the original's
    /// chart and more, and with a config file of url, token and these further lines; it is not started
    /// yet.
    pub async fn set_up(seed: u64, scene: Scene, settings: &str, arguments: &[&str]) -> Self {
        let original = Original {
            command: ACCOUNT,
            provider: PROVIDER,
            account: ACCOUNT,
            manifest: &originals::xenorchestra(),
        };
        let open = |bench: &Bench| {
            let cloud = XenOrchestra::from_fixture(&bench.world, scene).unwrap();
            let server = Server::builder(&bench.world, cloud.clone()).pipe(SERVER);
            (cloud, server)
        };
        let file = format!("url: http://xo.sim\ntoken: {DEFAULT_TOKEN}\n{settings}");
        let config = Config::of_file(&file).unwrap();
        let making = move |world: World, metrics: Arc<Metrics>| {
            let made = provider(&world, &config, &metrics).map_err(|error| error.to_string());
            async { made }.boxed_local()
        };
        let flags = [&FLAGS, arguments].concat();
        let sharing = if flags.contains(&ACCOUNTS) {
            Sharing::Alone
        } else {
            Sharing::Shared
        };
        Self::open_on(sharing, seed, &flags, &original, open, Box::new(making)).await
    }
}

fn provider(
    world: &World,
    config: &Config,
    metrics: &Arc<Metrics>,
) -> Result<Arc<dyn Cloud>, BuildError> {
    let metrics = metrics.register(bowline_xenorchestra::register_metrics);
    let surroundings = Surroundings {
        name: CloudName::parse(PROVIDER).unwrap(),
        connector: Connector::simulated(world.pipes.clone()),
        clock: world.clock.clone(),
        random: world.random.fork(),
        metrics: Some(metrics.calls),
    };
    bowline_xenorchestra::build(config, &surroundings, &metrics.gauges)
}
