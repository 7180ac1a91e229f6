//! Exoscale on a bench: the real provider, a simulated cloud, and the role of the original's
//! manifest.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bowline_controllers::metrics::Metrics;
use bowline_core::{Cloud, CloudName};
use bowline_exoscale::{Config, PROVIDER, Surroundings};
use bowline_http::Connector;
use bowline_simulator::World;
use bowline_simulator::exoscale::{DEFAULT_KEY, DEFAULT_SECRET, DEFAULT_ZONE, Exoscale, Scene};
use bowline_simulator::kubernetes::auth::originals;
use bowline_simulator::serve::Server;
use futures::future::BoxFuture;

use crate::{Bench, Granted, Setup};

/// The original's command line; the first is the default of managers, though not of a bench's.
pub const FLAGS: [&str; 2] = ["--leader-elect=true", "--allow-untagged-cloud"];
/// Where the cloud listens in the pipes.
const CLOUD: &str = "exoscale.sim:80";
/// Who the manager is: the service account of the original's manifest.
const ACCOUNT: &str = "cloud-controller-manager";

/// How a site differs from that of the original's manifest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Differences<'a> {
    /// Variables on top of endpoint, zone and key.
    pub environment: &'a [(&'a str, &'a str)],
    /// The text of the cloud config; `@` stands for what the names of nodes begin with on the server.
    pub config: &'a str,
    /// Flags on top of the original's.
    pub flags: &'a [&'a str],
}

/// A bench whose managers work with a simulated Exoscale.
pub struct Site {
    bench: Bench,
    /// The cloud.
    pub cloud: Arc<Exoscale>,
    /// Who the manager is to the API server.
    pub user: String,
    _server: Server,
}

impl Deref for Site {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        &self.bench
    }
}

impl DerefMut for Site {
    fn deref_mut(&mut self) -> &mut Bench {
        &mut self.bench
    }
}

impl Site {
    /// A cloud with what the fixture describes, and the manager with the command line of the
    /// original's manifest and its environment, and what differs; it is not started yet.
    pub async fn set_up(seed: u64, fixture: &str, differences: Differences<'_>) -> Self {
        let mut bench = Bench::set_up(Setup {
            seed,
            clouds: &[],
            flags: &[&FLAGS, differences.flags].concat(),
            program: ("exoscale-cloud-controller-manager", PROVIDER),
            ..Setup::default()
        })
        .await;
        let Granted { config, user } = bench.cluster.grant(ACCOUNT, &originals::exoscale()).await;
        let scene: Scene = bowline_simulator::fixture::parse("scene", fixture).unwrap();
        let cloud = Exoscale::from_fixture(&bench.world, scene).unwrap();
        let server = Server::builder(&bench.world, cloud.clone()).pipe(CLOUD);
        bench.act_as(config);
        let (world, settings) = (bench.world.clone(), settings(&bench, differences));
        bench.add_asking_provider(move |metrics| provider(&world, &settings, metrics));
        Self {
            bench,
            cloud,
            user,
            _server: server,
        }
    }
}

fn settings(bench: &Bench, differences: Differences<'_>) -> Config {
    let file = differences.config;
    let file = file.replace('@', &bench.cluster.names().own(""));
    let endpoint = format!("http://{CLOUD}/v2");
    let mut variables = BTreeMap::from([
        ("EXOSCALE_API_ENDPOINT", endpoint.as_str()),
        ("EXOSCALE_API_ZONE", DEFAULT_ZONE),
        ("EXOSCALE_API_KEY", DEFAULT_KEY),
        ("EXOSCALE_API_SECRET", DEFAULT_SECRET),
    ]);
    variables.extend(differences.environment.iter().copied());
    let environment = |name: &str| variables.get(name).map(ToString::to_string);
    Config::read(environment, Some(&file)).unwrap()
}

fn provider(
    world: &World,
    config: &Config,
    metrics: &Arc<Metrics>,
) -> BoxFuture<'static, Arc<dyn Cloud>> {
    let surroundings = Surroundings {
        name: CloudName::parse(PROVIDER).unwrap(),
        connector: Connector::simulated(world.pipes.clone()),
        clock: world.clock.clone(),
        random: world.random.fork(),
        metrics: Some(metrics.register(bowline_exoscale::register_metrics)),
    };
    let config = config.clone();
    Box::pin(async move {
        bowline_exoscale::build(&config, surroundings)
            .await
            .unwrap()
    })
}
