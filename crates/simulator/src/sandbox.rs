//! A simulated cloud as `bowline sandbox` and `bowline simulate` know it: one [`SimulatorKind`].
//! The program has one array of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures::future::BoxFuture;

use crate::serve::{Api, Server};
use crate::simulate::ServerKind;
use crate::{KubeletSpec, World};

/// One simulated cloud: how its server is started, the settings of its provider, and the words that the
/// sandbox prints about it.
#[derive(Clone, Copy)]
pub struct SimulatorKind {
    /// Its server alone. Its name is also that of the provider: in `--cloud`, in
    /// `--cloud-provider`, and in `provider` of a configuration.
    pub server: ServerKind,
    /// What people call the cloud.
    pub title: &'static str,
    /// What its API is called.
    pub api: &'static str,
    /// What the provider id of its nodes begins with.
    pub provider_id: &'static str,
    /// What its load balancers are called; none if it has none.
    pub balancer: Option<Words>,
    /// Whether it can say that a machine is off or gone.
    pub knows_power: bool,
    /// Whether it is a system that also runs on machines of other clouds.
    pub is_guest: bool,
    /// Namespace and name of the service account in the original's manifest.
    pub account: (&'static str, &'static str),
    /// That account and its roles, as objects of a cluster.
    pub manifest: fn() -> Vec<serde_json::Value>,
    /// Its accounts in a sandbox of several clouds.
    pub accounts: &'static [NamedAccount],
    /// Starts its simulator in a sandbox.
    pub start: for<'a> fn(&'a World, Account) -> BoxFuture<'a, Result<Running>>,
}

/// An account in a sandbox of several clouds.
#[derive(Clone, Copy, Debug)]
pub struct NamedAccount {
    /// Its name in the configuration.
    pub name: &'static str,
    /// A line about it in the configuration; may be empty.
    pub line: &'static str,
}

/// Which account of a cloud a simulator is for.
#[derive(Clone, Debug)]
pub struct Account {
    /// What it is called: in the configuration, and in the journal.
    pub name: String,
    /// How many clouds there are before it.
    pub number: usize,
    /// Where its API is to be.
    pub place: Place,
}

/// Where the API of a simulated cloud is.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// On a socket; port 0 picks a free one.
    Socket(SocketAddr),
    /// On a pipe of the world, at the host `<name>.localhost`: for runs under a paused clock.
    Pipe,
}

/// What load balancers are called.
#[derive(Clone, Copy)]
pub struct Words {
    /// What one is called.
    pub name: &'static str,
    /// What is behind one, after "creates a …".
    pub behind: &'static str,
    /// What follows when nodes come and go.
    pub follows: &'static str,
}

pub struct Running {
    /// The cloud behind its API.
    pub cloud: Arc<dyn SimulatedCloud>,
    /// What serves the API.
    pub server: Server,
    /// What the server is called in the journal and in fault rules.
    pub recorded_as: String,
}

impl Running {
    /// Serves that API for that account, and makes the cloud that the sandbox works with, given host and port.
    pub async fn serve<C: SimulatedCloud + 'static>(
        world: &World,
        account: Account,
        api: Arc<dyn Api>,
        cloud: impl FnOnce(String) -> C,
    ) -> Result<Self> {
        let server = Server::builder(world, api).named(&account.name);
        let (server, authority) = match account.place {
            Place::Socket(address) => {
                let server = server.plain(address).await?;
                let address = server.local_addr().context("the cloud has no address")?;
                (server, address.to_string())
            }
            Place::Pipe => {
                let host = format!("{}.localhost", account.name);
                (server.pipe(&format!("{host}:80")), host)
            }
        };
        Ok(Self {
            cloud: Arc::new(cloud(authority)),
            server,
            recorded_as: account.name,
        })
    }
}

/// What the sandbox does to a simulated cloud, and sees of it, behind the back of its API.
pub trait SimulatedCloud: Send + Sync {
    /// Where its API is, for people.
    fn url(&self) -> String;

    /// The settings of its provider in the form of the original. Files go into that folder.
    fn settings(&self, folder: &Path) -> Settings;

    /// The settings of its provider in Bowline's own configuration, where the cloud has that name.
    fn section(&self, name: &str, folder: &Path) -> Section;

    /// Makes a machine that runs, and gives the kubelet on it.
    fn boot(&self, machine: &str) -> Result<KubeletSpec>;

    /// Powers a machine off.
    fn stop(&self, machine: &str) -> Result<()>;

    /// Powers a machine on.
    fn start(&self, machine: &str) -> Result<()>;

    fn destroy(&self, machine: &str) -> Result<()>;

    /// Makes so many machines of somebody else's, where lists of machines have pages.
    fn crowd(&self, count: usize) -> Result<()> {
        let _ = count;
        Ok(())
    }

    /// The addresses of a machine, the one inside first; none if nobody has to know them.
    fn addresses(&self, machine: &str) -> Vec<IpAddr> {
        let _ = machine;
        Vec::new()
    }

    /// Runs on a machine of another cloud, and gives the kubelet there. Few clouds are such systems.
    fn run_on(&self, host: &Host) -> Result<KubeletSpec> {
        bail!("{} is a machine of its own cloud alone", host.name)
    }

    /// The load balancers there are, by id.
    fn balancers(&self) -> Balancers {
        Balancers::new()
    }

    /// Makes a load balancer, as somebody else would; nothing if it has no such things.
    fn add_balancer(&self, name: &str) -> Result<()> {
        let _ = name;
        Ok(())
    }

    /// Deletes a load balancer, as somebody else would.
    fn remove_balancer(&self, id: &str) -> Result<()> {
        bail!("{id} is no load balancer")
    }

    /// Its routes to pods: where packets for each range go, of others too; none if it has no such things.
    fn routes(&self) -> Option<BTreeMap<String, String>> {
        None
    }

    /// What its DNS answers about a name.
    fn addresses_of(&self, name: &str) -> BTreeSet<String> {
        let _ = name;
        BTreeSet::new()
    }

    /// What only this cloud has; none if there is nothing.
    fn extras(&self) -> Option<Extras> {
        None
    }

    /// What can be done to its pools of hosts; none if people do not see such things.
    fn pools(&self) -> Option<&dyn Pools> {
        None
    }
}

/// What can be done to a cloud whose machines run on hosts that people see.
pub trait Pools {
    /// Moves a machine to another host, and gives the zone that its node has from then on.
    fn migrate(&self, machine: &str) -> Result<String>;

    /// Lets the cloud lose the connection to all hosts, and thereby sight of all machines.
    fn disconnect(&self) -> Result<()>;

    /// Connects it again.
    fn connect(&self) -> Result<()>;
}

/// A machine of another cloud.
pub struct Host {
    pub name: String,
    /// The kubelet that its cloud would have there.
    pub kubelet: KubeletSpec,
    /// What kind of cloud it is.
    pub platform: &'static str,
    /// Its addresses, the one inside first.
    pub addresses: Vec<IpAddr>,
}

/// What a cloud has that others have not.
#[derive(Clone)]
pub struct Extras {
    /// How its DNS is asked.
    pub dig: String,
    /// The class of Services that get machines of their own.
    pub class: &'static str,
    /// The page that leads Prometheus to machines.
    pub page: &'static str,
    /// What is kept for it: Secret and ConfigMap.
    pub kept: (&'static str, &'static str),
}

/// The settings of a provider in the form of its original, beside the flags of every manager.
#[derive(Default)]
pub struct Settings {
    /// Files of the sandbox's folder: name and content.
    pub files: Vec<(&'static str, String)>,
    /// Variables of the environment.
    pub environment: BTreeMap<String, String>,
    /// Further arguments of its command line.
    pub arguments: Vec<String>,
}

/// The settings of a provider in Bowline's own configuration.
pub struct Section {
    /// Files of the sandbox's folder: name and content.
    pub files: Vec<(String, String)>,
    /// Its settings, as lines of YAML.
    pub settings: String,
}

impl Section {
    /// Settings with one secret, in a file of its own: `settings` gets the reference to it.
    pub fn with_secret(
        folder: &Path,
        file: String,
        secret: &str,
        settings: impl FnOnce(&str) -> String,
    ) -> Self {
        let reference = format!("{{file: {}}}", written(&folder.join(&file)));
        Self {
            files: vec![(file, format!("{secret}\n"))],
            settings: settings(&reference),
        }
    }
}

/// A path as YAML has it: in quotes where it could be misread.
pub fn written(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "/._-".contains(it);
    if text.starts_with('/') && text.chars().all(is_plain) {
        text
    } else {
        serde_json::Value::String(text).to_string()
    }
}

/// Load balancers by id.
pub type Balancers = BTreeMap<String, Balancer>;

/// A load balancer as the story sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balancer {
    pub name: String,
    /// The uid of the Service that it was made for, where something else than the name says so.
    pub owner: String,
    pub addresses: BTreeSet<String>,
    /// Whether it is more than a promise: no longer being made.
    pub is_made: bool,
    /// What it consists of besides its targets, in the cloud's words: `listener tcp/80`.
    pub parts: BTreeSet<String>,
    /// The machines behind it.
    pub targets: BTreeSet<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_path_that_could_be_misread_stands_in_quotes() {
        for (path, wanted) in [
            ("/tmp/bowline-1/zurich.token", "/tmp/bowline-1/zurich.token"),
            ("/tmp/a, b}/t", "\"/tmp/a, b}/t\""),
            ("sand/t", "\"sand/t\""),
        ] {
            assert_eq!(written(Path::new(path)), wanted);
        }
    }
}
