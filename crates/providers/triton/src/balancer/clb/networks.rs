//! Chooses the networks of load balancer machines. Pure.

use std::collections::BTreeMap;

use bowline_core::Problem;
use uuid::Uuid;

use super::machines::Wire;
use crate::api::{Machine, Network, Nic};
use crate::balancer::draft_context::DraftContext;
use crate::balancer::naming::{Choice, Zones};
use crate::balancer::settings::Settings;
use crate::config::LoadBalancerConfig;
use crate::id::hyphenated;
use crate::instances::is_public;

const AMBIGUOUS: &str = "AmbiguousNetwork";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    networks: &'a BTreeMap<Uuid, Network>,
    account: Uuid,
    settings: &'a Settings,
    config: &'a LoadBalancerConfig,
    /// The nodes behind the load balancer, by id.
    targets: &'a [&'a Machine],
    /// The names that some of them have now.
    names: &'a BTreeMap<Uuid, Vec<String>>,
    machines: &'a [Machine],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) wires: Vec<Wire>,
    pub(crate) private: Uuid,
    /// What follows the labels of nodes there.
    pub(crate) suffix: String,
    pub(crate) front: Uuid,
}

impl<'a> Question<'a> {
    pub(crate) fn new(
        context: &'a DraftContext<'_>,
        targets: &'a [&'a Machine],
        names: &'a BTreeMap<Uuid, Vec<String>>,
        machines: &'a [Machine],
    ) -> Self {
        Self {
            networks: &context.networks,
            account: context.account.id,
            settings: &context.settings,
            config: &context.shared.config,
            targets,
            names,
            machines,
        }
    }
    /// The networks, or what a person has to configure first.
    pub(crate) fn answer(&self) -> Result<Placement, Problem> {
        let internal = self.settings.internal;
        let front = match (internal, &self.settings.cns_network) {
            (true, Some(named)) => Some(self.named(named)?),
            _ => None,
        };
        let (private, suffix) = self.private(front)?;
        let inside = Wire {
            network: private,
            public: self.networks.get(&private).is_some_and(|it| it.public),
            address: self.settings.clb.ipv4,
        };
        if internal {
            return Ok(Placement {
                wires: vec![inside],
                private,
                suffix,
                front: private,
            });
        }
        let public = self.public()?;
        let outside = Wire {
            network: public,
            public: true,
            address: None,
        };
        Ok(Placement {
            wires: vec![outside, inside],
            private,
            suffix,
            front: public,
        })
    }

    /// What follows the label of the Service's own name, if it is known.
    pub(crate) fn front_suffix(&self, front: Uuid) -> Option<String> {
        let named = self.settings.cns_network.as_ref();
        let named = named.and_then(|named| self.named(named).ok());
        let machines: Vec<&Machine> = self.machines.iter().collect();
        let zone = if self.settings.internal {
            &self.config.cns_suffix_private
        } else {
            &self.config.cns_suffix_public
        };
        let zones = Zones {
            networks: self.networks,
            account: self.account,
            targets: &machines,
            names: self.names,
            internal: self.settings.internal,
            network: Some(named.unwrap_or(front)),
            zone: zone.as_deref(),
            published: None,
        };
        match zones.choose() {
            Choice::Place(place) => Some(place.suffix),
            Choice::Unclear(_) | Choice::Unknown => None,
        }
    }

    fn public(&self) -> Result<Uuid, Problem> {
        if let Some(named) = &self.config.public_network {
            return self.named(named);
        }
        let mut all = self.networks.values().filter(|it| it.public);
        match (all.next(), all.count()) {
            (Some(only), 0) => Ok(only.id),
            (Some(_), _) => Err(self.ambiguous(true, "there are several public networks")),
            (None, _) => Err(ambiguous("there is no public network", "public-network")),
        }
    }

    /// The network of the nodes, and what follows their labels, for a machine that is there
    /// already.
    pub(crate) fn inside(&self) -> Result<(Uuid, String), Problem> {
        self.private(None)
    }

    /// The same, for a network that somebody named.
    fn private(&self, named: Option<Uuid>) -> Result<(Uuid, String), Problem> {
        let configured = match (&self.config.private_network, named) {
            (_, Some(named)) => Some(named),
            (Some(named), None) => Some(self.named(named)?),
            (None, None) => None,
        };
        let network = configured.or_else(|| self.current());
        let zones = Zones {
            networks: self.networks,
            account: self.account,
            targets: self.targets,
            names: self.names,
            internal: true,
            network,
            zone: self.config.cns_suffix_private.as_deref(),
            published: None,
        };
        match zones.choose() {
            Choice::Place(place) => match place.network {
                Some(network) => Ok((network, place.suffix)),
                None => Err(self.ambiguous(false, "no network is known on which all nodes are")),
            },
            Choice::Unclear(zones) => {
                let zones: Vec<String> = zones.into_iter().collect();
                let text = format!("the nodes are in several DNS zones ({})", zones.join(", "));
                Err(ambiguous(&text, "private-network"))
            }
            Choice::Unknown if self.targets.is_empty() => Err(Problem {
                reason: "NoValidNodes",
                message: "no node is known yet: the network of the load balancer machines is chosen by the nodes' \
                          machines"
                    .to_owned(),
            }),
            Choice::Unknown => Err(self.ambiguous(false, "the network of the nodes is not known")),
        }
    }

    /// The network that the machines are on already, if all nodes are: another choice would replace
    /// them.
    fn current(&self) -> Option<Uuid> {
        let inside = |nic: &&Nic| !is_public(nic, self.networks);
        let nics = self.machines.iter().flat_map(|it| it.nics.iter().flatten());
        let mut networks = nics.filter(inside).filter_map(|nic| nic.network);
        let network = networks
            .next()
            .filter(|it| self.networks.contains_key(it))?;
        let on = |machine: &&Machine| {
            let mut nics = machine.nics.iter().flatten();
            nics.any(|nic| nic.network == Some(network))
        };
        self.targets.iter().all(on).then_some(network)
    }

    fn named(&self, text: &str) -> Result<Uuid, Problem> {
        let id = hyphenated(text).filter(|id| self.networks.contains_key(id));
        let mut same = self.networks.values().filter(|it| it.name == text);
        match (id, same.next(), same.next()) {
            (Some(id), _, _) => Ok(id),
            (None, Some(only), None) => Ok(only.id),
            (None, Some(_), Some(_)) => {
                let text = format!("several networks are called {text:?}");
                Err(ambiguous(&text, "its id instead of its name"))
            }
            (None, None, _) => Err(Problem {
                reason: "NetworkNotFound",
                message: format!("there is no network {text:?}"),
            }),
        }
    }

    fn ambiguous(&self, public: bool, what: &str) -> Problem {
        let all = self.networks.values().filter(|it| it.public == public);
        let names: Vec<&str> = all.map(|it| it.name.as_str()).collect();
        let key = if public {
            "public-network"
        } else {
            "private-network"
        };
        ambiguous(&format!("{what} ({})", names.join(", ")), key)
    }
}

fn ambiguous(what: &str, key: &str) -> Problem {
    Problem {
        reason: AMBIGUOUS,
        message: format!("{what}: configure {key}"),
    }
}
