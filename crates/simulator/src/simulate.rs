//! The simulators as servers of their own: what `bowline simulate` runs.

mod exoscale;
mod talos;
mod triton;
mod xenorchestra;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bowline_http::{Clock, Random};

use crate::World;
use crate::cloudscale::{Cloudscale, Fixture, MachineError};
use crate::cluster::{Cluster, ClusterError};
use crate::fixture::{self, FixtureError};
use crate::kubernetes;
use crate::serve::{ServeError, Server};

pub use exoscale::{ExoscaleOptions, ExoscaleSimulation, exoscale};
pub use talos::{TalosOptions, TalosSimulation, talos};
pub use triton::{TritonOptions, TritonSimulation, triton};
pub use xenorchestra::{XenOrchestraOptions, XenOrchestraSimulation, xenorchestra};

/// How to run the simulated cloudscale.ch.
#[derive(Clone, Debug)]
pub struct CloudscaleOptions {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// What the cloud contains; none: nothing.
    pub fixture: Option<PathBuf>,
    /// The seed of names and draws; none: different in every run.
    pub seed: Option<u64>,
}

/// How to run the simulated Kubernetes API.
#[derive(Clone, Debug)]
pub struct KubernetesOptions {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Where to write the kubeconfig of an administrator.
    pub kubeconfig: PathBuf,
    /// Objects that the cluster starts with; none: those of every cluster.
    pub fixture: Option<PathBuf>,
    /// The seed of uids and addresses; none: different in every run.
    pub seed: Option<u64>,
}

/// Why a simulator could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The fixture cannot be read.
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    /// What the fixture asks for cannot be.
    #[error("the content of the fixture cannot be set up")]
    Content(#[from] MachineError),
    /// The same, of a simulated Exoscale.
    #[error("the content of the fixture cannot be set up")]
    ExoscaleContent(#[from] crate::exoscale::HandleError),
    /// The same, of simulated Talos machines.
    #[error("the content of the fixture cannot be set up")]
    TalosContent(#[from] crate::talos::HandleError),
    /// The talosconfig cannot be written.
    #[error("cannot write the talosconfig {path}", path = path.display())]
    Talosconfig {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The same, of a simulated Xen Orchestra.
    #[error("the content of the fixture cannot be set up")]
    XenOrchestraContent(#[from] crate::xenorchestra::HandleError),
    /// The certificate cannot be made.
    #[error("cannot make a certificate")]
    Certificate {
        /// Why.
        source: rcgen::Error,
    },
    /// The same, of a simulated Triton.
    #[error("the content of the fixture cannot be set up")]
    TritonContent(#[from] crate::triton::HandleError),
    /// There is no DNS server.
    #[error(transparent)]
    Dns(#[from] crate::triton::DnsError),
    /// The server cannot be started.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The cluster cannot be started.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The kubeconfig cannot be written.
    #[error("cannot write the kubeconfig {path}", path = path.display())]
    Kubeconfig {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A simulator that runs.
#[derive(Debug)]
pub struct CloudscaleSimulation {
    /// The server; it stops when this is dropped.
    pub server: Server,
    /// The world that it lives in: journal, faults, machines.
    pub world: World,
    /// The cloud itself, for direct control.
    pub cloud: Arc<Cloudscale>,
    /// What to tell the person who started it.
    pub greeting: String,
}

/// A simulated cluster that runs.
pub struct KubernetesSimulation {
    /// The cluster; it stops when this is dropped.
    pub cluster: Cluster,
    /// What to tell the person who started it.
    pub greeting: String,
}

/// Starts the simulated Kubernetes API on a TLS socket.
pub async fn kubernetes(options: KubernetesOptions) -> Result<KubernetesSimulation, SimulateError> {
    let objects = match &options.fixture {
        Some(path) => kubernetes::fixture::read(path)?,
        None => Vec::new(),
    };
    let world = world(options.seed);
    let cluster = Cluster::on_socket(&world, options.listen).await?;
    let count = objects.len();
    cluster.install(objects)?;
    std::fs::write(&options.kubeconfig, cluster.admin_kubeconfig()?).map_err(|source| {
        SimulateError::Kubeconfig {
            path: options.kubeconfig.clone(),
            source,
        }
    })?;
    let (url, file) = (cluster.url(), options.kubeconfig.display());
    let mut greeting = format!("Kubernetes API, simulated, on {url}\n");
    if options.fixture.is_some() {
        let _ = writeln!(greeting, "  objects   {count} from the fixture");
    }
    let _ = writeln!(
        greeting,
        "  use it    kubectl --kubeconfig {file} get nodes"
    );
    let _ = writeln!(greeting, "  journal   curl -k {url}/_sim/journal");
    let _ = writeln!(greeting, "  state     curl -k {url}/_sim/state");
    warn(&mut greeting, options.listen);
    Ok(KubernetesSimulation { cluster, greeting })
}

/// A world of its own, in real time.
fn world(seed: Option<u64>) -> World {
    let random = seed.map_or_else(Random::from_system, Random::seeded);
    World::with(Clock::system(), random)
}

/// Warns about a server that others can reach.
fn warn(greeting: &mut String, address: SocketAddr) {
    if !address.ip().is_loopback() {
        let _ = writeln!(
            greeting,
            "  warning   everybody who reaches {address} controls it without a password"
        );
    }
}

/// Starts the simulated cloudscale.ch on a plain socket.
pub async fn cloudscale(options: CloudscaleOptions) -> Result<CloudscaleSimulation, SimulateError> {
    let scene: Fixture = match &options.fixture {
        Some(path) => fixture::read(path)?,
        None => Fixture::default(),
    };
    let world = world(options.seed);
    let tokens = scene.config().tokens;
    let cloud = Cloudscale::from_fixture(&world, scene)?;
    let builder = Server::builder(&world, cloud.clone());
    let server = builder.plain(options.listen).await?;
    let address = server.local_addr().unwrap_or(options.listen);

    let mut greeting = format!("cloudscale.ch, simulated, on http://{address}/v1\n");
    let count = cloud.servers().len();
    let _ = writeln!(greeting, "  machines  {count}");
    for token in tokens {
        let right = if token.read_only { ", read-only" } else { "" };
        let _ = writeln!(
            greeting,
            "  token     {} (project {}{right})",
            token.value, token.project
        );
    }
    let _ = writeln!(
        greeting,
        "  use it    CLOUDSCALE_API_URL=http://{address}/v1"
    );
    let _ = writeln!(greeting, "  journal   curl http://{address}/_sim/journal");
    let _ = writeln!(greeting, "  state     curl http://{address}/_sim/state");
    warn(&mut greeting, address);
    Ok(CloudscaleSimulation {
        server,
        world,
        cloud,
        greeting,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::testing::{Client, Place};

    fn options(fixture: Option<&tempfile::NamedTempFile>) -> CloudscaleOptions {
        CloudscaleOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            fixture: fixture.map(|file| file.path().to_owned()),
            seed: Some(1),
        }
    }

    #[tokio::test]
    async fn a_simulation_serves_its_fixture_and_says_how_to_use_it() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"tokens: [{value: abc}]\nmachines: [{name: a}, {name: b}]\n")
            .unwrap();
        let running = cloudscale(options(Some(&file))).await.unwrap();
        let address = running.server.local_addr().unwrap();
        for expected in [
            format!("http://{address}/v1"),
            "token     abc".to_owned(),
            "machines  2".to_owned(),
        ] {
            assert!(running.greeting.contains(&expected), "{}", running.greeting);
        }
        let client = Client::new(Place::Socket(address), Some("abc"));
        assert_eq!(
            client
                .get("/v1/servers")
                .await
                .json()
                .as_array()
                .unwrap()
                .len(),
            2
        );
        let taken = CloudscaleOptions {
            listen: address,
            ..options(None)
        };
        let error = cloudscale(taken).await.unwrap_err().to_string();
        assert!(error.contains("another program already does"), "{error}");
        running.server.shutdown().await;
    }

    #[tokio::test]
    async fn a_simulated_cluster_starts_with_its_fixture_and_writes_a_kubeconfig() {
        let folder = tempfile::tempdir().unwrap();
        let fixture = folder.path().join("objects.yaml");
        std::fs::write(
            &fixture,
            "{apiVersion: v1, kind: Node, metadata: {name: n1}}",
        )
        .unwrap();
        let options = KubernetesOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            kubeconfig: folder.path().join("kubeconfig"),
            fixture: Some(fixture),
            seed: Some(1),
        };
        let running = kubernetes(options.clone()).await.unwrap();
        assert!(running.cluster.node("n1").is_some());
        assert!(running.greeting.contains("1 from the fixture"));
        let written = std::fs::read_to_string(&options.kubeconfig).unwrap();
        assert!(written.contains(running.cluster.url()), "{written}");

        let nowhere = KubernetesOptions {
            kubeconfig: folder.path().join("none/kubeconfig"),
            ..options
        };
        let error = kubernetes(nowhere).await.err().unwrap().to_string();
        assert!(error.starts_with("cannot write the kubeconfig"), "{error}");
    }

    #[tokio::test]
    async fn a_missing_or_impossible_fixture_is_refused() {
        let missing = CloudscaleOptions {
            fixture: Some("/nonexistent/cloud.yaml".into()),
            ..options(None)
        };
        let error = cloudscale(missing).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read the fixture /nonexistent/cloud.yaml"
        );
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"machines: [{name: a, zone: zrh1}]\n")
            .unwrap();
        let error = cloudscale(options(Some(&file))).await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(
            source.starts_with("cannot add the machine a: \"zrh1\" is not"),
            "{source}"
        );
    }
}
