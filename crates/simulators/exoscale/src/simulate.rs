//! The simulated Exoscale as a server of its own, and its metadata server beside it.

use anyhow::Result;
use bowline_simulator::serve::Server;
use bowline_simulator::simulate::{Flag, FlagValue, Greeting, Options, ServerKind, Simulation};
use futures::FutureExt;

use crate::{Exoscale, Metadata, NAME};

/// The server of `bowline simulate`.
pub(crate) const SERVER: ServerKind = ServerKind {
    name: NAME,
    about: "Exoscale's API v2",
    flags: &[
        Flag::listen("127.0.0.1:18081"),
        Flag::fixture(
            "What the cloud contains: zones, instances, pools, load balancers, keys, timings, faults",
        ),
        Flag::new(
            "metadata",
            FlagValue::Address,
            "Also serve what an instance can ask about itself, there",
        ),
        Flag::seed("Draw names and addresses from this seed"),
    ],
    serve: |options| serve(options).boxed(),
};

async fn serve(options: &Options) -> Result<Simulation> {
    let (world, cloud) = options.load(Exoscale::from_fixture)?;
    let config = &cloud.config;
    let listen = options.listen()?;
    let mut servers = vec![Server::builder(&world, cloud.clone()).plain(listen).await?];
    let address = servers[0].local_addr().unwrap_or(listen);
    let root = format!("http://{address}");
    let mut greeting = Greeting::new("Exoscale", format_args!("{root}/v2"));
    greeting.line("zones", config.zones.join(", "));
    greeting.line("instances", cloud.instances().len());
    for (key, role) in &config.keys {
        greeting.line("key", format_args!("{key} (secret {})", role.secret));
    }
    greeting.line("use it", format_args!("EXOSCALE_API_ENDPOINT={root}/v2"));
    if let Some(listen) = options.address("metadata")? {
        let zone = config.zones.first().cloned().unwrap_or_default();
        let first = cloud.instances().into_iter().next();
        let instance = first.map(|instance| instance.id).unwrap_or_default();
        let api = Metadata::new(&zone, &instance);
        let server = Server::builder(&world, api).plain(listen).await?;
        let address = server.local_addr().unwrap_or(listen);
        greeting.line(
            "metadata",
            format_args!("http://{address}/latest/meta-data/"),
        );
        servers.push(server);
    }
    let greeting = greeting.finish("curl", &root, address);
    Ok(Simulation::new(greeting, servers, cloud))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use bowline_simulator::testing::{Client, ServerAddress, options};

    use super::*;

    #[tokio::test]
    async fn a_simulation_serves_zones_and_metadata_and_says_how_to_use_it() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"zones: [at-vie-1, ch-dk-2]\ninstances: [{name: a, count: 3}]\n")
            .unwrap();
        let with_fixture = options(file.path()).with("metadata", "127.0.0.1:0");
        let running = serve(&with_fixture).await.unwrap();
        let address = running.servers[0].local_addr().unwrap();
        for expected in [
            format!("EXOSCALE_API_ENDPOINT=http://{address}/v2"),
            "zones     at-vie-1, ch-dk-2".to_owned(),
            "instances 3".to_owned(),
            "/latest/meta-data/".to_owned(),
        ] {
            assert!(running.greeting.contains(&expected), "{}", running.greeting);
        }
        let client = Client::new(ServerAddress::Socket(address), None);
        let zones = client.get("/v2/zone").await.json();
        assert_eq!(zones["zones"][1]["name"], "ch-dk-2");
        let place = running.servers[1].local_addr().unwrap();
        let client = Client::new(ServerAddress::Socket(place), None);
        let reported = client.get("/latest/meta-data/availability-zone").await;
        assert_eq!(
            (reported.status, reported.text().as_str()),
            (200, "at-vie-1")
        );
        assert_eq!(client.get("/latest/meta-data/nothing").await.status, 404);
        running.shutdown().await;
    }

    #[tokio::test]
    async fn an_impossible_fixture_is_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"instances: [{name: a, zone: mars}]\n")
            .unwrap();
        let error = serve(&options(file.path())).await.unwrap_err();
        assert_eq!(
            error.source().unwrap().to_string(),
            "cannot add the instance a: \"mars\" is no zone; there are ch-gva-2"
        );
    }
}
