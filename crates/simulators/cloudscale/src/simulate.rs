//! The simulated cloudscale.ch as a server of its own.

use anyhow::Result;
use bowline_simulator::serve::Server;
use bowline_simulator::simulate::{Flag, Greeting, Options, ServerKind, Simulation};
use futures::FutureExt;

use crate::{Cloudscale, NAME};

/// The server of `bowline simulate`.
pub(crate) const SERVER: ServerKind = ServerKind {
    name: NAME,
    about: "The cloudscale.ch API",
    flags: &[
        Flag::listen("127.0.0.1:18080"),
        Flag::fixture("What the cloud contains: machines, networks, tokens, timings, faults"),
        Flag::seed("Draw names and addresses from this seed"),
    ],
    serve: |options| serve(options).boxed(),
};

async fn serve(options: &Options) -> Result<Simulation> {
    let (world, cloud) = options.load(Cloudscale::from_fixture)?;
    let listen = options.listen()?;
    let server = Server::builder(&world, cloud.clone()).plain(listen).await?;
    let address = server.local_addr().unwrap_or(listen);
    let root = format!("http://{address}");
    let mut greeting = Greeting::new("cloudscale.ch", format_args!("{root}/v1"));
    greeting.line("machines", cloud.servers().len());
    for token in &cloud.config.tokens {
        let right = if token.read_only { ", read-only" } else { "" };
        let (value, project) = (&token.value, &token.project);
        greeting.line("token", format_args!("{value} (project {project}{right})"));
    }
    greeting.line("use it", format_args!("CLOUDSCALE_API_URL={root}/v1"));
    let greeting = greeting.finish("curl", &root, address);
    Ok(Simulation::new(greeting, [server], cloud))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use bowline_simulator::testing::{Client, ServerAddress, options};

    use super::*;

    #[tokio::test]
    async fn a_simulation_serves_its_fixture_and_says_how_to_use_it() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"tokens: [{value: abc}]\nmachines: [{name: a}, {name: b}]\n")
            .unwrap();
        let running = serve(&options(file.path())).await.unwrap();
        let address = running.servers[0].local_addr().unwrap();
        for expected in [
            format!("http://{address}/v1"),
            "token     abc".to_owned(),
            "machines  2".to_owned(),
        ] {
            assert!(running.greeting.contains(&expected), "{}", running.greeting);
        }
        let client = Client::new(ServerAddress::Socket(address), Some("abc"));
        let servers = client.get("/v1/servers").await.json();
        assert_eq!(servers.as_array().unwrap().len(), 2);
        let taken = serve(&options(file.path()).with("listen", address)).await;
        let error = taken.unwrap_err().to_string();
        assert!(error.contains("another program already does"), "{error}");
        running.shutdown().await;
    }

    #[tokio::test]
    async fn a_missing_or_impossible_fixture_is_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let missing = options(file.path()).with("fixture", "/nonexistent/cloud.yaml");
        let error = serve(&missing).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read the fixture /nonexistent/cloud.yaml"
        );
        file.write_all(b"machines: [{name: a, zone: zrh1}]\n")
            .unwrap();
        let error = serve(&options(file.path())).await.unwrap_err();
        let source = error.source().unwrap().to_string();
        assert!(
            source.starts_with("cannot add the machine a: \"zrh1\" is not"),
            "{source}"
        );
    }
}
