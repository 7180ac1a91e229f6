//! Exoscale on a bench: the real provider, a simulated cloud, and the role of the original's manifest.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Cloud, CloudName};
use bowline_exoscale::{BuildError, Config, PROVIDER, Surroundings};
use bowline_http::Connector;
use bowline_simulator::World;
use bowline_simulator::exoscale::{DEFAULT_KEY, DEFAULT_SECRET, DEFAULT_ZONE, Exoscale, Scene};
use bowline_simulator::kubernetes::auth::originals;
use bowline_simulator::serve::Server;

use crate::{Bench, Granted, Setup};

/// What annotations of Services begin with.
pub const PREFIX: &str = "service.beta.kubernetes.io/exoscale-loadbalancer-";
/// The original's command line; the first is the default of managers, though not of a bench's.
pub const FLAGS: [&str; 2] = ["--leader-elect=true", "--allow-untagged-cloud"];
/// Where the cloud listens in the pipes.
const CLOUD: &str = "exoscale.sim:80";
/// Who the manager is: the service account of the original's manifest.
const ACCOUNT: &str = "cloud-controller-manager";

/// How often a process that cannot start is started.
const STARTS: u32 = 10;
/// The pause before that.
const RESTART: Duration = Duration::from_secs(1);

/// A bench whose managers work with a simulated Exoscale.
pub struct Site {
    bench: Bench,
    /// The cloud.
    pub cloud: Arc<Exoscale>,
    /// Who the manager is to the API server.
    pub user: String,
    config: Config,
    /// The provider of the manager that starts next.
    next: Rc<RefCell<Option<Arc<dyn Cloud>>>>,
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
    /// original's manifest and its environment, and with more of both, and that cloud config file, in
    /// which `@` stands for what the names of nodes begin with on the server; it is not started yet.
    pub async fn set_up(
        seed: u64,
        fixture: &str,
        file: &str,
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let mut bench = Bench::set_up(Setup {
            seed,
            clouds: &[],
            flags: &[&FLAGS, arguments].concat(),
            program: ("exoscale-cloud-controller-manager", PROVIDER),
            ..Setup::default()
        })
        .await;
        let Granted { config, user } = bench.cluster.grant(ACCOUNT, &originals::exoscale()).await;
        let scene: Scene = bowline_simulator::fixture::parse("scene", fixture).unwrap();
        let cloud = Exoscale::from_fixture(&bench.world, scene).unwrap();
        let server = Server::builder(&bench.world, cloud.clone()).pipe(CLOUD);
        bench.act_as(config);
        let next: Rc<RefCell<Option<Arc<dyn Cloud>>>> = Rc::default();
        let ready = Rc::clone(&next);
        let file = file.replace('@', &bench.cluster.names().own(""));
        bench.add_provider(move |_| ready.take().expect("the provider was made"));
        Self {
            bench,
            cloud,
            user,
            config: settings(&file, environment),
            next,
            _server: server,
        }
    }

    /// Starts the manager, as a new process would; one that cannot start is started again.
    pub async fn start(&mut self) {
        let mut tries = 0;
        let cloud = loop {
            tries += 1;
            match provider(&self.bench.world, &self.config).await {
                Ok(cloud) => break cloud,
                Err(error) if tries == STARTS => panic!("it does not start: {error}"),
                Err(_) => tokio::time::sleep(RESTART).await,
            }
        };
        self.next.replace(Some(cloud));
        self.bench.start();
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

async fn provider(world: &World, config: &Config) -> Result<Arc<dyn Cloud>, BuildError> {
    let surroundings = Surroundings {
        name: CloudName::parse(PROVIDER).unwrap(),
        connector: Connector::simulated(world.pipes.clone()),
        clock: world.clock.clone(),
        random: world.random.fork(),
        metrics: None,
    };
    bowline_exoscale::build(config, surroundings).await
}
