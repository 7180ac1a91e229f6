//! The simulated Xen Orchestra as a server of its own, with or without TLS.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{SimulateError, warn, world};
use crate::World;
use crate::fixture;
use crate::serve::{Identity, Server};
use crate::xenorchestra::{Fixture, XenOrchestra};

/// How to run the simulated Xen Orchestra.
#[derive(Clone, Debug)]
pub struct XenOrchestraOptions {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// What there is; none: nothing.
    pub fixture: Option<PathBuf>,
    /// Serve TLS with a certificate that nobody signed, as most do.
    pub tls: bool,
    /// The seed of names and draws; none: different in every run.
    pub seed: Option<u64>,
}

/// A simulated Xen Orchestra that runs.
#[derive(Debug)]
pub struct XenOrchestraSimulation {
    /// The server; it stops when this is dropped.
    pub server: Server,
    /// The world that it lives in: journal, faults, machines.
    pub world: World,
    /// The thing itself, for direct control.
    pub orchestra: Arc<XenOrchestra>,
    /// What to tell the person who started it.
    pub greeting: String,
}

/// Starts the simulated Xen Orchestra on a socket.
pub async fn xenorchestra(
    options: XenOrchestraOptions,
) -> Result<XenOrchestraSimulation, SimulateError> {
    let scene: Fixture = match &options.fixture {
        Some(path) => fixture::read(path)?,
        None => Fixture::default(),
    };
    let world = world(options.seed);
    let config = scene.config();
    let orchestra = XenOrchestra::from_fixture(&world, scene)?;
    let builder = Server::builder(&world, orchestra.clone()).http1_only();
    let server = if options.tls {
        builder
            .tls(options.listen, self_signed(options.listen)?)
            .await?
    } else {
        builder.plain(options.listen).await?
    };
    let address = server.local_addr().unwrap_or(options.listen);
    let (scheme, curl) = if options.tls {
        ("https", "curl -k")
    } else {
        ("http", "curl")
    };
    let prefix = config.quirks.path_prefix.clone().unwrap_or_default();
    let root = format!("{scheme}://{address}{}", prefix.trim_end_matches('/'));
    let mut greeting = format!("Xen Orchestra, simulated, on {root}\n");
    let (pools, hosts) = (orchestra.pools().len(), orchestra.hosts().len());
    let vms = orchestra.vms().len();
    let _ = writeln!(
        greeting,
        "  VMs       {vms} on {hosts} hosts in {pools} pools"
    );
    for (token, user) in &config.tokens {
        let _ = writeln!(greeting, "  token     {token} ({user})");
    }
    for (name, user) in &config.users {
        let _ = writeln!(greeting, "  user      {name} (password {})", user.password);
    }
    let insecure = if options.tls {
        " XOA_INSECURE=true"
    } else {
        ""
    };
    let _ = writeln!(greeting, "  use it    XOA_URL={root}{insecure} XOA_TOKEN=…");
    let _ = writeln!(
        greeting,
        "  journal   {curl} {scheme}://{address}/_sim/journal"
    );
    let _ = writeln!(
        greeting,
        "  state     {curl} {scheme}://{address}/_sim/state"
    );
    warn(&mut greeting, address);
    Ok(XenOrchestraSimulation {
        server,
        world,
        orchestra,
        greeting,
    })
}

/// A certificate for that address and `localhost` that only itself vouches for.
fn self_signed(address: SocketAddr) -> Result<Identity, SimulateError> {
    let made = || {
        let names = vec!["localhost".to_owned(), address.ip().to_string()];
        let key = rcgen::KeyPair::generate()?;
        let certificate = rcgen::CertificateParams::new(names)?.self_signed(&key)?;
        Ok::<_, rcgen::Error>((certificate.der().clone(), key))
    };
    let (certificate, key) = made().map_err(|source| SimulateError::Certificate { source })?;
    Ok(Identity {
        chain: vec![certificate],
        key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        client_authorities: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::testing::{Client, Place};
    use crate::xenorchestra::DEFAULT_TOKEN;

    fn options(fixture: &tempfile::NamedTempFile) -> XenOrchestraOptions {
        XenOrchestraOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            fixture: Some(fixture.path().to_owned()),
            tls: false,
            seed: Some(1),
        }
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[tokio::test]
    async fn a_simulation_serves_its_fixture_and_says_how_to_use_it() {
        let file = file("pools: [{name: p}]\nhosts: [{name: h}]\nvms: [{name: v, count: 3}]\n");
        let running = xenorchestra(options(&file)).await.unwrap();
        let address = running.server.local_addr().unwrap();
        for expected in [
            format!("XOA_URL=http://{address} XOA_TOKEN"),
            "3 on 1 hosts in 1 pools".to_owned(),
            format!("token     {DEFAULT_TOKEN} (admin@admin.net)"),
        ] {
            assert!(running.greeting.contains(&expected), "{}", running.greeting);
        }
        let client = Client::new(Place::Socket(address), None);
        assert_eq!(client.get("/rest/v0/ping").await.json()["result"], "pong");
        running.server.shutdown().await;
    }

    #[tokio::test]
    async fn tls_is_served_without_http2_and_with_a_certificate_of_its_own() {
        let file = file("quirks: {redirect_to_https: 1}\n");
        let tls = XenOrchestraOptions {
            tls: true,
            ..options(&file)
        };
        let running = xenorchestra(tls).await.unwrap();
        let address = running.server.local_addr().unwrap();
        assert!(
            running
                .greeting
                .contains(&format!("XOA_URL=https://{address} XOA_INSECURE=true"))
        );
        // A plain request is no handshake.
        let plain = Client::new(Place::Socket(address), None);
        assert!(plain.attempt("GET", "/rest/v0/ping", "").await.is_err());
        let identity = self_signed(address).unwrap();
        assert_eq!(identity.chain.len(), 1);
        running.server.shutdown().await;
    }

    #[tokio::test]
    async fn an_impossible_fixture_is_refused() {
        let file = file("vms: [{name: a}]\n");
        let error = xenorchestra(options(&file)).await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, "cannot add the VM a: there are no pools");
    }
}
