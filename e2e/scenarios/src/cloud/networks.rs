//! What the scripted cloud says about networks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use bowline_core::ipam::{ClusterRanges, MachineAddress, Networks};
use bowline_core::{BoxFuture, CloudError, Node};
use tokio::sync::watch;

use super::balancers::unavailable;
use crate::names::Names;

/// The mask of IPv6 blocks where no flag says another, as Talos has it.
const IPV6_MASK: u8 = 80;

#[derive(Default)]
struct State {
    is_offered: bool,
    ranges: ClusterRanges,
    ranges_fail: bool,
    machines: BTreeMap<String, Vec<MachineAddress>>,
    silent: BTreeSet<String>,
    /// Whom it was asked about.
    asked: Vec<String>,
}

/// Networks as the test says them.
pub struct ScriptedNetworks {
    names: Names,
    state: Mutex<State>,
    asked: watch::Sender<usize>,
}

impl ScriptedNetworks {
    pub(super) fn new(names: &Names, asked: &watch::Sender<usize>) -> Self {
        Self {
            names: names.clone(),
            state: Mutex::default(),
            asked: asked.clone(),
        }
    }

    pub(super) fn offer(&self) {
        self.state().is_offered = true;
    }

    pub(super) fn is_offered(&self) -> bool {
        self.state().is_offered
    }

    /// The cluster was made with these ranges (comma separated).
    pub fn say_ranges(&self, pods: &str, services: &str) {
        let parse = |list: &str| {
            let texts = list.split(',').filter(|text| !text.is_empty());
            texts.map(|text| text.parse().unwrap()).collect()
        };
        self.state().ranges = ClusterRanges {
            pods: parse(pods),
            services: parse(services),
        };
    }

    /// Whether it fails to say the cluster's ranges.
    pub fn fail_ranges(&self, fail: bool) {
        self.state().ranges_fail = fail;
    }

    /// The addresses of a node's machine, each with the length of its prefix.
    pub fn say(&self, node: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| MachineAddress {
            address: text.parse().unwrap(),
            permanent: false,
        });
        let addresses = addresses.collect();
        self.state().machines.insert(node.to_owned(), addresses);
    }

    /// Whether a node's machine cannot be reached.
    pub fn silence(&self, node: &str, silent: bool) {
        let mut state = self.state();
        if silent {
            state.silent.insert(node.to_owned());
        } else {
            state.silent.remove(node);
        }
    }

    /// How often it was asked about a node.
    pub fn asked_about(&self, node: &str) -> usize {
        let state = self.state();
        state.asked.iter().filter(|it| *it == node).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Networks for ScriptedNetworks {
    fn cluster_ranges(&self) -> BoxFuture<'_, Result<ClusterRanges, CloudError>> {
        Box::pin(async {
            self.asked.send_modify(|asked| *asked += 1);
            let state = self.state();
            if state.ranges_fail {
                return Err(unavailable("no endpoint answers"));
            }
            Ok(state.ranges.clone())
        })
    }

    fn machine_addresses<'a>(
        &'a self,
        node: &'a Node,
    ) -> BoxFuture<'a, Result<Vec<MachineAddress>, CloudError>> {
        Box::pin(async {
            let name = self.names.plain(&node.name);
            self.asked.send_modify(|asked| *asked += 1);
            let mut state = self.state();
            state.asked.push(name.clone());
            if state.silent.contains(&name) {
                return Err(unavailable("the machine does not answer"));
            }
            Ok(state.machines.get(&name).cloned().unwrap_or_default())
        })
    }

    fn ipv6_mask(&self) -> u8 {
        IPV6_MASK
    }
}
