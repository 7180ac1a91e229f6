//! What a plan needs beside the load balancer: servers of nodes, floating IPs.

use std::sync::Arc;

use bowline_core::{CloudError, CloudErrorKind, Lookup, Node, Notice};

use super::LoadBalancers;
use super::desire::Host;
use super::notices::without_server;
use super::observe::Freshness;
use super::settings::Settings;
use crate::api::FloatingIp;

impl LoadBalancers {
    /// The servers of nodes. Nodes without one are left out with a notice, but a server that could
    /// not be read is an error: its members must not go.
    pub(super) async fn hosts(
        &self,
        nodes: &[Arc<Node>],
        notices: &mut Vec<Notice>,
    ) -> Result<Vec<Host>, CloudError> {
        let answers = self.servers.servers_of(nodes).await;
        let (mut hosts, mut skipped) = (Vec::with_capacity(nodes.len()), Vec::new());
        for (node, answer) in nodes.iter().zip(answers) {
            let why = match answer {
                Ok(server) => {
                    let node = node.name.clone();
                    hosts.push(Host { node, server });
                    continue;
                }
                Err(Lookup::NotMine) if node.provider_id.is_some() => continue,
                Err(Lookup::NotMine | Lookup::Found(_)) => "no server has its name".to_owned(),
                Err(Lookup::Gone(evidence)) => evidence.text,
                Err(Lookup::CannotTell(error)) => match error.kind() {
                    CloudErrorKind::Conflict | CloudErrorKind::Invalid => error.chain(),
                    _ => return Err(error),
                },
            };
            skipped.push((node.name.as_str(), why));
        }
        notices.extend(without_server(&skipped));
        Ok(hosts)
    }

    /// The floating IPs of the project, if some are wanted.
    pub(super) async fn floating_ips(
        &self,
        settings: &Settings,
        fresh: Freshness,
    ) -> Result<Vec<FloatingIp>, CloudError> {
        if settings.floating_ips.is_empty() {
            return Ok(Vec::new());
        }
        let list = self.shared.observer.floating_ips(fresh).await?;
        Ok(list.items.clone())
    }
}
