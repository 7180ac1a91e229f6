//! What a tag may be: keys that are kept back, special keys and the grammar of CNS services.

use serde_json::{Map, Value};

/// Parameters that never become tags.
pub(super) const NEVER: [&str; 6] = [
    "account",
    "machine",
    "uuid",
    "owner_uuid",
    "context",
    "image",
];
/// The most groups of metrics that a machine may be in, and the longest name of one.
const MOST_GROUPS: usize = 100;

/// What is wrong with some tags, if anything is.
pub(super) fn problem(tags: &Map<String, Value>) -> Option<String> {
    tags.iter().find_map(|(key, value)| problem_of(key, value))
}

fn problem_of(key: &str, value: &Value) -> Option<String> {
    if key == "sdc_docker" || key.starts_with("docker:label:triton.") || is_docker_label(key) {
        return Some(format!("special tag \"{key}\" not supported"));
    }
    if !key.starts_with("triton.") {
        return None;
    }
    match key {
        "triton.cns.services" => {
            let problem = match text(key, value) {
                Ok(text) => services(text).err(),
                Err(problem) => return Some(problem),
            };
            problem.map(|problem| format!("invalid \"{key}\" tag: {problem}"))
        }
        "triton.cns.reverse_ptr" => match text(key, value) {
            Ok(name) if is_dns_name(name) => None,
            Ok(_) => Some(format!("invalid \"{key}\" tag: Expected DNS name")),
            Err(problem) => Some(problem),
        },
        "triton.cmon.groups" => match text(key, value) {
            Ok(groups) => {
                groups_problem(groups).map(|what| format!("invalid \"{key}\" tag: {what}"))
            }
            Err(problem) => Some(problem),
        },
        "triton.network.public" | "triton.network.public_ipv4" => text(key, value).err(),
        "triton.cns.disable" | "triton.placement.exclude_virtual_servers" => {
            (!value.is_boolean()).then(|| wrong_type(key, value, "boolean"))
        }
        _ => Some(format!("Unrecognized special triton tag \"{key}\"")),
    }
}

fn is_docker_label(key: &str) -> bool {
    let rest = key.strip_prefix("docker:label:").unwrap_or_default();
    ["com.docker", "io.docker", "org.docker"]
        .iter()
        .any(|start| rest.starts_with(start))
}

fn text<'a>(key: &str, value: &'a Value) -> Result<&'a str, String> {
    value
        .as_str()
        .ok_or_else(|| wrong_type(key, value, "string"))
}

fn wrong_type(key: &str, value: &Value, wanted: &str) -> String {
    let kind = match value {
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::Null | Value::Array(_) | Value::Object(_) => "object",
    };
    format!("Triton tag \"{key}\" value must be a {wanted}: {value} ({kind})")
}

fn is_dns_name(name: &str) -> bool {
    let label = |label: &str| {
        let fits = label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        fits && !label.is_empty() && label.len() <= 63
    };
    name.len() <= 255 && name.trim_end_matches('.').split('.').all(label)
}

fn groups_problem(groups: &str) -> Option<String> {
    let all: Vec<&str> = groups.split(',').collect();
    let fits = |group: &&str| {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        (1..=MOST_GROUPS).contains(&group.len()) && group.bytes().all(letter)
    };
    if let Some(bad) = all.iter().find(|group| !fits(group)) {
        return Some(format!("invalid group name \"{bad}\""));
    }
    let distinct: std::collections::BTreeSet<_> = all.iter().collect();
    if distinct.len() != all.len() {
        return Some("duplicate group names".to_owned());
    }
    (all.len() > MOST_GROUPS).then(|| format!("more than {MOST_GROUPS} groups"))
}

/// The services of a `triton.cns.services` tag: labels in lower case, each with its port if it has one.
pub(super) fn services(text: &str) -> Result<Vec<(String, Option<u16>)>, String> {
    let mut rest = text;
    let mut found = Vec::new();
    loop {
        let (label, after) = label(rest)?;
        rest = after;
        let mut port = None;
        while let Some(after) = rest.strip_prefix(':') {
            let end = after.find([',', ':']).unwrap_or(after.len());
            let (word, next) = after.split_at(end);
            port = option(word, port)?;
            rest = next;
        }
        found.push((label, port));
        match rest.chars().next() {
            None => return Ok(found),
            Some(',') => rest = &rest[1..],
            Some(other) => {
                return Err(format!(
                    "Expected \",\", \":\" or end of input but \"{other}\" found."
                ));
            }
        }
    }
}

/// The label that a text begins with, and what follows.
fn label(text: &str) -> Result<(String, &str), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let found = |text: &str| match text.chars().next() {
        Some(letter) => format!("Expected DNS name but \"{letter}\" found."),
        None => "Expected DNS name but end of input found.".to_owned(),
    };
    let end = if let Some(rest) = text.strip_prefix('_') {
        let end = rest.find(|c| !plain(c)).unwrap_or(rest.len());
        let ending = ["._tcp", "._udp"]
            .into_iter()
            .find(|it| rest[end..].starts_with(*it));
        1 + end + ending.ok_or_else(|| found(&rest[end..]))?.len()
    } else {
        if !text.starts_with(plain) {
            return Err(found(text));
        }
        text.find(|c| !plain(c) && c != '.').unwrap_or(text.len())
    };
    if end > 63 {
        return Err(format!("DNS name \"{}\" is too long.", &text[..end]));
    }
    Ok((text[..end].to_lowercase(), &text[end..]))
}

/// A port or `key=value`; returns the port that holds after it.
fn option(word: &str, port: Option<u16>) -> Result<Option<u16>, String> {
    let bad = || format!("Expected port number or property but \"{word}\" found.");
    match word.split_once('=') {
        None => {
            let number: u16 = word.parse().map_err(|_| bad())?;
            if number == 0 || port.is_some() {
                return Err(bad());
            }
            Ok(Some(number))
        }
        Some((key, value)) => {
            let number: u16 = value.parse().map_err(|_| bad())?;
            match key {
                "port" if number > 0 => Ok(Some(number)),
                "priority" | "weight" => Ok(port),
                _ => Err(bad()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_are_read_as_the_name_service_does() {
        type Services<'a> = Vec<(&'a str, Option<u16>)>;
        let rows: [(&str, Result<Services<'_>, &str>); 12] = bowline_simulator::table![
            "web", Ok(vec![("web", None)]);
            "web.prod:30080", Ok(vec![("web.prod", Some(30080))]);
            "k8s-api:6443,OLD:1:weight=5,web:80,web:443",
                Ok(vec![("k8s-api", Some(6443)), ("old", Some(1)), ("web", Some(80)),
                ("web", Some(443))]);
            "_sip._udp:5060:priority=1", Ok(vec![("_sip._udp", Some(5060))]);
            "a:port=8", Ok(vec![("a", Some(8))]);
            "", Err("Expected DNS name but end of input found.");
            " ", Err("Expected DNS name but \" \" found.");
            "a, b", Err("Expected DNS name but \" \" found.");
            "a b", Err("Expected \",\", \":\" or end of input but \" \" found.");
            "a:0", Err("Expected port number or property but \"0\" found.");
            "a:80:colour=1", Err("Expected port number or property but \"colour=1\" found.");
            "a:70000", Err("Expected port number or property but \"70000\" found.");
        ];
        for (text, wanted) in rows {
            let owned = |all: Vec<(&str, Option<u16>)>| {
                all.into_iter()
                    .map(|(label, port)| (label.to_owned(), port))
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                services(text),
                wanted.map(owned).map_err(str::to_owned),
                "{text:?}"
            );
        }
        assert!(services(&"a".repeat(63)).is_ok());
        assert!(services(&"a".repeat(64)).is_err());
    }

    #[test]
    fn special_tags_have_rules() {
        for (key, value, wanted) in [
            ("bowline.cns", json!("x"), None),
            ("anything", json!(7), None),
            ("triton.cns.disable", json!(true), None),
            (
                "triton.cns.disable",
                json!("false"),
                Some(
                    "Triton tag \"triton.cns.disable\" value must be a boolean: \"false\" (string)",
                ),
            ),
            (
                "triton.cns.services",
                json!(" "),
                Some("invalid \"triton.cns.services\" tag: Expected DNS name but \" \" found."),
            ),
            (
                "triton.bowline",
                json!("x"),
                Some("Unrecognized special triton tag \"triton.bowline\""),
            ),
            ("triton.cmon.groups", json!("db,k8s-kubernetes"), None),
            (
                "triton.cmon.groups",
                json!("db,db"),
                Some("invalid \"triton.cmon.groups\" tag: duplicate group names"),
            ),
            (
                "sdc_docker",
                json!(true),
                Some("special tag \"sdc_docker\" not supported"),
            ),
        ] {
            let tags = [(key.to_owned(), value)].into_iter().collect();
            assert_eq!(problem(&tags).as_deref(), wanted, "{key}");
        }
    }
}
