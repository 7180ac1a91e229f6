//! The simulated Talos machines as servers of their own, and their control handle beside them.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{SimulateError, warn, world};
use crate::World;
use crate::fixture;
use crate::kubernetes::certificates::Keys;
use crate::serve::Server;
use crate::talos::{Access, Control, Fixture, MachineSpec, Talos};

/// How long the certificate in the written file is good. A real one lasts six hours and is written anew in
/// time; here nobody would.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// How to run the simulated Talos machines.
#[derive(Clone, Debug)]
pub struct TalosOptions {
    /// Where the first machine of the control plane listens; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Where the control handle listens.
    pub control: SocketAddr,
    /// Where to write the talosconfig of a reader.
    pub talosconfig: PathBuf,
    /// The machines; none: one of the control plane.
    pub fixture: Option<PathBuf>,
    /// The seed of keys and draws; none: different in every run.
    pub seed: Option<u64>,
}

/// Simulated Talos machines that run.
#[derive(Debug)]
pub struct TalosSimulation {
    /// The API of each endpoint; they stop when this is dropped.
    pub servers: Vec<Server>,
    /// The control handle.
    pub control: Server,
    /// The world that they live in: journal, faults, machines.
    pub world: World,
    /// The machines themselves, for direct control.
    pub talos: Arc<Talos>,
    /// What to tell the person who started it.
    pub greeting: String,
}

impl TalosSimulation {
    /// Stops all servers.
    pub async fn shutdown(self) {
        for server in self.servers {
            server.shutdown().await;
        }
        self.control.shutdown().await;
    }
}

/// Starts the simulated machines: every one of the control plane is an endpoint (or, where there is none,
/// the first machine).
pub async fn talos(options: TalosOptions) -> Result<TalosSimulation, SimulateError> {
    let scene: Fixture = match &options.fixture {
        Some(path) => fixture::read(path)?,
        None => Fixture {
            machines: vec![MachineSpec::named("cp-1", &["eth0/10.0.0.2/24"]).control_plane()],
            ..Fixture::default()
        },
    };
    let world = world(options.seed);
    let keys = match options.seed {
        Some(_) => Keys::seeded(&world.random),
        None => Keys::System,
    };
    let talos = Talos::from_fixture_with(&world, scene, keys)?;
    let endpoints = endpoints(&talos);
    let mut servers = Vec::new();
    for (number, machine) in endpoints.iter().enumerate() {
        let mut address = options.listen;
        if number > 0 {
            address.set_port(0);
        }
        servers.push(talos.listen(machine, address).await?);
    }
    let places: Vec<String> = servers
        .iter()
        .filter_map(Server::local_addr)
        .map(|address| address.to_string())
        .collect();
    let builder = Server::builder(&world, Control::new(&talos));
    let control = builder.plain(options.control).await?;
    write_talosconfig(&talos, &places, &options)?;
    let address = control.local_addr().unwrap_or(options.control);
    let greeting = greeting(&talos, &endpoints, &places, &options, address);
    Ok(TalosSimulation {
        servers,
        control,
        world,
        talos,
        greeting,
    })
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

fn write_talosconfig(
    talos: &Talos,
    places: &[String],
    options: &TalosOptions,
) -> Result<(), SimulateError> {
    let places: Vec<&str> = places.iter().map(String::as_str).collect();
    let access = Access::reader(&places).lifetime(LIFETIME);
    let text = talos.talosconfig(&access)?;
    std::fs::write(&options.talosconfig, text).map_err(|source| SimulateError::Talosconfig {
        path: options.talosconfig.clone(),
        source,
    })
}

fn greeting(
    talos: &Talos,
    endpoints: &[String],
    places: &[String],
    options: &TalosOptions,
    control: SocketAddr,
) -> String {
    let file = options.talosconfig.display();
    let mut greeting = format!("Talos machines, simulated, on {}\n", places.join(", "));
    let _ = writeln!(greeting, "  endpoints {}", endpoints.join(", "));
    let _ = writeln!(greeting, "  machines  {}", talos.machines().len());
    let _ = writeln!(greeting, "  use it    TALOSCONFIG={file}");
    let _ = writeln!(greeting, "  control   http://{control}/_sim/");
    let _ = writeln!(greeting, "  journal   curl http://{control}/_sim/journal");
    let _ = writeln!(greeting, "  state     curl http://{control}/_sim/state");
    warn(&mut greeting, control);
    greeting
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Client, Place};

    fn options(folder: &tempfile::TempDir) -> TalosOptions {
        let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
        TalosOptions {
            listen: loopback,
            control: loopback,
            talosconfig: folder.path().join("talosconfig"),
            fixture: None,
            seed: Some(1),
        }
    }

    #[tokio::test]
    async fn a_simulation_writes_a_talosconfig_and_says_how_to_use_it() {
        let folder = tempfile::tempdir().unwrap();
        let fixture = folder.path().join("cluster.yaml");
        std::fs::write(
            &fixture,
            "machines:\n  - {name: a, control_plane: true, addresses: [eth0/10.0.0.2/24]}\n  \
             - {name: b, control_plane: true, addresses: [eth0/10.0.0.3/24]}\n  \
             - {name: c, addresses: [eth0/10.0.0.4/24]}\n",
        )
        .unwrap();
        let options = TalosOptions {
            fixture: Some(fixture),
            ..options(&folder)
        };
        let running = talos(options.clone()).await.unwrap();
        let control = running.control.local_addr().unwrap();
        for expected in [
            "endpoints a, b".to_owned(),
            "machines  3".to_owned(),
            format!("TALOSCONFIG={}", options.talosconfig.display()),
            format!("http://{control}/_sim/"),
        ] {
            assert!(running.greeting.contains(&expected), "{}", running.greeting);
        }
        let written = std::fs::read_to_string(&options.talosconfig).unwrap();
        for server in &running.servers {
            let address = server.local_addr().unwrap().to_string();
            assert!(written.contains(&address), "{written}");
        }
        let client = Client::new(Place::Socket(control), None);
        let state = client.get("/_sim/state").await.json();
        assert_eq!(state["machines"][2]["name"], "c");
        running.shutdown().await;
    }

    #[tokio::test]
    async fn without_a_control_plane_the_first_machine_answers_for_itself() {
        let folder = tempfile::tempdir().unwrap();
        let fixture = folder.path().join("cluster.yaml");
        let text = "machines: [{name: w, addresses: [eth0/10.0.0.4/24]}]\n";
        std::fs::write(&fixture, text).unwrap();
        let options = TalosOptions {
            fixture: Some(fixture),
            ..options(&folder)
        };
        let running = talos(options).await.unwrap();
        assert!(running.greeting.contains("endpoints w"));
        assert_eq!(running.servers.len(), 1);
    }

    #[tokio::test]
    async fn what_cannot_be_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = TalosOptions {
            talosconfig: folder.path().join("none/talosconfig"),
            ..options(&folder)
        };
        let error = talos(nowhere).await.unwrap_err().to_string();
        assert!(error.starts_with("cannot write the talosconfig"), "{error}");
        let fixture = folder.path().join("cluster.yaml");
        std::fs::write(&fixture, "machines: [{name: w, addresses: [eth0]}]\n").unwrap();
        let impossible = TalosOptions {
            fixture: Some(fixture),
            ..options(&folder)
        };
        let error = talos(impossible).await.unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("is no address of a link"), "{source}");
    }
}
