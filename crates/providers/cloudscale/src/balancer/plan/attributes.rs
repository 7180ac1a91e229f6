//! What is changed in place, one attribute at a time.

use std::collections::BTreeSet;

use bowline_core::{Change, Impact};
use ipnet::IpNet;
use serde_json::{Map, Value, json};

use super::builder::{Action, attribute, seen};
use super::children::kept_monitor;
use super::{LISTENER, MONITOR, Planner, SeenPool, choose, note};
use crate::api::{Listener, Monitor};
use crate::balancer::desire::{WantedListener, WantedMonitor, WantedPool};

type Attribute = (Change, Map<String, Value>);

impl Planner<'_> {
    pub(super) fn attributes(&mut self) {
        let chosen = choose(self.wanted, self.seen_pools(), true);
        for (wanted, there) in self.wanted.pools.iter().zip(chosen) {
            if let Some(there) = there {
                self.attributes_of(wanted, there);
            }
        }
    }

    fn attributes_of(&mut self, wanted: &WantedPool, there: &SeenPool) {
        let mut listeners = there.listeners.iter();
        if let Some(listener) = listeners.find(|it| wanted.listener.is(it)) {
            for (change, body) in of_listener(&wanted.listener, listener) {
                let id = listener.uuid;
                let object = seen(LISTENER, &listener.name, id);
                let why = note(Impact::InPlace, None, &self.base);
                let action = Action::ChangeListener { id, body };
                self.builder.change(object, vec![change], &why, action);
            }
        }
        if let Some(monitor) = kept_monitor(&wanted.monitor, Some(there)) {
            for (change, body) in of_monitor(&wanted.monitor, monitor) {
                let id = monitor.uuid;
                let object = seen(MONITOR, &wanted.name, id);
                let why = note(Impact::InPlace, None, &self.base);
                let action = Action::ChangeMonitor { id, body };
                self.builder.change(object, vec![change], &why, action);
            }
        }
    }
}

fn of_listener(wanted: &WantedListener, there: &Listener) -> Vec<Attribute> {
    let mut changes = Vec::new();
    if wanted.name != there.name {
        changes.push(attribute("name", &*there.name, &*wanted.name));
    }
    if !same_networks(&wanted.allowed_cidrs, &there.allowed_cidrs) {
        let (before, after) = (json!(there.allowed_cidrs), json!(wanted.allowed_cidrs));
        changes.push(attribute("allowed_cidrs", before, after));
    }
    for (field, before, after) in [
        (
            "timeout_client_data_ms",
            there.timeout_client_data_ms,
            wanted.timeout_client_data,
        ),
        (
            "timeout_member_connect_ms",
            there.timeout_member_connect_ms,
            wanted.timeout_member_connect,
        ),
        (
            "timeout_member_data_ms",
            there.timeout_member_data_ms,
            wanted.timeout_member_data,
        ),
    ] {
        if before != after {
            changes.push(attribute(field, before, after));
        }
    }
    changes
}

/// Whether both lists mean the same networks, in any order and spelling.
fn same_networks(wanted: &[IpNet], there: &[String]) -> bool {
    let read: Option<BTreeSet<IpNet>> = there
        .iter()
        .map(|text| Some(text.parse::<IpNet>().ok()?.trunc()))
        .collect();
    read.is_some_and(|there| there == wanted.iter().copied().collect())
}

fn of_monitor(wanted: &WantedMonitor, there: &Monitor) -> Vec<Attribute> {
    let mut changes = Vec::new();
    if let Some(http) = &wanted.http {
        let seen = there.http.clone().unwrap_or_default();
        if http.host.is_some() && http.host != seen.host {
            changes.push(attribute("http.host", seen.host, http.host.clone()));
        }
        if http.url_path != seen.url_path {
            changes.push(attribute("http.url_path", seen.url_path, &*http.url_path));
        }
        if http.method != seen.method {
            changes.push(attribute("http.method", seen.method, &*http.method));
        }
        if http.expected_codes != seen.expected_codes {
            let (before, after) = (json!(seen.expected_codes), json!(http.expected_codes));
            changes.push(attribute("http.expected_codes", before, after));
        }
    }
    let mut times = vec![
        ("delay_s", there.delay_s, wanted.delay),
        ("timeout_s", there.timeout_s, wanted.timeout),
    ];
    // A check may not take longer than the pause between two, at no time.
    if wanted.delay < there.timeout_s {
        times.reverse();
    }
    times.extend([
        ("up_threshold", there.up_threshold, wanted.up),
        ("down_threshold", there.down_threshold, wanted.down),
    ]);
    for (field, before, after) in times {
        if before != after {
            changes.push(attribute(field, before, after));
        }
    }
    changes
}
