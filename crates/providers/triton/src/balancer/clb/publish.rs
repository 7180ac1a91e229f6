//! Status and annotations of a Service with load balancer machines. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bowline_core::{Ingress, IpMode, Publication, Service};

use super::machines::runs;
use crate::api::Machine;
use crate::balancer::settings::{Publish, table};

#[derive(Clone, Debug)]
pub(crate) struct Publisher {
    /// The entrances until all is done.
    pub(crate) before: Vec<Ingress>,
    pub(crate) publish: Publish,
    pub(crate) hostname: Option<String>,
    /// Whether the API server knows modes of addresses.
    pub(crate) has_ip_mode: bool,
    /// `80/TCP→30080`, port by port.
    pub(crate) ports: String,
    pub(crate) replicas: usize,
}

pub(crate) fn ports(service: &Service) -> String {
    let mut ports: Vec<_> = service.ports.iter().collect();
    ports.sort_by_key(|port| port.port);
    let text = ports
        .iter()
        .map(|it| format!("{}/{}→{}", it.port, it.protocol, it.node_port));
    text.collect::<Vec<_>>().join(", ")
}

impl Publisher {
    /// The publication so far: the machines by ordinal, and the addresses of those that run.
    pub(crate) fn publication(
        &self,
        by_ordinal: &BTreeMap<u8, Machine>,
        addresses: &[IpAddr],
        finished: bool,
    ) -> Publication {
        let mut annotations = BTreeMap::new();
        let mut say = |key: &str, value: String| {
            annotations.insert(key.to_owned(), value);
        };
        if !by_ordinal.is_empty() {
            let ids: Vec<String> = by_ordinal.values().map(|it| it.id.to_string()).collect();
            say(table::INSTANCES.key, ids.join(","));
        }
        let ingress = self.ingress(addresses);
        let shown = finished && !ingress.is_empty();
        if finished {
            say(table::STATUS.key, self.status(by_ordinal));
        }
        Publication {
            annotations,
            ingress: if shown { ingress } else { self.before.clone() },
            ..Publication::default()
        }
    }

    fn status(&self, by_ordinal: &BTreeMap<u8, Machine>) -> String {
        let running = by_ordinal.values().filter(|it| runs(it)).count();
        let Self {
            replicas, ports, ..
        } = self;
        format!("{running} of {replicas} load balancer machines run: {ports}")
    }

    /// Nothing, if nothing serves yet.
    fn ingress(&self, addresses: &[IpAddr]) -> Vec<Ingress> {
        if addresses.is_empty() {
            return Vec::new();
        }
        let name = self.hostname.iter().map(|name| Ingress {
            hostname: Some(name.clone()),
            ..Ingress::default()
        });
        let addresses = addresses.iter().map(|ip| Ingress {
            ip: Some(ip.to_string()),
            ip_mode: self.has_ip_mode.then_some(IpMode::Proxy),
            ..Ingress::default()
        });
        match self.publish {
            Publish::Ip => addresses.collect(),
            Publish::Hostname => name.collect(),
            Publish::Both => name.chain(addresses).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancer::examples::web;
    use serde_json::json;
    use uuid::Uuid;

    fn publisher(publish: Publish) -> Publisher {
        Publisher {
            before: vec![Ingress {
                ip: Some("192.0.2.1".to_owned()),
                ..Ingress::default()
            }],
            publish,
            hostname: Some("web.prod.svc.a.z".to_owned()),
            has_ip_mode: true,
            ports: ports(&web()),
            replicas: 2,
        }
    }

    #[test]
    fn what_is_shown_is_what_was_asked_for_when_something_runs() {
        let machine = |state: &str| -> Machine {
            serde_json::from_value(json!({"id": Uuid::from_u128(1), "state": state})).unwrap()
        };
        let by_ordinal = BTreeMap::from([(0, machine("running")), (1, machine("provisioning"))]);
        let address = ["203.0.113.9".parse().unwrap()];
        let shown = |publish, addresses: &[IpAddr], finished| {
            let publication = publisher(publish).publication(&by_ordinal, addresses, finished);
            let texts: Vec<String> = publication
                .ingress
                .iter()
                .map(ToString::to_string)
                .collect();
            texts.join(" ")
        };
        assert_eq!(shown(Publish::Ip, &address, true), "203.0.113.9 (Proxy)");
        assert_eq!(shown(Publish::Hostname, &address, true), "web.prod.svc.a.z");
        assert_eq!(
            shown(Publish::Both, &address, true),
            "web.prod.svc.a.z 203.0.113.9 (Proxy)"
        );
        assert_eq!(
            shown(Publish::Both, &address, false),
            "192.0.2.1",
            "it is kept"
        );
        assert_eq!(shown(Publish::Both, &[], true), "192.0.2.1", "nothing runs");
        let said = publisher(Publish::Ip)
            .publication(&by_ordinal, &address, true)
            .annotations;
        assert_eq!(
            said[table::STATUS.key],
            "1 of 2 load balancer machines run: 80/TCP→30080"
        );
        assert!(said[table::INSTANCES.key].starts_with("00000000-0000-0000-0000-000000000001,"));
    }
}
