//! The Talos Linux provider: asks machines about themselves, wherever they run.
//!
//! # The cloud
//!
//! None: Talos is an operating system whose machines answer over gRPC. A machine has read the
//! metadata of its platform at boot, so that it can be asked for its provider id, zone, type and
//! addresses without any cloud's credentials. One provider serves clusters that span clouds and
//! bare metal.
//!
//! # What to know about it
//!
//! - A machine is found by address alone: the annotation that the kubelet writes for `--node-ip`.
//! - Right after boot a machine knows only which platform it runs on. An id made of that would stay for ever,
//!   so platforms that have ids are waited for ([`id::is_ready`]).
//! - The id is that of the machine's cloud. The cloud that initialises a node and the cloud that knows
//!   whether it exists may be two ([`ownership`]).
//! - Public addresses are on the link `external` where the platform knows them, and on the machine's own links
//!   elsewhere ([`instances::addresses`]).
//! - Operators change all of that with rules, whose values are Go templates ([`transform`]).
//!
//! # The parts
//!
//! ```text
//!  talosconfig ─ endpoint ─▶ credentials ─ follow the file ─┐
//!  config ─ environment, file, checked ─▶ settings ─────────┼─▶ build ─▶ Cloud ─┬─▶ instances ┐
//!                                                           │                   ├─▶ networks ─┼─▶ api ─▶ machines' gRPC
//!                                                           │                   └─▶ certificates (or the Node alone)
//!  instances: machine ─ its answers ──▶ describe: recognise ─▶ describe ──▶ instance with its metadata
//!                                         id · transform · addresses · labels
//!  ownership: which cloud owns a node; instances/lifecycle: does its machine still exist?
//! ```

mod api;
mod certificates;
pub mod config;
mod credentials;
pub mod endpoint;
pub mod id;
pub mod instances;
mod kind;
mod metrics;
mod networks;
pub mod ownership;
mod settings;
pub mod talosconfig;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod transform;

use std::sync::Arc;
use std::time::Duration;

use bowline_core::ipam::Networks;
use bowline_core::{
    BoxFuture, Cloud, CloudName, Instances, Node, NodeMatch, ProviderEvent, ServingCertificates,
};
pub use bowline_http::Seams;
use bowline_http::{Background, Reloaded};
pub use kind::KIND;
use thiserror::Error;
use tokio::time::sleep;
use tracing::info;

use api::Api;
use certificates::Certificates;
use credentials::Keyring;
use instances::Machines;
use networks::MachineNetworks;
use settings::{CloudConfig, Settings};

pub use api::CALL_DEADLINE;
pub use config::{Config, ConfigError, Environment};
pub use credentials::{CredentialsError, POLL};
pub use instances::describe::{DescribeError, nothing, recognise};
pub use metrics::{Metrics, register as register_metrics};

/// The provider's name, as in `--cloud-provider`.
pub const PROVIDER: &str = "talos";
/// How often the machines of the control plane are looked up while somebody asks. They change
/// seldom, and are only needed when none of the named endpoints answers.
const LEARN_EVERY: Duration = Duration::from_secs(300);

#[derive(Clone, Debug)]
pub struct Setup {
    pub environment: Environment,
    /// `--cloud-config`; empty for none.
    pub config_file: String,
    /// The content instead of that file, if given; it does not change.
    pub config_text: Option<String>,
    pub need: Need,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// They do: there is no start without credentials.
    Machines,
    /// Nodes alone decide, as for certificates: credentials may be missing.
    Nodes,
}

#[derive(Debug, Error)]
pub enum BuildError {
    #[error("cannot read the cloud config {path}")]
    Unreadable {
        path: String,
        source: std::io::Error,
    },
    #[error("{path}: {source}")]
    Config { path: String, source: ConfigError },
    /// `Setup::config_text` is refused.
    #[error(transparent)]
    Text { source: ConfigError },
    #[error(transparent)]
    Credentials(Arc<CredentialsError>),
}

/// The cloud. Reads its files and begins to follow them; nobody is called yet. Needs a tokio
/// runtime.
pub fn build(
    setup: Setup,
    seams: Seams,
    metrics: Option<Metrics>,
) -> Result<Arc<dyn Cloud>, BuildError> {
    let Setup {
        environment,
        config_file,
        config_text,
        need,
    } = setup;
    let settings = Reloaded::begin(CloudConfig {
        path: config_file,
        text: config_text,
        metrics: metrics.clone(),
    })?;
    let Seams {
        name,
        connector,
        clock,
        random,
        metrics: _,
    } = seams;
    let (said, held) = (environment.endpoints, Arc::clone(&settings));
    // The environment's, or else those of an old cloud config.
    let endpoints = move || match &*said {
        [] => held.now().unwrap_or_default().endpoints.clone(),
        said => said.to_vec(),
    };
    let keyring = Keyring::open(environment.candidates, endpoints, connector, clock.clone());
    let opened = keyring.current();
    let has_access = need == Need::Machines || opened.is_ok();
    match (opened, need) {
        (Ok(_), _) => {}
        (Err(error), Need::Machines) => return Err(BuildError::Credentials(error)),
        (Err(error), Need::Nodes) => {
            info!("machines cannot be asked, which nothing needs that is switched on: {error}");
        }
    }
    let api = Arc::new(Api::new(keyring, random));
    let following = has_access.then(|| follow(&settings, &api));
    let asked = has_access.then(|| Arc::clone(&api));
    Ok(Arc::new(Talos {
        name,
        need,
        machines: Machines::new(Arc::clone(&api), settings, clock, metrics.clone()),
        networks: MachineNetworks::new(Arc::clone(&api)),
        certificates: Certificates::new(asked, metrics),
        api,
        _following: following,
    }))
}

/// Follows the files, and learns where the control plane is while somebody asks.
fn follow(settings: &Arc<Settings>, api: &Arc<Api>) -> [Background; 2] {
    let (settings, asking) = (Arc::clone(settings), Arc::clone(api));
    // Both outside the fence: they only read.
    let files = Background::start(async move {
        loop {
            sleep(POLL).await;
            settings.look().await;
            asking.keyring.look().await;
        }
    });
    let api = Arc::clone(api);
    let members = Background::start(async move {
        loop {
            api.answered().await;
            api.learn().await;
            sleep(LEARN_EVERY).await;
        }
    });
    [files, members]
}

/// A cluster of Talos machines, wherever they run.
struct Talos {
    name: CloudName,
    need: Need,
    machines: Machines,
    networks: MachineNetworks,
    certificates: Certificates,
    api: Arc<Api>,
    /// End with the cloud.
    _following: Option<[Background; 2]>,
}

impl Cloud for Talos {
    fn name(&self) -> &CloudName {
        &self.name
    }

    fn provider(&self) -> &'static str {
        PROVIDER
    }

    fn match_node(&self, node: &Node) -> NodeMatch {
        (KIND.match_node)(node)
    }

    fn ready(&self) -> Result<(), String> {
        match self.need {
            Need::Machines => self.api.ready(),
            Need::Nodes => Ok(()),
        }
    }

    fn next_event(&self) -> BoxFuture<'_, ProviderEvent> {
        Box::pin(self.api.next_event())
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(&self.machines)
    }

    fn networks(&self) -> Option<&dyn Networks> {
        Some(&self.networks)
    }

    fn serving_certificates(&self) -> Option<&dyn ServingCertificates> {
        Some(&self.certificates)
    }
}
