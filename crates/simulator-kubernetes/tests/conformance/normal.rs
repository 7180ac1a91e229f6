//! Takes out of an answer what differs from run to run: names of this run, uids, versions, times,
//! allocated addresses and ports, ages, tokens.
//!
//! Uids and versions become numbers in the order in which a story meets them, so that it still
//! shows whether a write made a new version.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::story::Pick;

/// Times from this year on are the servers'; the stories write earlier ones.
const FIRST_YEAR_OF_SERVERS: u32 = 2022;

/// How reviews name the credential that somebody used.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// What a story has met so far.
#[derive(Debug)]
pub(crate) struct Normal {
    run: String,
    uids: BTreeMap<String, usize>,
    versions: BTreeMap<String, usize>,
    names: BTreeMap<String, String>,
}

impl Normal {
    /// Nothing met yet; `run` is what makes the names of this run unique.
    pub(crate) fn new(run: &str) -> Self {
        Self {
            run: run.to_owned(),
            uids: BTreeMap::new(),
            versions: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// The document without what must differ.
    pub(crate) fn document(&mut self, document: &Value) -> Value {
        match document {
            Value::Object(map) => self.object(map),
            Value::Array(list) => list.iter().map(|value| self.document(value)).collect(),
            Value::String(text) => self.text(text).into(),
            other => other.clone(),
        }
    }

    fn object(&mut self, map: &Map<String, Value>) -> Value {
        self.generated_name(map);
        let is_stored = map.contains_key("uid");
        let mut result = Map::new();
        for (key, value) in map {
            let key = self.text(key);
            let value = match (key.as_str(), value) {
                ("resourceVersion", Value::String(text)) => self.version(text, is_stored).into(),
                ("continue", Value::String(text)) if !text.is_empty() => "<continue>".into(),
                (CREDENTIAL, _) => "<credential>".into(),
                ("token", Value::String(text)) if text.starts_with("ey") => "<token>".into(),
                ("nodePort" | "healthCheckNodePort", Value::Number(_)) => "<port>".into(),
                ("clusterIP", Value::String(text)) => address(text).into(),
                ("clusterIPs", Value::Array(list)) => list.iter().map(allocated).collect(),
                // Prose of the real server's documentation is not ours to keep.
                ("description", Value::String(_)) if map.contains_key("format") => "<text>".into(),
                ("cells", Value::Array(list)) => list.iter().map(|cell| self.cell(cell)).collect(),
                ("managedFields", Value::Array(list)) => self.managed(list),
                (_, value) => self.document(value),
            };
            result.insert(key, value);
        }
        Value::Object(result)
    }

    /// Remembers a name that the server made up.
    fn generated_name(&mut self, map: &Map<String, Value>) {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        if let (Some(prefix), Some(name)) = (text("generateName"), text("name"))
            && name.starts_with(prefix)
        {
            let shown = format!("{prefix}<{} letters>", name.len() - prefix.len());
            self.names.insert(name.to_owned(), shown);
        }
    }

    /// Versions of objects are numbered; those of lists depend on what others write.
    fn version(&mut self, text: &str, is_stored: bool) -> String {
        if text.is_empty() || text == "0" {
            return text.to_owned();
        }
        if !is_stored {
            return "<version>".to_owned();
        }
        let next = self.versions.len() + 1;
        let number = self.versions.entry(text.to_owned()).or_insert(next);
        format!("<version {number}>")
    }

    /// Entries are sorted by time, and so depend on when a second is over.
    fn managed(&mut self, list: &[Value]) -> Value {
        let mut entries: Vec<Value> = list.iter().map(|entry| self.document(entry)).collect();
        entries.sort_by_key(|entry| {
            ["operation", "manager", "subresource", "apiVersion"]
                .map(|field| entry[field].as_str().unwrap_or_default().to_owned())
        });
        Value::Array(entries)
    }

    fn cell(&mut self, cell: &Value) -> Value {
        match cell.as_str() {
            Some(text) if is_age(text) => "<age>".into(),
            _ => self.document(cell),
        }
    }

    /// A text without what must differ.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, shown) in &self.names {
            text = text.replace(name, shown);
        }
        text = without_object(&text.replace(&self.run, "$run"));
        if let Some(time) = time(&text) {
            return time.to_owned();
        }
        self.identities(&text)
    }

    /// Replaces uids, and numbers of versions in messages.
    fn identities(&mut self, text: &str) -> String {
        let mut result = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            // Where in its own source the server found something.
            let after_source = result.ends_with(".go:");
            let after_version = [
                "ersion: ",
                "urrent: ",
                "ersion (",
                "<version> (",
                "precondition (",
                "record (",
            ]
            .iter()
            .any(|word| result.ends_with(word));
            let digits = rest.chars().take_while(char::is_ascii_digit).count();
            if rest.get(..36).is_some_and(is_uid) {
                let next = self.uids.len() + 1;
                let number = self.uids.entry(rest[..36].to_owned()).or_insert(next);
                let _ = write!(result, "<uid {number}>");
                rest = &rest[36..];
            } else if after_source && digits > 0 {
                result.push_str("<line>");
                rest = &rest[digits..];
            } else if after_version && digits > 0 {
                result.push_str("<version>");
                rest = &rest[digits..];
            } else {
                result.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        result
    }
}

/// A message without the whole object that it quotes.
fn without_object(text: &str) -> String {
    let parts = text.split_once(": \"{").and_then(|(before, rest)| {
        let (_, after) = rest.rsplit_once("}\": ")?;
        Some(format!("{before}: <object>: {after}"))
    });
    parts.unwrap_or_else(|| text.to_owned())
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| {
        if [8, 13, 18, 23].contains(&index) {
            byte == b'-'
        } else {
            byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
        }
    })
}

fn allocated(value: &Value) -> Value {
    value
        .as_str()
        .map_or_else(|| value.clone(), |text| address(text).into())
}

fn address(text: &str) -> &str {
    if text.parse::<std::net::IpAddr>().is_ok() {
        "<address>"
    } else {
        text
    }
}

/// A time that a server wrote; the finer form is another one.
fn time(text: &str) -> Option<&'static str> {
    text.parse::<jiff::Timestamp>().ok()?;
    let year: u32 = text.get(..4)?.parse().ok()?;
    let fine = text.contains('.');
    (year >= FIRST_YEAR_OF_SERVERS).then_some(if fine { "<fine time>" } else { "<time>" })
}

/// `0s`, `1m2s`: how long ago something was.
fn is_age(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.ends_with(['s', 'm', 'h', 'd', 'y'])
        && text
            .chars()
            .all(|one| one.is_ascii_digit() || "smhdy".contains(one))
}

/// All values at a pointer in which `*` stands for every element.
pub(crate) fn places<'a>(document: &'a mut Value, pointer: &str) -> Vec<&'a mut Value> {
    let Some(rest) = pointer.strip_prefix('/') else {
        return vec![document];
    };
    let (head, tail) = match rest.split_once('/') {
        Some((head, tail)) => (head, format!("/{tail}")),
        None => (rest, String::new()),
    };
    let children: Vec<&mut Value> = if head == "*" {
        match document {
            Value::Array(list) => list.iter_mut().collect(),
            Value::Object(map) => map.values_mut().collect(),
            _ => Vec::new(),
        }
    } else {
        let child = document.pointer_mut(&format!("/{head}"));
        child.into_iter().collect()
    };
    children
        .into_iter()
        .flat_map(|child| places(child, &tail))
        .collect()
}

/// Leaves out what is not picked.
pub(crate) fn pick(document: &mut Value, pick: &Pick) {
    for place in places(document, &pick.at) {
        if let Value::Array(list) = place {
            list.retain(|element| {
                let found = element.pointer(&pick.key).and_then(Value::as_str);
                found.is_some_and(|found| pick.values.iter().any(|value| value == found))
            });
        }
    }
}
