//! The simulated Xen Orchestra as a server of its own, with or without TLS.

use anyhow::{Context, Result};
use bowline_simulator::serve::{Identity, Server};
use bowline_simulator::simulate::{Flag, FlagValue, Greeting, Options, ServerKind, Simulation};
use futures::FutureExt;

use crate::{NAME, XenOrchestra};

/// The server of `bowline simulate`.
pub(crate) const SERVER: ServerKind = ServerKind {
    name: NAME,
    about: "Xen Orchestra's REST API v0, its events and its socket",
    flags: &[
        Flag::listen("127.0.0.1:18083"),
        Flag::fixture("What there is: pools, hosts, VMs, users, tokens, timings, faults"),
        Flag::new(
            "tls",
            FlagValue::Switch,
            "Serve TLS, with a certificate that nobody signed",
        ),
        Flag::seed("Draw names and addresses from this seed"),
    ],
    serve: |options| serve(options).boxed(),
};

async fn serve(options: &Options) -> Result<Simulation> {
    let (world, orchestra) = options.load(XenOrchestra::from_fixture)?;
    let config = &orchestra.config;
    let listen = options.listen()?;
    let builder = Server::builder(&world, orchestra.clone()).http1_only();
    let (server, scheme, curl, insecure) = if options.is_set("tls") {
        let names = ["localhost".to_owned(), listen.ip().to_string()];
        let identity = Identity::self_signed(names).context("cannot make a certificate")?;
        let server = builder.tls(listen, identity).await?;
        (server, "https", "curl -k", " XOA_INSECURE=true")
    } else {
        (builder.plain(listen).await?, "http", "curl", "")
    };
    let address = server.local_addr().unwrap_or(listen);
    let prefix = config.quirks.path_prefix.clone().unwrap_or_default();
    let root = format!("{scheme}://{address}{}", prefix.trim_end_matches('/'));
    let mut greeting = Greeting::new("Xen Orchestra", &root);
    let (pools, hosts) = (orchestra.pools().len(), orchestra.hosts().len());
    let vms = orchestra.vms().len();
    greeting.line(
        "VMs",
        format_args!("{vms} on {hosts} hosts in {pools} pools"),
    );
    for (token, user) in &config.tokens {
        greeting.line("token", format_args!("{token} ({user})"));
    }
    for (name, user) in &config.users {
        greeting.line("user", format_args!("{name} (password {})", user.password));
    }
    greeting.line(
        "use it",
        format_args!("XOA_URL={root}{insecure} XOA_TOKEN=…"),
    );
    let greeting = greeting.finish(curl, format_args!("{scheme}://{address}"), address);
    Ok(Simulation::new(greeting, [server], orchestra))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use bowline_simulator::testing::{Client, ServerAddress, options};

    use super::*;
    use crate::DEFAULT_TOKEN;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[tokio::test]
    async fn a_simulation_serves_its_fixture_and_says_how_to_use_it() {
        let file = file("pools: [{name: p}]\nhosts: [{name: h}]\nvms: [{name: v, count: 3}]\n");
        let running = serve(&options(file.path())).await.unwrap();
        let address = running.servers[0].local_addr().unwrap();
        for expected in [
            format!("XOA_URL=http://{address} XOA_TOKEN"),
            "3 on 1 hosts in 1 pools".to_owned(),
            format!("token     {DEFAULT_TOKEN} (admin@admin.net)"),
        ] {
            assert!(running.greeting.contains(&expected), "{}", running.greeting);
        }
        let client = Client::new(ServerAddress::Socket(address), None);
        assert_eq!(client.get("/rest/v0/ping").await.json()["result"], "pong");
        running.shutdown().await;
    }

    #[tokio::test]
    async fn tls_is_served_without_http2_and_with_a_certificate_of_its_own() {
        let file = file("quirks: {redirect_to_https: 1}\n");
        let running = serve(&options(file.path()).with("tls", "")).await.unwrap();
        let address = running.servers[0].local_addr().unwrap();
        assert!(
            running
                .greeting
                .contains(&format!("XOA_URL=https://{address} XOA_INSECURE=true"))
        );
        // A plain request is no handshake.
        let plain = Client::new(ServerAddress::Socket(address), None);
        assert!(plain.attempt("GET", "/rest/v0/ping", "").await.is_err());
        running.shutdown().await;
    }

    #[tokio::test]
    async fn an_impossible_fixture_is_refused() {
        let file = file("vms: [{name: a}]\n");
        let error = serve(&options(file.path())).await.unwrap_err();
        let source = error.source().unwrap().to_string();
        assert_eq!(source, "cannot add the VM a: there are no pools");
    }
}
