//! The status of a Service with a DNS name. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use bowline_core::{Ingress, IpMode, Notice, Service};

use super::check::node_port;
use crate::balancer::settings::{PortMode, Publish, Settings};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) hostname: Option<&'a str>,
    pub(crate) addresses: &'a BTreeSet<IpAddr>,
    /// Whether the API server knows modes of addresses.
    pub(crate) has_ip_mode: bool,
}

impl Shown<'_> {
    /// The ingress entries, and a notice about those that are withheld.
    pub(crate) fn ingress(&self) -> (Vec<Ingress>, Option<Notice>) {
        let direct = self.settings.port_mode == PortMode::Direct;
        let publish = self.settings.publish.unwrap_or(Publish::Hostname);
        let mut entrances = Vec::new();
        if publish != Publish::Ip {
            let own = self.settings.hostname.as_deref();
            let hostname = own.filter(|_| self.hostname.is_some()).or(self.hostname);
            entrances.extend(hostname.map(|hostname| Ingress {
                hostname: Some(hostname.to_owned()),
                ..Ingress::default()
            }));
        }
        if publish == Publish::Hostname && !direct {
            return (entrances, None);
        }
        if !direct && !self.has_ip_mode {
            return (entrances, Some(withheld()));
        }
        // Without one kube-proxy would take the node's own ports.
        let mode = if direct { IpMode::Vip } else { IpMode::Proxy };
        let addresses = self.addresses.iter();
        entrances.extend(addresses.map(|address| Ingress {
            ip: Some(address.to_string()),
            hostname: None,
            ip_mode: Some(mode),
        }));
        (entrances, None)
    }

    /// The result in a line: `cns web.prod.svc.…: 80/TCP→30080`.
    pub(crate) fn status(&self, service: &Service) -> String {
        let mode = self.settings.port_mode;
        let port = |it: &bowline_core::ServicePort| {
            let at = node_port(mode, it);
            if at == it.port {
                format!("{}/{}", it.port, it.protocol)
            } else {
                format!("{}/{}→{at}", it.port, it.protocol)
            }
        };
        let ports: Vec<String> = service.ports.iter().map(port).collect();
        let name = self.hostname.unwrap_or("without a name yet");
        format!("cns {name}: {}", ports.join(", "))
    }
}

fn withheld() -> Notice {
    Notice {
        warning: true,
        reason: "IPModeUnsupported",
        message: "the nodes' addresses are not published: the API server does not keep ipMode (Kubernetes \
                  1.30 and later do), and without it kube-proxy would take over ports of the nodes"
            .to_owned(),
    }
}
