//! Describes an instance to its node. Pure.

use std::collections::BTreeMap;

use bowline_core::{
    AddressKind, CloudError, CloudErrorKind, Instance, Node, NodeAddress, Power, ProviderId,
};

use crate::api::{self, InstanceState};
use crate::config::Override;
use crate::id::provider_id;

/// Type, zone and region of an external node for which none is given.
const EXTERNAL: &str = "external";

/// An external node is described by its override alone.
pub(super) fn external(node_override: &Override, node: &Node) -> Instance {
    let region = node_override.region.as_deref().unwrap_or(EXTERNAL);
    let kind = node_override.instance_type.as_deref().unwrap_or(EXTERNAL);
    Instance {
        provider_id: ProviderId::parse(&node_override.provider_id()).ok(),
        instance_type: kind.to_owned(),
        zone: region.to_owned(),
        region: region.to_owned(),
        addresses: external_addresses(node_override, node),
        power: Power::Unclear,
        extra_labels: BTreeMap::new(),
        marks: bowline_core::NodeMetadata::default(),
    }
}

/// No addresses mean that the node keeps its own. A kubelet that was given its address has it
/// checked against those of the machine, of which nobody knows better than the kubelet itself.
fn external_addresses(node_override: &Override, node: &Node) -> Vec<NodeAddress> {
    if node_override.addresses.is_empty() && node.provided_node_ip().is_some() {
        return node.addresses.clone();
    }
    node_override.addresses.clone()
}

/// What is known about that instance, as the machine of that node; `kind` is its type.
///
/// What an answer lacks keeps a node from being initialised. One that is initialised is not
/// forgotten for it: whether its machine runs is answered all the same.
pub(super) fn describe(
    instance: &api::Instance,
    node: &Node,
    node_override: Option<&Override>,
    zone: &str,
    kind: Result<&str, CloudError>,
) -> Result<Instance, CloudError> {
    let kind = match kind {
        Ok(kind) => kind,
        Err(error) if node.is_uninitialized() => return Err(error),
        Err(_) => "",
    };
    let replaced = node_override.map(|node_override| &node_override.addresses);
    let addresses = match replaced.filter(|addresses| !addresses.is_empty()) {
        Some(addresses) => addresses.clone(),
        None => addresses_of(instance, node)?,
    };
    Ok(Instance {
        provider_id: ProviderId::parse(&provider_id(instance.id)).ok(),
        instance_type: kind.to_owned(),
        zone: zone.to_owned(),
        region: zone.to_owned(),
        addresses,
        power: power(instance.state),
        extra_labels: BTreeMap::new(),
        marks: bowline_core::NodeMetadata::default(),
    })
}

/// One that is being destroyed never comes back: it is as good as off.
fn power(state: InstanceState) -> Power {
    use InstanceState as State;
    match state {
        State::Running => Power::On,
        State::Stopping | State::Stopped | State::Destroying => Power::Off,
        State::Starting
        | State::Migrating
        | State::Error
        | State::Destroyed
        | State::Expunging
        | State::Other => Power::Unclear,
    }
}

/// The host name; the kubelet's `--node-ip`, if the instance is in a private network; the public
/// addresses, which are the internal ones too where there are no others.
fn addresses_of(instance: &api::Instance, node: &Node) -> Result<Vec<NodeAddress>, CloudError> {
    use AddressKind::{ExternalIp, Hostname, InternalIp};
    let mut addresses = Vec::new();
    match &instance.name {
        Some(name) => addresses.push(NodeAddress::new(Hostname, name)),
        None if node.is_uninitialized() => {
            let text = format!("GET instance/{} answered without name", instance.id);
            return Err(CloudError::new(CloudErrorKind::Unknown, text));
        }
        None => {}
    }
    let provided = node.provided_node_ip();
    let private = provided.filter(|_| !instance.private_networks.is_empty());
    let internal = private.iter().flat_map(|provided| provided.split(','));
    addresses.extend(internal.map(|address| NodeAddress::new(InternalIp, address)));
    let public = [instance.public_ip, instance.ipv6_address];
    // The API has shown the absent address as 0.0.0.0.
    let public = public.into_iter().flatten();
    let public: Vec<String> = public
        .filter(|address| !address.is_unspecified())
        .map(|address| address.to_string())
        .collect();
    for address in &public {
        addresses.push(NodeAddress::new(ExternalIp, address));
        if private.is_none() {
            addresses.push(NodeAddress::new(InternalIp, address));
        }
    }
    if public.is_empty() && provided.is_none() {
        let own = node.addresses.iter().filter(|it| it.kind == InternalIp);
        addresses.extend(own.cloned());
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests;
