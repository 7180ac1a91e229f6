//! The grammar of the two lists in tags that we share with others. Pure.

use std::collections::BTreeSet;

/// The longest label: that of DNS.
const LONGEST_LABEL: usize = 63;
const LONGEST_GROUP: usize = 100;

/// A tag that cannot be parsed, and therefore must not be overwritten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tag {tag} {problem}")]
pub struct Bad {
    pub tag: &'static str,
    /// What is wrong, in words that follow its key.
    pub problem: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub text: String,
    /// What it is called: its label in lower case, or the group.
    pub name: String,
    pub port: Option<u16>,
}

impl Item {
    /// An entry of ours for the name service.
    pub(super) fn service(label: &str, port: Option<u16>) -> Self {
        let text = match port {
            Some(port) => format!("{label}:{port}"),
            None => label.to_owned(),
        };
        Self {
            text,
            name: label.to_owned(),
            port,
        }
    }

    pub(super) fn group(name: &str) -> Self {
        Self {
            text: name.to_owned(),
            name: name.to_owned(),
            port: None,
        }
    }

    pub(super) fn order(&self) -> (&str, Option<u16>, &str) {
        (&self.name, self.port, &self.text)
    }
}

/// The entries of `triton.cns.services`. What is empty has none.
pub fn services(text: &str) -> Result<Vec<Item>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(service).collect()
}

fn service(text: &str) -> Result<Item, String> {
    let bad = |what: &str| Err(format!("has the entry {text:?}, {what}"));
    let mut parts = text.split(':');
    let label = parts.next().unwrap_or_default();
    if !is_label(label) {
        return bad("whose label is none");
    }
    let mut port = None;
    for (at, part) in parts.enumerate() {
        let number = |digits: &str| -> Option<u16> {
            let plain = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
            digits.parse().ok().filter(|_| plain)
        };
        match part.split_once('=') {
            None if at == 0 => match number(part).filter(|port| *port > 0) {
                Some(number) => port = Some(number),
                None => return bad("whose port is none"),
            },
            Some(("port", value)) => match number(value) {
                Some(number) => port = Some(number),
                None => return bad("whose port is none"),
            },
            Some(("priority" | "weight", value)) if number(value).is_some() => {}
            _ => return bad("with something unknown behind its label"),
        }
    }
    Ok(Item {
        text: text.to_owned(),
        name: label.to_ascii_lowercase(),
        port,
    })
}

/// Whether the name service takes that as a label.
pub fn is_label(label: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let fits = if let Some(rest) = label.strip_prefix('_') {
        let tcp = rest.strip_suffix("._tcp");
        let rest = tcp.or_else(|| rest.strip_suffix("._udp"));
        rest.is_some_and(|rest| rest.bytes().all(letter))
    } else {
        let first = label.bytes().next().is_some_and(letter);
        first && label.bytes().all(|byte| letter(byte) || byte == b'.')
    };
    fits && label.len() <= LONGEST_LABEL
}

/// The entries of `triton.cmon.groups`. What is empty has none.
pub fn groups(text: &str) -> Result<Vec<Item>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut seen = BTreeSet::new();
    let group = |name: &str| {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let fits = (1..=LONGEST_GROUP).contains(&name.len()) && name.bytes().all(letter);
        if fits && seen.insert(name.to_owned()) {
            Ok(Item::group(name))
        } else {
            Err(format!(
                "has the group {name:?}, which is none or is there twice"
            ))
        }
    };
    text.split(',').map(group).collect()
}

pub(super) fn record(text: &str) -> BTreeSet<String> {
    let names = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_read_as_the_grammar_says_and_kept_as_they_stand() {
        type Row<'a> = (&'a str, Option<Vec<(&'a str, &'a str, Option<u16>)>>);
        let rows: [Row<'_>; 21] = [
            ("", Some(vec![])),
            ("web", Some(vec![("web", "web", None)])),
            (
                "web.prod:30080",
                Some(vec![("web.prod:30080", "web.prod", Some(30080))]),
            ),
            (
                "k8s-api:6443,OLD:1:weight=5",
                Some(vec![
                    ("k8s-api:6443", "k8s-api", Some(6443)),
                    ("OLD:1:weight=5", "old", Some(1)),
                ]),
            ),
            (
                "_sip._udp:5060:priority=1",
                Some(vec![("_sip._udp:5060:priority=1", "_sip._udp", Some(5060))]),
            ),
            ("a:port=8", Some(vec![("a:port=8", "a", Some(8))])),
            ("a:weight=0", Some(vec![("a:weight=0", "a", None)])),
            ("-a", Some(vec![("-a", "-a", None)])),
            (" ", None),
            ("a, b", None),
            ("a,", None),
            (",a", None),
            ("a:", None),
            ("a:0", None),
            ("a:+1", None),
            ("a:70000", None),
            ("a:80:81", None),
            ("a:weight=5:80", None),
            ("a:80:colour=1", None),
            (".a", None),
            ("_sip:1", None),
        ];
        for (text, wanted) in rows {
            let got = services(text).ok().map(|items| {
                let item = |it: Item| (it.text, it.name, it.port);
                items.into_iter().map(item).collect::<Vec<_>>()
            });
            let wanted = wanted.map(|items| {
                let item = |(text, name, port): (&str, &str, _)| (text.into(), name.into(), port);
                items.into_iter().map(item).collect::<Vec<_>>()
            });
            assert_eq!(got, wanted, "{text:?}");
        }
        assert!(is_label(&"a".repeat(63)) && !is_label(&"a".repeat(64)));
    }

    #[test]
    fn groups_are_read_as_the_server_takes_them() {
        assert_eq!(groups("").unwrap(), []);
        let names: Vec<String> = groups("db,K8s_a-1")
            .unwrap()
            .into_iter()
            .map(|it| it.name)
            .collect();
        assert_eq!(names, ["db", "K8s_a-1"]);
        for bad in ["a b", "a,", "a,a", "a.b", &"x".repeat(101)] {
            assert!(groups(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_record_is_a_list_of_names() {
        assert_eq!(record(""), BTreeSet::new());
        assert_eq!(
            record("b, a,,b"),
            BTreeSet::from(["a".to_owned(), "b".to_owned()])
        );
    }
}
