//! Exoscale on a bench: the real provider, a simulated cloud, and the role of the original's manifest.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bowline_controllers::metrics::Metrics;
use bowline_core::{Cloud, CloudName};
use bowline_exoscale::{BuildError, Config, PROVIDER, Surroundings};
use bowline_http::Connector;
use bowline_simulator::World;
use bowline_simulator::exoscale::{DEFAULT_KEY, DEFAULT_SECRET, DEFAULT_ZONE, Exoscale, Scene};
use bowline_simulator::kubernetes::auth::originals;
use bowline_simulator::serve::Server;
use futures::{FutureExt, TryFutureExt};

use crate::Bench;
use crate::site::Original;

/// What annotations of Services begin with.
pub const PREFIX: &str = "service.beta.kubernetes.io/exoscale-loadbalancer-";
/// The original's command line; the first is the default of managers, though not of a bench's.
pub const FLAGS: [&str; 2] = ["--leader-elect=true", "--allow-untagged-cloud"];
/// Where the cloud listens in the pipes.
const CLOUD: &str = "exoscale.sim:80";
/// Who the manager is: the service account of the original's manifest.
const ACCOUNT: &str = "cloud-controller-manager";

/// A bench whose managers work with a simulated Exoscale.
pub type Site = crate::site::Site<Exoscale>;

impl Site {
    /// A cloud with what the fixture describes, and the manager with the command line of the
    /// original's manifest and its environment, and with more of both, and that cloud config file, in
    /// which `@` stands for what the names of nodes begin with on the server; it is not started yet.
    pub async fn set_up(
        seed: u64,
        fixture: &str,
        file: &str,
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let original = Original {
            command: "exoscale-cloud-controller-manager",
            provider: PROVIDER,
            account: ACCOUNT,
            manifest: &originals::exoscale(),
        };
        let scene: Scene = bowline_simulator::fixture::parse("scene", fixture).unwrap();
        let config = Rc::new(OnceCell::new());
        let read = Rc::clone(&config);
        let open = |bench: &Bench| {
            let file = file.replace('@', &bench.cluster.names().own(""));
            config.set(settings(&file, environment)).unwrap();
            let cloud = Exoscale::from_fixture(&bench.world, scene).unwrap();
            let server = Server::builder(&bench.world, cloud.clone()).pipe(CLOUD);
            (cloud, server)
        };
        let making = move |world: World, metrics: Arc<Metrics>| {
            let config = Rc::clone(&read);
            let made = async move { provider(&world, config.get().unwrap(), &metrics).await };
            made.map_err(|error| error.to_string()).boxed_local()
        };
        let flags = [&FLAGS, arguments].concat();
        Self::open(seed, &flags, &original, open, Box::new(making)).await
    }
}

fn settings(file: &str, environment: &[(&str, &str)]) -> Config {
    let mut variables = BTreeMap::from([
        ("EXOSCALE_API_ENDPOINT", "http://exoscale.sim/v2"),
        ("EXOSCALE_API_ZONE", DEFAULT_ZONE),
        ("EXOSCALE_API_KEY", DEFAULT_KEY),
        ("EXOSCALE_API_SECRET", DEFAULT_SECRET),
    ]);
    variables.extend(environment.iter().copied());
    let variable = |name: &str| variables.get(name).map(ToString::to_string);
    Config::read(variable, Some(file)).unwrap()
}

async fn provider(
    world: &World,
    config: &Config,
    metrics: &Arc<Metrics>,
) -> Result<Arc<dyn Cloud>, BuildError> {
    let surroundings = Surroundings {
        name: CloudName::parse(PROVIDER).unwrap(),
        connector: Connector::simulated(world.pipes.clone()),
        clock: world.clock.clone(),
        random: world.random.fork(),
        metrics: Some(metrics.register(bowline_exoscale::register_metrics)),
    };
    bowline_exoscale::build(config, surroundings).await
}
