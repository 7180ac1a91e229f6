//! Overrides: facts that the operator configures about nodes, found by their name or provider id.

use std::fmt::Write as _;

use bowline_core::{AddressKind, NodeAddress, is_label_value};
use regex::bytes::{Regex, RegexBuilder};
use ring::digest;

use super::ConfigError;
use super::raw::{RawAddress, RawOverride};

/// What every provider id of this cloud begins with.
const SCHEME: &str = "exoscale://";
/// How large a compiled expression may be: far more than names of nodes need.
const EXPRESSION_LIMIT: usize = 1024 * 1024;

#[derive(Clone, Debug, Default)]
pub struct Overrides(Vec<Override>);

/// The override of one node, or of all whose names match.
#[derive(Clone, Debug)]
pub struct Override {
    name: String,
    expression: Option<Regex>,
    /// Whether the node is no instance of this cloud.
    pub external: bool,
    external_id: Option<String>,
    pub instance_type: Option<String>,
    /// Zone and region of an external node.
    pub region: Option<String>,
    /// All addresses; empty: not overridden.
    pub addresses: Vec<NodeAddress>,
}

impl Overrides {
    /// Checks them all; what is odd but no error goes to `warnings`.
    pub(super) fn read(
        raw: &[RawOverride],
        errors: &mut Vec<ConfigError>,
        warnings: &mut Vec<String>,
    ) -> Self {
        let numbered = raw.iter().enumerate();
        Self(
            numbered
                .map(|(number, raw)| Override::read(number, raw, errors, warnings))
                .collect(),
        )
    }

    /// The override for a node: by its provider id, if it has one, and then by its name.
    pub fn find(&self, name: &str, provider_id: Option<&str>) -> Option<&Override> {
        let by_id = provider_id.filter(|id| !id.is_empty());
        by_id
            .and_then(|id| self.by_provider_id(id))
            .or_else(|| self.by_name(name))
    }

    /// The first of that very name, or else the first whose expression matches it.
    pub fn by_name(&self, name: &str) -> Option<&Override> {
        if name.is_empty() {
            return None;
        }
        let exact = self.0.iter().find(|it| it.name == name);
        let matches = |it: &&Override| {
            let expression = it.expression.as_ref();
            expression.is_some_and(|expression| expression.is_match(name.as_bytes()))
        };
        exact.or_else(|| self.0.iter().find(matches))
    }

    /// The first whose given id it is, or else the first whose derived id it is.
    pub fn by_provider_id(&self, provider_id: &str) -> Option<&Override> {
        let id = provider_id.strip_prefix(SCHEME).unwrap_or(provider_id);
        let given = |it: &&Override| it.external_id.as_deref() == Some(id);
        let derived = |it: &&Override| it.external_id.is_none() && derived_id(&it.name) == id;
        let all = &self.0;
        all.iter().find(given).or_else(|| all.iter().find(derived))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Override {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The provider id of an external node. All nodes of one expression share it, as they always
    /// did.
    pub fn provider_id(&self) -> String {
        let id = self.external_id.clone();
        format!("{SCHEME}{}", id.unwrap_or_else(|| derived_id(&self.name)))
    }

    fn read(
        number: usize,
        raw: &RawOverride,
        errors: &mut Vec<ConfigError>,
        warnings: &mut Vec<String>,
    ) -> Self {
        let mut refuse = |key: &str, reason: String| {
            errors.push(ConfigError::Override {
                number,
                name: raw.name.clone(),
                key: key.to_owned(),
                reason,
            });
        };
        let label = "a label value (letters, digits, '-', '_' and '.', up to 63)";
        for (key, value) in [("type", &raw.instance_type), ("region", &raw.region)] {
            if !is_label_value(value) {
                refuse(key, format!("{value:?} is not {label}"));
            }
        }
        if !raw.name.is_empty() && raw.name.bytes().all(|b| b == b'/') {
            refuse(
                "name",
                "an expression of nothing matches every node".to_owned(),
            );
        }
        let mut addresses = Vec::new();
        for (index, address) in raw.addresses.iter().enumerate() {
            match node_address(address) {
                Ok(address) => addresses.push(address),
                Err((key, reason)) => refuse(&format!("addresses[{index}].{key}"), reason),
            }
        }
        let some = |text: &String| (!text.is_empty()).then(|| text.clone());
        Self {
            expression: expression(raw, warnings),
            name: raw.name.clone(),
            external: raw.external,
            external_id: some(&raw.external_id),
            instance_type: some(&raw.instance_type),
            region: some(&raw.region),
            addresses,
        }
    }
}

/// The expression between slashes, if it is one. It is matched anywhere in the name, byte by byte:
/// names of nodes are ASCII. One that cannot be read matches nothing.
fn expression(raw: &RawOverride, warnings: &mut Vec<String>) -> Option<Regex> {
    let name = &raw.name;
    let is_one = name.starts_with('/') && name.ends_with('/');
    let inner = name.trim_matches('/');
    if !is_one || inner.is_empty() {
        return None;
    }
    let mut builder = RegexBuilder::new(inner);
    let builder = builder.unicode(false).size_limit(EXPRESSION_LIMIT);
    let Ok(expression) = builder.build() else {
        warnings.push(format!("invalid regular expression: {name}"));
        return None;
    };
    if raw.external && raw.external_id.is_empty() {
        warnings.push(format!(
            "instances.overrides: all nodes that match {name} share one provider id, since it is \
             made from the expression"
        ));
    } else if raw.external {
        warnings.push(format!(
            "instances.overrides: all nodes that match {name} share the provider id of externalID"
        ));
    }
    Some(expression)
}

fn node_address(raw: &RawAddress) -> Result<NodeAddress, (&'static str, String)> {
    let kind = AddressKind::from(raw.kind.as_str());
    let address = &raw.address;
    match kind {
        AddressKind::Other(kind) => {
            let allowed = "Hostname, InternalIP, ExternalIP, InternalDNS and ExternalDNS";
            Err(("type", format!("{kind:?} is none of {allowed}")))
        }
        AddressKind::InternalIp | AddressKind::ExternalIp
            if address.parse::<std::net::IpAddr>().is_err() =>
        {
            Err(("address", format!("{address:?} is not an IP address")))
        }
        _ if address.is_empty() => Err(("address", "it is empty".to_owned())),
        kind => Ok(NodeAddress {
            kind,
            address: address.clone(),
        }),
    }
}

/// The id of an external node that was given none: made from the name as it is written, slashes
/// included.
fn derived_id(name: &str) -> String {
    let hash = digest::digest(&digest::SHA256, name.as_bytes());
    let mut id = String::from("external-");
    for byte in hash.as_ref() {
        // Writing to a string cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    id
}
