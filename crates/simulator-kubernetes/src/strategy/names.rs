//! What a name, a label and a key may look like.

/// Longest DNS subdomain.
const SUBDOMAIN_LIMIT: usize = 253;
/// Longest DNS label, label name and label value.
const LABEL_LIMIT: usize = 63;

const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const KEY_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CONFIG_KEY_RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

/// What is wrong with a text that has a limit and a rule.
fn checked(text: &str, limit: usize, is_good: bool, rule: &str) -> Vec<String> {
    let length = (text.len() > limit).then(|| too_long(limit));
    let form = (!is_good).then(|| rule.to_owned());
    length.into_iter().chain(form).collect()
}

fn is_label(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    text.starts_with(plain)
        && text.ends_with(plain)
        && text.chars().all(|letter| plain(letter) || letter == '-')
}

fn is_key(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric();
    text.starts_with(plain)
        && text.ends_with(plain)
        && text
            .chars()
            .all(|letter| plain(letter) || "-_.".contains(letter))
}

/// What is wrong with a DNS label.
pub fn label(text: &str) -> Vec<String> {
    checked(text, LABEL_LIMIT, is_label(text), LABEL_RULE)
}

/// What is wrong with a DNS subdomain.
pub fn subdomain(text: &str) -> Vec<String> {
    checked(
        text,
        SUBDOMAIN_LIMIT,
        text.split('.').all(is_label),
        SUBDOMAIN_RULE,
    )
}

/// What is wrong with a label key, a finalizer, a taint key: `[domain/]name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                let wrong = subdomain(prefix).into_iter();
                faults.extend(wrong.map(|fault| format!("prefix part {fault}")));
            }
            *name
        }
        _ => {
            return vec![format!(
                "a valid label key {KEY_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_LIMIT {
        faults.push(format!("name part {}", too_long(LABEL_LIMIT)));
    }
    if !is_key(name) {
        faults.push(format!("name part {KEY_RULE}"));
    }
    faults
}

/// What is wrong with a label's value.
pub fn label_value(text: &str) -> Vec<String> {
    checked(
        text,
        LABEL_LIMIT,
        text.is_empty() || is_key(text),
        VALUE_RULE,
    )
}

/// What is wrong with a key of a ConfigMap or Secret.
pub fn config_key(key: &str) -> Vec<String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let good = !key.is_empty() && key.chars().all(plain);
    let mut faults = checked(key, SUBDOMAIN_LIMIT, good, CONFIG_KEY_RULE);
    match key {
        "." => faults.push("must not be '.'".to_owned()),
        ".." => faults.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}

/// What is wrong with the name of a namespace or a Service: a label that is reported apart from a domain.
pub fn label_without_dots(text: &str) -> Vec<String> {
    if text.contains('.') {
        return vec!["must not contain dots".to_owned()];
    }
    label(text)
}

/// What is wrong with a name that only has to fit into a path.
pub fn path_segment(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|bad| name.contains(**bad))
        .map(|bad| format!("may not contain '{bad}'"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_by_their_rules() {
        type Rule = fn(&str) -> Vec<String>;
        let rows: [(Rule, &str, usize); 18] = [
            (label, "a-1", 0),
            (label, "A", 1),
            (label, "-a", 1),
            (label, "a.b", 1),
            (subdomain, "a.b-c.1", 0),
            (subdomain, "a..b", 1),
            (subdomain, "", 1),
            (qualified_name, "node.kubernetes.io/not-ready", 0),
            (qualified_name, "Name_1", 0),
            (qualified_name, "/x", 1),
            (qualified_name, "a/b/c", 1),
            (qualified_name, "A_/x", 1),
            (label_value, "", 0),
            (label_value, "a b", 1),
            (config_key, "a.b_c-D", 0),
            (config_key, "..x", 1),
            (path_segment, "system:node:a", 0),
            (path_segment, "a/b%", 2),
        ];
        for (rule, text, faults) in rows {
            assert_eq!(rule(text).len(), faults, "{text}");
        }
        assert_eq!(label(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    }
}
