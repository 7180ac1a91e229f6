//! The annotation with settings of single ports.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use bowline_core::{Annotation, Protocol, ServicePort, nearest};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::table::{
    ANNOTATIONS, MONITOR_TYPE, NUMBER, OBJECT, POOL_PROTOCOL, PORT_SETTINGS, PREFIX, TEXT, TEXTS,
    of_ports,
};
use super::{PortSettings, table};

/// How many mistakes are reported; a person fixes a few at a time, and events are short.
const TOLD: usize = 8;
/// How many ports are named when a key is none of them.
const NAMED: usize = 10;

/// The settings of each port, and what is wrong with the annotation. `shared` is what holds for all
/// ports.
pub(super) fn read(
    text: &str,
    ports: &[ServicePort],
    shared: &PortSettings,
) -> (Vec<PortSettings>, Vec<String>) {
    let mut writer = Writer {
        ports,
        settings: vec![shared.clone(); ports.len()],
        given: BTreeMap::new(),
        faults: Vec::new(),
    };
    match serde_json::from_str::<Pairs<Given>>(text) {
        Ok(Pairs(entries)) => writer.entries(entries),
        Err(error) => writer.faults.push(format!(
            "annotation {}: {text:?} is not allowed ({error}); allowed is {}",
            PORT_SETTINGS.key, PORT_SETTINGS.allowed
        )),
    }
    let mut faults = writer.faults;
    if faults.len() > TOLD {
        let more = faults.len() - TOLD;
        faults.truncate(TOLD);
        faults.push(format!(
            "annotation {}: and {more} more mistakes",
            PORT_SETTINGS.key
        ));
    }
    (writer.settings, faults)
}

/// The pairs of a JSON object in their order, also those whose key is there twice.
struct Pairs<T>(Vec<(String, T)>);

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Given {
    Settings(Pairs<Value>),
    Other(Value),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Collect<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<T>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Collect(PhantomData))
    }
}

struct Writer<'a> {
    ports: &'a [ServicePort],
    settings: Vec<PortSettings>,
    /// Which key, of those that mean one port, has which setting of which port.
    given: BTreeMap<(usize, &'static str), String>,
    faults: Vec<String>,
}

impl Writer<'_> {
    /// Mere numbers come first: the others win over them.
    fn entries(&mut self, mut entries: Vec<(String, Given)>) {
        entries.sort_by_key(|(port, _)| !is_number(port));
        let mut seen = BTreeSet::new();
        for (port, given) in entries {
            if seen.insert(port.clone()) {
                self.entry(&port, given);
            } else {
                self.fault(&port, "it is there twice; allowed is once");
            }
        }
    }

    fn fault(&mut self, port: &str, what: impl fmt::Display) {
        let key = PORT_SETTINGS.key;
        self.faults
            .push(format!("annotation {key}: port {port:?}: {what}"));
    }

    fn entry(&mut self, port: &str, given: Given) {
        let matching: Vec<usize> = (0..self.ports.len())
            .filter(|at| names(port, &self.ports[*at]))
            .collect();
        if matching.is_empty() {
            let known = known_ports(self.ports);
            let what = format!("the Service has no such port; allowed is {known}");
            self.fault(port, what);
            return;
        }
        let pairs = match given {
            Given::Settings(Pairs(pairs)) => pairs,
            Given::Other(value) => {
                let what = format!("{value} is not allowed; allowed is a JSON object of settings");
                self.fault(port, what);
                return;
            }
        };
        let mut seen = BTreeSet::new();
        for (word, value) in pairs {
            let row = of_ports().find(|row| table::word(row) == word);
            match row {
                None => self.fault(port, unknown(&word, &value)),
                Some(_) if !seen.insert(word.clone()) => {
                    let what = format!("{word}: {value}: it is there twice; allowed is once");
                    self.fault(port, what);
                }
                Some(row) => self.setting(port, &matching, row, &value),
            }
        }
    }

    fn setting(&mut self, port: &str, matching: &[usize], row: Annotation, value: &Value) {
        let word = table::word(&row);
        let text = text_of(row, value);
        let mut concerned = matching.to_vec();
        concerned.retain(|at| concerns(row, text.as_deref(), &self.ports[*at].protocol));
        if concerned.is_empty() {
            let what = format!(
                "{word}: {value} is not allowed; allowed is {}",
                allowed(row)
            );
            self.fault(port, what);
            return;
        }
        for at in concerned {
            if !is_number(port)
                && let Some(other) = self.given.insert((at, word), port.to_owned())
            {
                let what = format!(
                    "{word}: {value}: port {other:?} is the same and says it too; allowed is once"
                );
                self.fault(port, what);
                return;
            }
            let text = text.as_deref();
            let taken = text.and_then(|text| self.settings[at].take(row, text));
            if taken.is_none() {
                let allowed = row.allowed;
                let form = if text.is_some() { "" } else { form_of(row) };
                let what = format!("{word}: {value} is not allowed; allowed is {allowed}{form}");
                self.fault(port, what);
                return;
            }
        }
    }
}

fn is_number(key: &str) -> bool {
    key.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a key names that port: by its number, number and protocol, or name. Digits alone are
/// always a number.
fn names(key: &str, port: &ServicePort) -> bool {
    let number = port.port.to_string();
    match key.split_once('/') {
        Some((given, protocol)) => {
            given == number && protocol.eq_ignore_ascii_case(port.protocol.as_str())
        }
        None if is_number(key) => key == number,
        None => key == port.name,
    }
}

fn known_ports(ports: &[ServicePort]) -> String {
    let name = |port: &ServicePort| {
        let protocol = port.protocol.as_str().to_lowercase();
        match port.name.as_str() {
            "" => format!("{}/{protocol}", port.port),
            name => format!("{}/{protocol} ({name})", port.port),
        }
    };
    let mut shown: Vec<String> = ports.iter().take(NAMED).map(name).collect();
    if ports.len() > NAMED {
        shown.push(format!("one of {} others", ports.len() - NAMED));
    }
    shown.join(", ")
}

fn unknown(word: &str, value: &Value) -> String {
    let words: Vec<&str> = of_ports().map(|row| table::word(&row)).collect();
    let bare = word.strip_prefix(PREFIX).unwrap_or(word);
    let bare = bare.strip_prefix("loadbalancer-").unwrap_or(bare);
    let is_of_all = ANNOTATIONS
        .iter()
        .any(|row| table::word(row) == bare && !row.per_port);
    let why = match nearest(bare, words.iter().copied()) {
        _ if is_of_all => "it can only be set for all ports".to_owned(),
        Some(near) => format!("there is no such setting (did you mean {near}?)"),
        None => "there is no such setting".to_owned(),
    };
    format!("{word}: {value}: {why}; allowed is {}", words.join(", "))
}

/// The value in the form that the annotation for all ports has; none if its type is another.
fn text_of(row: Annotation, value: &Value) -> Option<String> {
    match (row.kind, value) {
        (TEXT, Value::String(text)) => Some(text.clone()),
        (NUMBER, Value::Number(_)) | (TEXTS, Value::Array(_)) | (OBJECT, Value::Object(_)) => {
            Some(value.to_string())
        }
        _ => None,
    }
}

/// The JSON type, where the allowed values do not show it.
fn form_of(row: Annotation) -> &'static str {
    match row.kind {
        TEXT => ", as a JSON string",
        NUMBER => ", as a JSON number",
        _ => "",
    }
}

/// Whether it means anything for ports of that protocol.
fn concerns(row: Annotation, text: Option<&str>, protocol: &Protocol) -> bool {
    match (row, text) {
        (POOL_PROTOCOL, _) => *protocol != Protocol::Udp,
        (MONITOR_TYPE, Some("udp-connect")) => *protocol == Protocol::Udp,
        _ => true,
    }
}

/// What is allowed for ports that a setting does not concern.
fn allowed(row: Annotation) -> &'static str {
    if row == POOL_PROTOCOL {
        "nothing: UDP ports always use udp"
    } else {
        "ping, tcp, http, https or tls-hello: udp-connect is for UDP ports"
    }
}
