//! The simulated Talos machines as servers of their own, and their control handle beside them.

use std::time::Duration;

use anyhow::{Context, Result};
use bowline_simulator::keys::Keys;
use bowline_simulator::serve::Server;
use bowline_simulator::simulate::{Flag, FlagValue, Greeting, Options, ServerKind, Simulation};
use futures::FutureExt;

use crate::{Access, ControlServer, Fixture, MachineSpec, NAME, Talos};

/// The server of `bowline simulate`.
pub(crate) const SERVER: ServerKind = ServerKind {
    name: NAME,
    about: "The API of Talos machines: a whole cluster of them",
    flags: &[
        Flag::listen("127.0.0.1:15000"),
        Flag::new(
            "control",
            FlagValue::Address,
            "Where the journal, the state and the control handle are",
        )
        .or("127.0.0.1:15001"),
        Flag::new(
            "talosconfig",
            FlagValue::File,
            "Where to write the talosconfig of a reader",
        )
        .or("bowline.talosconfig"),
        Flag::fixture("The machines: addresses, platforms, stages, timings, faults"),
        Flag::seed("Draw keys and ids from this seed"),
    ],
    serve: |options| serve(options).boxed(),
};

/// How long the certificate in the written file is good. A real one lasts six hours and is written anew in
/// time; here nobody would.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// Starts the simulated machines: every one of the control plane is an endpoint (or, where there is none,
/// the first machine).
async fn serve(options: &Options) -> Result<Simulation> {
    let fixture = options.fixture()?.unwrap_or_else(|| Fixture {
        machines: vec![MachineSpec::named("cp-1", &["eth0/10.0.0.2/24"]).control_plane()],
        ..Fixture::default()
    });
    let world = options.world()?;
    let keys = match options.seed()? {
        Some(_) => Keys::seeded(&world.random),
        None => Keys::System,
    };
    let talos = Talos::from_fixture_with(&world, fixture, keys);
    let talos = talos.context("the content of the fixture cannot be set up")?;
    let endpoints = endpoints(&talos);
    let mut servers = Vec::new();
    let mut listen = options.listen()?;
    for machine in &endpoints {
        servers.push(talos.listen(machine, listen).await?);
        listen.set_port(0);
    }
    let places = servers.iter().filter_map(Server::local_addr);
    let places: Vec<String> = places.map(|address| address.to_string()).collect();
    let listen = options.address("control")?;
    let listen = listen.context("--control is missing")?;
    let builder = Server::builder(&world, ControlServer::new(&talos));
    let control = builder.plain(listen).await?;
    let file = options.file("talosconfig")?;
    let named: Vec<&str> = places.iter().map(String::as_str).collect();
    let access = Access::reader(&named).lifetime(LIFETIME);
    let file_name = file.display();
    std::fs::write(&file, talos.talosconfig(&access)?)
        .with_context(|| format!("cannot write the talosconfig {file_name}"))?;

    let address = control.local_addr().unwrap_or(listen);
    let mut greeting = Greeting::new("Talos machines", places.join(", "));
    greeting.line("endpoints", endpoints.join(", "));
    greeting.line("machines", talos.machines().len());
    greeting.line("use it", format_args!("TALOSCONFIG={file_name}"));
    greeting.line("control", format_args!("http://{address}/_sim/"));
    let greeting = greeting.finish("curl", format_args!("http://{address}"), address);
    servers.push(control);
    Ok(Simulation::new(greeting, servers, talos))
}

/// The machines whose API is served.
fn endpoints(talos: &Talos) -> Vec<String> {
    let machines = talos.machines();
    let planes = machines.iter().filter(|one| one.control_plane);
    let planes: Vec<String> = planes.map(|one| one.name.clone()).collect();
    if planes.is_empty() {
        let first = machines.first();
        return first.map(|one| one.name.clone()).into_iter().collect();
    }
    planes
}

#[cfg(test)]
mod tests {
    use bowline_simulator::testing::{Client, ServerAddress};

    use super::*;

    fn options(folder: &tempfile::TempDir) -> Options {
        Options::default()
            .with("listen", "127.0.0.1:0")
            .with("control", "127.0.0.1:0")
            .with("talosconfig", folder.path().join("talosconfig").display())
            .with("seed", 1)
    }

    /// The same with that fixture.
    fn with_fixture(folder: &tempfile::TempDir, text: &str) -> Options {
        let fixture = folder.path().join("cluster.yaml");
        std::fs::write(&fixture, text).unwrap();
        options(folder).with("fixture", fixture.display())
    }

    #[tokio::test]
    async fn a_simulation_writes_a_talosconfig_and_says_how_to_use_it() {
        let folder = tempfile::tempdir().unwrap();
        let options = with_fixture(
            &folder,
            "machines:\n  - {name: a, control_plane: true, addresses: [eth0/10.0.0.2/24]}\n  \
             - {name: b, control_plane: true, addresses: [eth0/10.0.0.3/24]}\n  \
             - {name: c, addresses: [eth0/10.0.0.4/24]}\n",
        );
        let file = options.file("talosconfig").unwrap();
        let running = serve(&options).await.unwrap();
        let (control, endpoints) = running.servers.split_last().unwrap();
        let control = control.local_addr().unwrap();
        for expected in [
            "endpoints a, b".to_owned(),
            "machines  3".to_owned(),
            format!("TALOSCONFIG={}", file.display()),
            format!("http://{control}/_sim/"),
        ] {
            assert!(running.greeting.contains(&expected), "{}", running.greeting);
        }
        let written = std::fs::read_to_string(&file).unwrap();
        for server in endpoints {
            let address = server.local_addr().unwrap().to_string();
            assert!(written.contains(&address), "{written}");
        }
        let client = Client::new(ServerAddress::Socket(control), None);
        let state = client.get("/_sim/state").await.json();
        assert_eq!(state["machines"][2]["name"], "c");
        running.shutdown().await;
    }

    #[tokio::test]
    async fn without_a_control_plane_the_first_machine_answers_for_itself() {
        let folder = tempfile::tempdir().unwrap();
        let text = "machines: [{name: w, addresses: [eth0/10.0.0.4/24]}]\n";
        let running = serve(&with_fixture(&folder, text)).await.unwrap();
        assert!(running.greeting.contains("endpoints w"));
        assert_eq!(running.servers.len(), 1 + 1);
    }

    #[tokio::test]
    async fn what_cannot_be_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = folder.path().join("none/talosconfig");
        let nowhere = options(&folder).with("talosconfig", nowhere.display());
        let error = serve(&nowhere).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot write the talosconfig"), "{error}");
        let impossible = with_fixture(&folder, "machines: [{name: w, addresses: [eth0]}]\n");
        let error = serve(&impossible).await.unwrap_err();
        let source = error.source().unwrap().to_string();
        assert!(source.contains("is no address of a link"), "{source}");
    }
}
