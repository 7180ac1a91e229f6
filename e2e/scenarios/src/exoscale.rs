//! Exoscale in scenarios: the real provider, a simulated cloud, and the role of the original's manifest.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bowline_controllers::metrics::Metrics;
use bowline_exoscale::{Config, PROVIDER};
use bowline_simulator::World;
use bowline_simulator_exoscale::{DEFAULT_KEY, DEFAULT_SECRET, DEFAULT_ZONE, Exoscale, Fixture};
use futures::{FutureExt, TryFutureExt};

use crate::TestCluster;
use crate::cloud_harness::{Called, Original, Served};

/// What annotations of Services begin with.
pub const PREFIX: &str = "service.beta.kubernetes.io/exoscale-loadbalancer-";
/// The original's command line; the first is the default of managers, though not of a bench's.
pub const FLAGS: [&str; 2] = ["--leader-elect=true", "--allow-untagged-cloud"];
/// Where the cloud listens in the pipes.
const HOST: &str = "exoscale.localhost";
/// Who the manager is: the service account of the original's manifest.
const ACCOUNT: &str = "cloud-controller-manager";

/// A test cluster whose managers work with a simulated Exoscale.
pub type CloudHarness = crate::cloud_harness::CloudHarness<Exoscale>;

impl CloudHarness {
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
            manifest: &bowline_simulator_exoscale::manifest(),
        };
        let open = |bench: &TestCluster| serve(bench, None, fixture, file, environment);
        let flags = [&FLAGS, arguments].concat();
        Self::open(seed, &flags, &original, open).await
    }
}

/// A cloud with what the fixture describes, for managers with these variables and that cloud config file, in which `@`
/// stands for what the names of nodes begin with on the server; of that name where there are several.
pub fn serve(
    bench: &TestCluster,
    name: Option<&str>,
    fixture: &str,
    file: &str,
    environment: &[(&str, &str)],
) -> Served<Exoscale> {
    let called = Called::only(name, PROVIDER, HOST);
    let fixture: Fixture = bowline_simulator::fixture::parse("fixture", fixture).unwrap();
    let cloud = Exoscale::from_fixture(&bench.world, fixture).unwrap();
    let server = called.serve(&bench.world, cloud.clone());
    let file = file.replace('@', &bench.cluster.names().own(""));
    let config = Rc::new(settings(&called.host(), &file, environment));
    let (name, label) = (called.name(), called.label());
    let factory = move |world: World, metrics: Arc<Metrics>| {
        let metrics = metrics.register_for(label.as_deref(), bowline_exoscale::register_metrics);
        let seams = Called::seams(&name, &world, Some(metrics));
        let config = Rc::clone(&config);
        let made = async move { bowline_exoscale::build(&config, seams).await };
        made.map_err(|error| error.to_string()).boxed_local()
    };
    Served {
        cloud,
        server,
        factory: Box::new(factory),
    }
}

fn settings(host: &str, file: &str, environment: &[(&str, &str)]) -> Config {
    let endpoint = format!("http://{host}/v2");
    let mut variables = BTreeMap::from([
        ("EXOSCALE_API_ENDPOINT", endpoint.as_str()),
        ("EXOSCALE_API_ZONE", DEFAULT_ZONE),
        ("EXOSCALE_API_KEY", DEFAULT_KEY),
        ("EXOSCALE_API_SECRET", DEFAULT_SECRET),
    ]);
    variables.extend(environment.iter().copied());
    let variable = |name: &str| variables.get(name).map(ToString::to_string);
    Config::read(variable, Some(file)).unwrap()
}
