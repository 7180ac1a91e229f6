//! The simulators as servers of their own: what `bowline simulate` runs.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bowline_http::{Clock, Random};

use crate::World;
use crate::cloudscale::{Cloudscale, MachineError, Scene};
use crate::fixture::{self, FixtureError};
use crate::serve::{ServeError, Server};

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

/// Why a simulator could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The fixture cannot be read.
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    /// What the fixture asks for cannot be.
    #[error("the content of the fixture cannot be set up")]
    Content(#[from] MachineError),
    /// The server cannot be started.
    #[error(transparent)]
    Serve(#[from] ServeError),
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

/// Starts the simulated cloudscale.ch on a plain socket.
pub async fn cloudscale(options: CloudscaleOptions) -> Result<CloudscaleSimulation, SimulateError> {
    let scene: Scene = match &options.fixture {
        Some(path) => fixture::read(path)?,
        None => Scene::default(),
    };
    let random = options
        .seed
        .map_or_else(Random::from_system, Random::seeded);
    let world = World::with(Clock::system(), random);
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
    if !address.ip().is_loopback() {
        let _ = writeln!(
            greeting,
            "  warning   everybody who reaches {address} controls it without a password"
        );
    }
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
