//! The forms that the values of annotations have.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use bowline_core::Service;
use ipnet::Ipv4Net;

use super::{BalancingProtocol, Check};
use crate::balancer::naming::is_nodes_label;

const LONGEST_NAME: usize = 253;
/// The longest label of the name service, dots included.
const LONGEST_LABEL: usize = 63;
const HIGHEST_PORT: u16 = 65_534;

pub(super) fn yes_or_no(text: &str) -> Option<bool> {
    text.to_ascii_lowercase().parse().ok()
}

pub(super) fn word(text: &str) -> Option<String> {
    let fits = text.len() <= LONGEST_NAME && !text.contains(char::is_control);
    fits.then(|| text.to_owned())
}

pub(super) fn whole(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

fn number(text: &str, least: u16, most: u16) -> Option<u16> {
    whole(text).filter(|number| (least..=most).contains(number))
}

fn is_part(part: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
        && bytes.len() <= LONGEST_LABEL
}

/// A label of the name service that a person chose.
pub(super) fn label(text: &str) -> Option<String> {
    let fits = text.len() <= LONGEST_LABEL && text.split('.').all(is_part) && !is_nodes_label(text);
    fits.then(|| text.to_owned())
}

pub(super) fn host(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    (text.len() <= LONGEST_NAME && text.split('.').all(is_part)).then_some(text)
}

/// DNS names separated by commas, each once.
pub(super) fn hosts(text: &str) -> Option<Vec<String>> {
    let hosts: Option<Vec<String>> = text.split(',').map(|it| host(it.trim())).collect();
    hosts.filter(|hosts| is_without_repetition(hosts))
}

fn is_without_repetition<T: Ord>(items: &[T]) -> bool {
    let distinct: BTreeSet<&T> = items.iter().collect();
    distinct.len() == items.len()
}

/// Networks or addresses separated by commas or spaces.
pub(super) fn networks(text: &str) -> Option<BTreeSet<Ipv4Net>> {
    let words = text.split([',', ' ']).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let address = || word.parse::<Ipv4Addr>().ok().map(Ipv4Net::from);
            word.parse().ok().or_else(address)
        })
        .map(|network: Option<Ipv4Net>| network.map(|it| it.trunc()))
        .collect()
}

pub(super) fn host_and_port(text: &str) -> Option<String> {
    let (name, port) = text.rsplit_once(':')?;
    host(name)?;
    number(port, 1, u16::MAX)?;
    Some(text.to_owned())
}

/// Durations by name, in the order in which they are written.
pub(super) fn timeouts(text: &str) -> Option<String> {
    let mut names = Vec::new();
    for part in text.split(',') {
        let (name, milliseconds) = part.trim().split_once(':')?;
        let digits = (1..=9).contains(&milliseconds.len())
            && milliseconds.bytes().all(|byte| byte.is_ascii_digit());
        let known = ["queue", "connect", "client", "server"].contains(&name);
        if !known || !digits || names.contains(&name) {
            return None;
        }
        names.push(name);
    }
    Some(text.split(',').map(str::trim).collect::<Vec<_>>().join(","))
}

pub(super) fn protocols(text: &str, service: &Service) -> Option<BTreeMap<u16, BalancingProtocol>> {
    let mut found = BTreeMap::new();
    for part in text.split(',') {
        let (port, protocol) = part.trim().split_once('=')?;
        let named = |it: &&bowline_core::ServicePort| {
            !port.is_empty() && (it.name == port || it.port.to_string() == port)
        };
        let port = service.ports.iter().find(named)?.port;
        let protocol = BalancingProtocol::parse(protocol.trim())?;
        if found.insert(port, protocol).is_some() {
            return None;
        }
    }
    Some(found)
}

pub(super) fn check(text: &str) -> Option<Check> {
    if text == "off" {
        return Some(Check::Off);
    }
    let mut given: BTreeMap<&str, &str> = BTreeMap::new();
    for part in text.split(',') {
        let (name, value) = part.trim().split_once('=')?;
        let known = ["path", "port", "rise", "fall"].contains(&name);
        if !known || given.insert(name, value).is_some() {
            return None;
        }
    }
    let count = |name: &str, most: u16| match given.get(name) {
        Some(text) => number(text, 1, most).map(Some),
        None => Some(None),
    };
    let path = match given.get("path") {
        Some(path) => Some(check_path(path)?),
        None => None,
    };
    Some(Check::Given {
        path,
        port: count("port", HIGHEST_PORT)?,
        rise: count("rise", 1000)?,
        fall: count("fall", 1000)?,
    })
}

fn check_path(path: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._~/%?=&+-".contains(&byte);
    let right = path.starts_with('/') && path.len() <= 255 && path.bytes().all(fits);
    right.then(|| path.to_owned())
}
