//! The simulated Exoscale as a server of its own, and its metadata server beside it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::{SimulateError, warn, world};
use crate::World;
use crate::exoscale::{Exoscale, Fixture, Metadata};
use crate::fixture;
use crate::serve::Server;

/// How to run the simulated Exoscale.
#[derive(Clone, Debug)]
pub struct ExoscaleOptions {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// What the cloud contains; none: nothing.
    pub fixture: Option<PathBuf>,
    /// Where to serve metadata, if at all.
    pub metadata: Option<SocketAddr>,
    /// The seed of names and draws; none: different in every run.
    pub seed: Option<u64>,
}

/// A simulated Exoscale that runs.
#[derive(Debug)]
pub struct ExoscaleSimulation {
    /// The server; it stops when this is dropped.
    pub server: Server,
    /// The metadata server, if there is one.
    pub metadata: Option<Server>,
    /// The world that they live in: journal, faults, machines.
    pub world: World,
    /// The cloud itself, for direct control.
    pub cloud: Arc<Exoscale>,
    /// What to tell the person who started it.
    pub greeting: String,
}

impl ExoscaleSimulation {
    /// Stops both servers.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
        if let Some(metadata) = self.metadata {
            metadata.shutdown().await;
        }
    }
}

/// Starts the simulated Exoscale on a plain socket.
pub async fn exoscale(options: ExoscaleOptions) -> Result<ExoscaleSimulation, SimulateError> {
    let scene: Fixture = match &options.fixture {
        Some(path) => fixture::read(path)?,
        None => Fixture::default(),
    };
    let world = world(options.seed);
    let config = scene.config();
    let cloud = Exoscale::from_fixture(&world, scene)?;
    let builder = Server::builder(&world, cloud.clone());
    let server = builder.plain(options.listen).await?;
    let address = server.local_addr().unwrap_or(options.listen);
    let mut greeting = format!("Exoscale, simulated, on http://{address}/v2\n");
    let _ = writeln!(greeting, "  zones     {}", config.zones.join(", "));
    let _ = writeln!(greeting, "  instances {}", cloud.instances().len());
    for (key, role) in &config.keys {
        let _ = writeln!(greeting, "  key       {key} (secret {})", role.secret);
    }
    let _ = writeln!(
        greeting,
        "  use it    EXOSCALE_API_ENDPOINT=http://{address}/v2"
    );
    let metadata = match options.metadata {
        Some(listen) => {
            let zone = config.zones.first().cloned().unwrap_or_default();
            let first = cloud.instances().into_iter().next();
            let instance = first.map(|it| it.id).unwrap_or_default();
            let api = Metadata::new(&zone, &instance);
            let server = Server::builder(&world, api).plain(listen).await?;
            let address = server.local_addr().unwrap_or(listen);
            let _ = writeln!(greeting, "  metadata  http://{address}/latest/meta-data/");
            Some(server)
        }
        None => None,
    };
    let _ = writeln!(greeting, "  journal   curl http://{address}/_sim/journal");
    let _ = writeln!(greeting, "  state     curl http://{address}/_sim/state");
    warn(&mut greeting, address);
    Ok(ExoscaleSimulation {
        server,
        metadata,
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

    #[tokio::test]
    async fn a_simulation_serves_zones_and_metadata_and_says_how_to_use_it() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"zones: [at-vie-1, ch-dk-2]\ninstances: [{name: a, count: 3}]\n")
            .unwrap();
        let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let running = exoscale(ExoscaleOptions {
            listen: loopback,
            fixture: Some(file.path().to_owned()),
            metadata: Some(loopback),
            seed: Some(1),
        })
        .await
        .unwrap();
        let address = running.server.local_addr().unwrap();
        for expected in [
            format!("EXOSCALE_API_ENDPOINT=http://{address}/v2"),
            "zones     at-vie-1, ch-dk-2".to_owned(),
            "instances 3".to_owned(),
            "/latest/meta-data/".to_owned(),
        ] {
            assert!(running.greeting.contains(&expected), "{}", running.greeting);
        }
        let client = Client::new(Place::Socket(address), None);
        let zones = client.get("/v2/zone").await.json();
        assert_eq!(zones["zones"][1]["name"], "ch-dk-2");
        let place = running.metadata.as_ref().unwrap().local_addr().unwrap();
        let client = Client::new(Place::Socket(place), None);
        let told = client.get("/latest/meta-data/availability-zone").await;
        assert_eq!((told.status, told.text().as_str()), (200, "at-vie-1"));
        assert_eq!(client.get("/latest/meta-data/nothing").await.status, 404);
        running.shutdown().await;
    }

    #[tokio::test]
    async fn an_impossible_fixture_is_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"instances: [{name: a, zone: mars}]\n")
            .unwrap();
        let options = ExoscaleOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            fixture: Some(file.path().to_owned()),
            metadata: None,
            seed: None,
        };
        let error = exoscale(options).await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(
            source,
            "cannot add the instance a: \"mars\" is no zone; there are ch-gva-2"
        );
    }
}
