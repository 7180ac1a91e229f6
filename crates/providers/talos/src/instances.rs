//! Asks the machine of each node, and describes it.
//!
//! ```text
//!  node ─▶ is it Talos? ─▶ its addresses ─▶ platform metadata, by the first address that answers
//!                                              │
//!            instance ◀─ describe ◀─ addresses ◀─ firmware, if a rule needs it ◀─ recognise
//! ```
//!
//! Each node's machine is asked by itself: one that hangs costs its own node some time, and no
//! other.

pub mod addresses;
pub mod describe;
pub mod labels;
pub mod lifecycle;
pub mod machine;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BoxFuture, CloudError, CloudErrorKind, Evidence, Instance, Instances, Lookup, Node,
};
use bowline_http::Clock;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use tokio::time::{Instant, timeout};
use tracing::info;

use crate::api::{Api, ApiError, CALL_DEADLINE, CALLS};
use crate::certificates::mismatch;
use crate::metrics::{Asked, Metrics};
use crate::ownership::{Kind, kind};
use crate::settings::Settings;
use addresses::node_ips;
use describe::{DescribeError, nothing, recognise};
use machine::{PlatformMetadata, SystemInformation};

/// The reason of the event about a Node that names another machine's address.
pub(crate) const MISMATCH: &str = "MachineNameMismatch";
/// How long one machine may take in all: two addresses, each given up at its deadline.
const MACHINE_DEADLINE: Duration = CALL_DEADLINE.saturating_mul(2);
/// How long machines are begun with in one look-up, which has two minutes: the last of them has
/// [`MACHINE_DEADLINE`] left.
const ASKING_TIME: Duration = Duration::from_secs(90);

pub(crate) struct Machines {
    api: Arc<Api>,
    settings: Arc<Settings>,
    clock: Clock,
    metrics: Option<Metrics>,
}

impl Machines {
    pub(crate) fn new(
        api: Arc<Api>,
        settings: Arc<Settings>,
        clock: Clock,
        metrics: Option<Metrics>,
    ) -> Self {
        Self {
            api,
            settings,
            clock,
            metrics,
        }
    }

    async fn answer(&self, node: &Node, begun: Instant) -> Lookup {
        if kind(&node.os_image) == Kind::Other {
            return Lookup::NotMine;
        }
        let Some(annotation) = node.provided_node_ip() else {
            return unaddressed(node);
        };
        if begun.elapsed() >= ASKING_TIME {
            let text = "there are too many machines to ask each in time";
            return Lookup::CannotTell(CloudError::new(CloudErrorKind::Unavailable, text));
        }
        match timeout(MACHINE_DEADLINE, self.describe(node, annotation)).await {
            Ok(Ok(instance)) => Lookup::Found(Box::new(instance)),
            Ok(Err(error)) => Lookup::CannotTell(error),
            Err(_) => Lookup::CannotTell(CloudError::new(
                CloudErrorKind::Unavailable,
                format!("the machine of node {} takes too long", node.name),
            )),
        }
    }

    async fn describe(&self, node: &Node, annotation: &str) -> Result<Instance, CloudError> {
        let config = self.settings.now().unwrap_or_default();
        let addresses = node_ips(annotation, config.prefer_ipv6);
        let (node_ip, metadata) = self.metadata(node, &addresses).await?;
        self.is_its_own(node, node_ip).await?;
        let recognised = recognise(&config, node, &metadata, node_ip, self.clock.now());
        let recognised = recognised.map_err(|error| self.undescribed(&error))?;
        let about = |what: &str| format!("error getting {what} from the node {}", node.name);
        let system = if recognised.needs_system_information() {
            let asked = self.api.system_information(node_ip);
            let asked = self.timed(Asked::SystemInformation, Instant::now(), asked);
            let answer = asked.await;
            answer.map_err(|error| failed(about("system info"), error))?
        } else {
            SystemInformation::default()
        };
        let asked = self.api.addresses(node_ip);
        let asked = self.timed(Asked::Addresses, Instant::now(), asked);
        let answer = asked.await;
        let listed = answer.map_err(|error| failed(about("interfaces list"), error))?;
        let begun = Instant::now();
        let cluster = self.api.cluster();
        let described = recognised.describe(&config, node, &system, &listed, cluster.as_deref());
        if let Some(metrics) = self.metrics.as_ref().filter(|_| !config.rules.is_empty()) {
            metrics.transformed(begun.elapsed());
        }
        described.map_err(|error| self.undescribed(&error))
    }

    /// A machine describes only its own Node: whoever writes the annotation may write any address
    /// there.
    async fn is_its_own(&self, node: &Node, node_ip: IpAddr) -> Result<(), CloudError> {
        let name = self.api.node_name(node_ip).await.map_err(|error| {
            let text = format!("error getting the node name from the node {}", node.name);
            failed(text, error)
        })?;
        if name == node.name {
            return Ok(());
        }
        let text = mismatch(node_ip, &name, &node.name);
        let text = format!("{text}: nothing of it is copied to the Node");
        Err(CloudError::new(CloudErrorKind::Invalid, text).reported_as(MISMATCH))
    }

    /// The platform metadata of a machine, from the first of its addresses that answers.
    async fn metadata(
        &self,
        node: &Node,
        addresses: &[IpAddr],
    ) -> Result<(IpAddr, PlatformMetadata), CloudError> {
        // Never restarted: a second try is counted with the first in it, as it always was.
        let begun = Instant::now();
        let text = format!("error getting metadata from the node {}", node.name);
        let mut last = None;
        for &address in addresses {
            if let Some(error) = &last {
                info!(node = node.name, %error, "asking the machine by its other address");
            }
            let asked = self.api.platform_metadata(address);
            match self.timed(Asked::PlatformMetadata, begun, asked).await {
                Ok(metadata) => return Ok((address, metadata)),
                Err(error) => last = Some(error),
            }
        }
        Err(match last {
            Some(error) => failed(text, error),
            None => CloudError::new(CloudErrorKind::Invalid, text).caused_by(NoAddress),
        })
    }

    async fn timed<T>(
        &self,
        asked: Asked,
        begun: Instant,
        asking: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let answer = asking.await;
        if let Some(metrics) = &self.metrics {
            metrics.asked(asked, begun.elapsed(), answer.is_err());
        }
        answer
    }

    fn undescribed(&self, error: &DescribeError) -> CloudError {
        let kind = match error {
            DescribeError::NotReady(_) => CloudErrorKind::Unavailable,
            DescribeError::Id(_) => CloudErrorKind::Invalid,
            DescribeError::Rule(_) => {
                self.metrics.iter().for_each(Metrics::rules_failed);
                CloudErrorKind::Invalid
            }
        };
        CloudError::new(kind, error.to_string())
    }
}

/// Why no address of a machine is known.
#[derive(Debug, thiserror::Error)]
#[error("the annotation alpha.kubernetes.io/provided-node-ip holds no address")]
struct NoAddress;

/// What is said of a node whose kubelet names no address: nothing can be asked. One of which
/// nothing tells that it is ours is not.
fn unaddressed(node: &Node) -> Lookup {
    if kind(&node.os_image) == Kind::Talos || node.provider_id.is_some() {
        Lookup::Found(Box::new(nothing()))
    } else {
        Lookup::NotMine
    }
}

/// Whether a node's machine exists, from the Node alone, without a request.
fn present(node: &Node, now: Timestamp) -> Lookup {
    if kind(&node.os_image) == Kind::Other {
        Lookup::NotMine
    } else if lifecycle::exists(node, now) {
        Lookup::Found(Box::new(nothing()))
    } else {
        let text = "by its Node it is a spot machine of GCP that came back \
                    without being the same: not-ready:NoExecute"
            .to_owned();
        Lookup::Gone(Evidence { text, at: now })
    }
}

fn failed(text: String, error: ApiError) -> CloudError {
    CloudError::new(error.kind(), text).caused_by(error)
}

impl Instances for Machines {
    fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        let begun = Instant::now();
        let asked = stream::iter(nodes).map(move |node| self.answer(node, begun));
        Box::pin(asked.buffered(CALLS).collect())
    }

    fn answers_apart(&self) -> bool {
        true
    }

    fn presence<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        let now = self.clock.now();
        let answers = nodes.iter().map(|node| present(node, now)).collect();
        Box::pin(std::future::ready(answers))
    }

    fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
        Box::pin(async {
            let answered = self.api.version().await;
            answered.map_err(|error| failed("asking an endpoint for its version".to_owned(), error))
        })
    }
}
