//! The simulated Triton as a server of its own, with its DNS and its metrics beside it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{SimulateError, warn, world};
use crate::World;
use crate::fixture;
use crate::serve::{Identity, Server};
use crate::triton::{Cmon, DEFAULT_FINGERPRINT, Dns, Fixture, Triton};

/// How to run the simulated Triton.
#[derive(Clone, Debug)]
pub struct TritonOptions {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// What the cloud contains; none: an account and two networks.
    pub fixture: Option<PathBuf>,
    /// Where to answer DNS, if at all.
    pub dns: Option<SocketAddr>,
    /// Where to serve metrics over TLS, if at all.
    pub cmon: Option<SocketAddr>,
    /// The seed of names and draws; none: different in every run.
    pub seed: Option<u64>,
}

/// A simulated Triton that runs.
#[derive(Debug)]
pub struct TritonSimulation {
    /// The server; it stops when this is dropped.
    pub server: Server,
    /// The DNS server, if there is one.
    pub dns: Option<Dns>,
    /// The metrics server, if there is one.
    pub cmon: Option<Server>,
    /// The world that they live in: journal, faults, machines.
    pub world: World,
    /// The cloud itself, for direct control.
    pub cloud: Arc<Triton>,
    /// What to tell the person who started it.
    pub greeting: String,
}

impl TritonSimulation {
    /// Stops all servers.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
        if let Some(cmon) = self.cmon {
            cmon.shutdown().await;
        }
    }
}

/// Starts the simulated Triton on a plain socket.
pub async fn triton(options: TritonOptions) -> Result<TritonSimulation, SimulateError> {
    let scene: Fixture = match &options.fixture {
        Some(path) => fixture::read(path)?,
        None => Fixture::default(),
    };
    let world = world(options.seed);
    let own_accounts = !scene.accounts.is_empty();
    let cloud = Triton::from_fixture(&world, scene)?;
    let builder = Server::builder(&world, cloud.clone());
    let server = builder.plain(options.listen).await?;
    let address = server.local_addr().unwrap_or(options.listen);
    let mut greeting = format!("Triton, simulated, on http://{address}\n");
    let _ = writeln!(greeting, "  machines  {}", cloud.machines().len());
    if !own_accounts {
        let _ = writeln!(greeting, "  account   acme, key {DEFAULT_FINGERPRINT}");
        let _ = writeln!(
            greeting,
            "  its key   curl http://{address}/_sim/private-key -d ''"
        );
    }
    let _ = writeln!(greeting, "  use it    TRITON_URL=http://{address}");
    let dns = match options.dns {
        Some(listen) => {
            let dns = Dns::serve(&cloud, listen).await?;
            let place = dns.local_addr();
            let (ip, port) = (place.ip(), place.port());
            let _ = writeln!(greeting, "  names     dig @{ip} -p {port} SRV <name>");
            Some(dns)
        }
        None => None,
    };
    let cmon = match options.cmon {
        Some(listen) => {
            let builder = Server::builder(&world, Cmon::new(&cloud));
            let server = builder.tls_for_any_client(listen, identity()?).await?;
            let place = server.local_addr().unwrap_or(listen);
            let _ = writeln!(greeting, "  metrics   https://{place}/v1/discover");
            Some(server)
        }
        None => None,
    };
    let _ = writeln!(greeting, "  journal   curl http://{address}/_sim/journal");
    let _ = writeln!(greeting, "  state     curl http://{address}/_sim/state");
    warn(&mut greeting, address);
    Ok(TritonSimulation {
        server,
        dns,
        cmon,
        world,
        cloud,
        greeting,
    })
}

/// A certificate that nobody has reason to trust, as private installations have.
fn identity() -> Result<Identity, SimulateError> {
    let names = [
        "localhost",
        "cmon.localhost",
        "*.cmon.localhost",
        "127.0.0.1",
    ];
    let made = rcgen::generate_simple_self_signed(names.map(str::to_owned));
    let made = made.map_err(|source| SimulateError::Certificate { source })?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok(Identity {
        chain: vec![made.cert.der().clone()],
        key: PrivateKeyDer::Pkcs8(key),
        client_authorities: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::testing::{Client, Place};

    #[tokio::test]
    async fn a_simulation_serves_the_api_names_and_metrics_and_says_how_to_use_it() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"machines: [{name: a, count: 3}]\n")
            .unwrap();
        let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let running = triton(TritonOptions {
            listen: loopback,
            fixture: Some(file.path().to_owned()),
            dns: Some(loopback),
            cmon: Some(loopback),
            seed: Some(1),
        })
        .await
        .unwrap();
        let address = running.server.local_addr().unwrap();
        for expected in [
            format!("TRITON_URL=http://{address}"),
            "machines  3".to_owned(),
            "key 25:c0:83:45".to_owned(),
            "names     dig @127.0.0.1".to_owned(),
            "/v1/discover".to_owned(),
        ] {
            assert!(running.greeting.contains(&expected), "{}", running.greeting);
        }
        let client = Client::new(Place::Socket(address), None);
        let ping = client.get("/--ping").await;
        assert_eq!((ping.status, &ping.json()["ping"]), (200, &"pong".into()));
        let key = client
            .attempt("POST", "/_sim/private-key", "")
            .await
            .unwrap();
        assert!(key.text().contains("BEGIN PRIVATE KEY"), "{}", key.text());
        running.shutdown().await;
    }

    #[tokio::test]
    async fn an_impossible_fixture_is_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"machines: [{name: a, package: none}]\n")
            .unwrap();
        let error = triton(TritonOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            fixture: Some(file.path().to_owned()),
            dns: None,
            cmon: None,
            seed: Some(1),
        })
        .await
        .unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, "cannot add the machine a: there is no such package");
    }
}
