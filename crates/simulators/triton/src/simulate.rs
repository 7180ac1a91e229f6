//! The simulated Triton as a server of its own, with its DNS and its metrics beside it.

use anyhow::{Context, Result};
use bowline_simulator::serve::{Identity, Server};
use bowline_simulator::simulate::{Flag, FlagValue, Greeting, Options, ServerKind, Simulation};
use futures::FutureExt;

use crate::{Cmon, DEFAULT_FINGERPRINT, Dns, Fixture, NAME, Triton};

/// The server of `bowline simulate`.
pub(crate) const SERVER: ServerKind = ServerKind {
    name: NAME,
    about: "Triton's CloudAPI, with the change feed",
    flags: &[
        Flag::listen("127.0.0.1:18084"),
        Flag::fixture(
            "What the cloud contains: accounts, networks, machines, timings, switches, faults",
        ),
        Flag::new(
            "dns",
            FlagValue::Address,
            "Also answer DNS there, over UDP and TCP",
        ),
        Flag::new(
            "cmon",
            FlagValue::Address,
            "Also serve metrics (CMON) there, over TLS",
        ),
        Flag::seed("Draw names and addresses from this seed"),
    ],
    serve: |options| serve(options).boxed(),
};

/// Who the metrics server is.
const METRICS_NAMES: [&str; 4] = [
    "localhost",
    "cmon.localhost",
    "*.cmon.localhost",
    "127.0.0.1",
];

async fn serve(options: &Options) -> Result<Simulation> {
    let mut own_accounts = false;
    let (world, cloud) = options.load(|world, fixture: Fixture| {
        own_accounts = !fixture.accounts.is_empty();
        Triton::from_fixture(world, fixture)
    })?;
    let listen = options.listen()?;
    let mut servers = vec![Server::builder(&world, cloud.clone()).plain(listen).await?];
    let address = servers[0].local_addr().unwrap_or(listen);
    let root = format!("http://{address}");
    let mut greeting = Greeting::new("Triton", &root);
    greeting.line("machines", cloud.machines().len());
    if !own_accounts {
        greeting.line("account", format_args!("acme, key {DEFAULT_FINGERPRINT}"));
        greeting.line(
            "its key",
            format_args!("curl {root}/_sim/private-key -d ''"),
        );
    }
    greeting.line("use it", format_args!("TRITON_URL={root}"));
    let mut dns = None;
    if let Some(listen) = options.address("dns")? {
        let server = Dns::serve(&cloud, listen).await?;
        let place = server.local_addr();
        let (ip, port) = (place.ip(), place.port());
        greeting.line("names", format_args!("dig @{ip} -p {port} SRV <name>"));
        dns = Some(server);
    }
    if let Some(listen) = options.address("cmon")? {
        let identity = Identity::self_signed(METRICS_NAMES.map(str::to_owned));
        let identity = identity.context("cannot make a certificate")?;
        let builder = Server::builder(&world, Cmon::new(&cloud));
        let server = builder.tls_for_any_client(listen, identity).await?;
        let place = server.local_addr().unwrap_or(listen);
        greeting.line("metrics", format_args!("https://{place}/v1/discover"));
        servers.push(server);
    }
    let greeting = greeting.finish("curl", &root, address);
    Ok(Simulation::new(greeting, servers, (cloud, dns)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use bowline_simulator::testing::{Client, ServerAddress, options};

    use super::*;

    #[tokio::test]
    async fn a_simulation_serves_the_api_names_and_metrics_and_says_how_to_use_it() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"machines: [{name: a, count: 3}]\n")
            .unwrap();
        let with_fixture = options(file.path()).with("dns", "127.0.0.1:0");
        let running = serve(&with_fixture.with("cmon", "127.0.0.1:0"))
            .await
            .unwrap();
        let address = running.servers[0].local_addr().unwrap();
        for expected in [
            format!("TRITON_URL=http://{address}"),
            "machines  3".to_owned(),
            "key 25:c0:83:45".to_owned(),
            "names     dig @127.0.0.1".to_owned(),
            "/v1/discover".to_owned(),
        ] {
            assert!(running.greeting.contains(&expected), "{}", running.greeting);
        }
        let client = Client::new(ServerAddress::Socket(address), None);
        let ping = client.get("/--ping").await;
        assert_eq!((ping.status, &ping.json()["ping"]), (200, &"pong".into()));
        let key = client.attempt("POST", "/_sim/private-key", "").await;
        let key = key.unwrap().text();
        assert!(key.contains("BEGIN PRIVATE KEY"), "{key}");
        running.shutdown().await;
    }

    #[tokio::test]
    async fn an_impossible_fixture_is_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"machines: [{name: a, package: none}]\n")
            .unwrap();
        let error = serve(&options(file.path())).await.unwrap_err();
        assert_eq!(
            error.source().unwrap().to_string(),
            "cannot add the machine a: there is no such package"
        );
    }
}
