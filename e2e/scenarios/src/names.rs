//! A world of names for each scenario, so that many can share one API server.
//!
//! A scenario says `n1`. On a shared server its node is `q3x7-n1`: the handle puts the prefix in
//! front of what goes out and takes it away from whatever comes in. Where a server serves one
//! scenario alone, the prefix is empty.
//!
//! Ids of machines stay as they are. Its managers are shown only the scenario's own nodes (see
//! [`bowline_simulator_kubernetes::relay`]), so two scenarios may well speak of the same machine.

use std::sync::atomic::{AtomicU64, Ordering};

use bowline_http::Random;
use bowline_simulator::faults::Rule;
use bowline_simulator::journal::Entry;
use serde_json::Value;

/// On nodes and Services of a shared server: whose they are. A scenario does not see it.
const LABEL: &str = "bowline.test/scenario";
const HOST_NAME: &str = "kubernetes.io/hostname";
const NODES: &str = "/api/v1/nodes/";
const SERVICES: &str = "/services/";
const REQUESTS: &str = "/certificatesigningrequests/";

/// The names of one scenario. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Names {
    prefix: String,
}

impl Names {
    /// Names that are all the scenario's own.
    pub fn alone() -> Self {
        Self::default()
    }

    /// Names that nobody else uses on that server.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // The uuid is for a server that another process uses too.
        let run = &Random::from_system().uuid()[..6];
        Self {
            prefix: format!("q{run}{number}-"),
        }
    }

    /// A name as the server knows it: of a node, of whatever.
    pub fn own(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Whether something of that name belongs to the scenario.
    pub fn is_own(&self, name: &str) -> bool {
        name.starts_with(&self.prefix)
    }

    /// A text of the server as the scenario reads it.
    pub fn plain(&self, text: &str) -> String {
        if self.prefix.is_empty() {
            return text.to_owned();
        }
        text.replace(&self.prefix, "")
    }

    /// The selector of the scenario's nodes and Services; none if all are.
    pub fn selector(&self) -> Option<String> {
        let mark = self.mark()?;
        Some(format!("{LABEL}={mark}"))
    }

    /// The label of the scenario's nodes; none if it needs none.
    pub fn label(&self) -> Option<(String, String)> {
        let mark = self.mark()?;
        Some((LABEL.to_owned(), mark.to_owned()))
    }

    fn mark(&self) -> Option<&str> {
        self.prefix.strip_suffix('-')
    }

    /// A Node of the scenario as the server gets it.
    pub fn outgoing(&self, mut node: Value) -> Value {
        let Some(mark) = self.mark() else {
            return node;
        };
        let name = node["metadata"]["name"].clone();
        let prefix = |value: &mut Value| {
            if let Some(text) = value.as_str() {
                *value = self.own(text).into();
            }
        };
        prefix(&mut node["metadata"]["name"]);
        node["metadata"]["labels"][LABEL] = mark.into();
        if node["metadata"]["labels"][HOST_NAME] == name {
            prefix(&mut node["metadata"]["labels"][HOST_NAME]);
        }
        let addresses = node["status"]["addresses"].as_array_mut();
        for address in addresses.into_iter().flatten() {
            if address["address"] == name {
                prefix(&mut address["address"]);
            }
        }
        node
    }

    /// A Service of the scenario as the server gets it. Its namespace is nobody's own.
    pub fn outgoing_service(&self, service: Value) -> Value {
        self.outgoing_named(service)
    }

    /// An object of the scenario, of which only its own name needs to be translated.
    pub fn outgoing_named(&self, mut object: Value) -> Value {
        if let (Some(mark), Some(name)) = (self.mark(), object["metadata"]["name"].as_str()) {
            object["metadata"]["name"] = self.own(name).into();
            object["metadata"]["labels"][LABEL] = mark.into();
        }
        object
    }

    /// An object of the server as the scenario reads it.
    pub fn incoming(&self, mut object: Value) -> Value {
        if self.prefix.is_empty() {
            return object;
        }
        if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
            labels.remove(LABEL);
        }
        self.strip(&mut object);
        object
    }

    fn strip(&self, value: &mut Value) {
        match value {
            Value::String(text) if text.contains(&self.prefix) => *text = self.plain(text),
            Value::Array(list) => list.iter_mut().for_each(|item| self.strip(item)),
            Value::Object(fields) => fields.values_mut().for_each(|item| self.strip(item)),
            _ => {}
        }
    }

    /// A call as the scenario reads it.
    pub fn entry(&self, mut entry: Entry) -> Entry {
        entry.path = self.plain(&entry.path);
        entry.query = self.plain(&entry.query);
        self.strip(&mut entry.body);
        entry
    }

    /// A fault of calls about the scenario's nodes or Services.
    pub fn rule(&self, mut rule: Rule) -> Rule {
        if let Some(name) = rule.path.strip_prefix(NODES)
            && !name.starts_with('*')
        {
            rule.path = format!("{NODES}{}", self.own(name));
            return rule;
        }
        for part in [SERVICES, REQUESTS] {
            if let Some((before, name)) = rule.path.split_once(part)
                && !name.starts_with('*')
            {
                rule.path = format!("{before}{part}{}", self.own(name));
                return rule;
            }
        }
        rule
    }
}
