//! What may stand where, as a tree: the check, the JSON schema and the reference page are made of it.

use bowline_core::{CloudName, NamespaceRule, Selector, parse_duration};

pub(crate) use bowline_provider::{Field, Kind, below};

use super::document::{Entry, Shape, Value};
use super::problem::Problem;
use super::reference::Reference;

/// Tells everything that is wrong with a value.
pub(crate) fn check(value: &Value, kind: &Kind, path: &str, problems: &mut Vec<Problem>) {
    // Nothing is as good as no key.
    if value.is_nothing() {
        return;
    }
    match kind {
        Kind::List(inner) => {
            let Shape::List(items) = &value.shape else {
                return problems.push(unfit(value, path, "a list"));
            };
            for (number, item) in items.iter().enumerate() {
                let path = format!("{path}[{number}]");
                if item.is_nothing() {
                    problems.push(Problem::at(item.place, &path, "there is nothing"));
                }
                check(item, inner, &path, problems);
            }
        }
        Kind::Texts if matches!(value.shape, Shape::List(_)) => {
            check(value, &Kind::List(Box::new(Kind::Text)), path, problems);
        }
        Kind::Namespaces => {
            if let Some(wrong) = namespaces(value).err() {
                problems.push(Problem::at(value.place, path, wrong));
            }
        }
        Kind::Map(inner) => {
            let Shape::Map(entries) = &value.shape else {
                return problems.push(unfit(value, path, "keys and values"));
            };
            for entry in entries {
                check(&entry.value, inner, &below(path, &entry.key), problems);
            }
        }
        Kind::Object(fields) => {
            let Shape::Map(entries) = &value.shape else {
                return problems.push(unfit(value, path, "keys and values"));
            };
            check_keys(value, entries, fields, path, problems);
        }
        // Checked by whoever knows the provider.
        Kind::Settings => {
            if !matches!(value.shape, Shape::Map(_)) {
                problems.push(unfit(value, path, "keys and values"));
            }
        }
        Kind::Secret | Kind::TextOrSecret if matches!(value.shape, Shape::Map(_)) => {
            problems.extend(Reference::read(value, path).err().unwrap_or_default());
        }
        // It may be one, and is not shown.
        Kind::Secret => problems.push(Problem::at(
            value.place,
            path,
            "a secret does not stand here; say where it is: {file: PATH}, {environment: VARIABLE} \
             or {secret: {name: NAME, key: KEY}}",
        )),
        _ => check_scalar(value, kind, path, problems),
    }
}

/// The namespaces that a value says.
pub(crate) fn namespaces(value: &Value) -> Result<NamespaceRule, String> {
    let text = match &value.shape {
        Shape::List(items) if !items.is_empty() => {
            let names: Vec<&str> = items.iter().map(|it| it.text().unwrap_or("")).collect();
            // The words are no names: a list of them would be mistaken for what they say alone.
            if names.iter().any(|it| matches!(*it, "never" | "any" | "")) {
                return Err(format!(
                    "a list has names of namespaces; allowed is {}",
                    Kind::Namespaces.allowed()
                ));
            }
            names.join(",")
        }
        Shape::Scalar { text, .. } => text.clone(),
        Shape::Nothing | Shape::List(_) => "never".to_owned(),
        Shape::Map(_) => {
            return Err(format!(
                "keys and values cannot stand here; allowed is {}",
                Kind::Namespaces.allowed()
            ));
        }
    };
    NamespaceRule::parse(&text)
}

fn check_keys(
    value: &Value,
    entries: &[Entry],
    fields: &[Field],
    path: &str,
    problems: &mut Vec<Problem>,
) {
    for entry in entries {
        let path = below(path, &entry.key);
        let Some(field) = fields.iter().find(|field| field.name == entry.key) else {
            let known: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            problems.push(Problem::key(entry.place, &path, &entry.key, &known));
            continue;
        };
        let mut found = Vec::new();
        check(&entry.value, &field.kind, &path, &mut found);
        problems.extend(found);
    }
    for field in fields.iter().filter(|field| field.required) {
        if value.get(&field.name).is_none_or(Value::is_nothing) {
            let what = format!("is missing: {}", field.meaning);
            problems.push(Problem::at(value.place, &below(path, &field.name), what));
        }
    }
}

fn check_scalar(value: &Value, kind: &Kind, path: &str, problems: &mut Vec<Problem>) {
    let allowed = kind.allowed();
    let Shape::Scalar { text, quoted } = &value.shape else {
        return problems.push(unfit(value, path, &allowed));
    };
    let wrong = match kind {
        Kind::Words(words) if !words.contains(&text.as_str()) => {
            Some(Problem::choice(value.place, path, text, words))
        }
        Kind::Switch if *quoted || !matches!(text.as_str(), "true" | "false") => {
            Some(Problem::value(value.place, path, text, &allowed))
        }
        Kind::Whole(least, most) => {
            let number = text.parse::<i64>().ok().filter(|_| !quoted);
            let fits = number.is_some_and(|number| (*least..=*most).contains(&number));
            (!fits).then(|| Problem::value(value.place, path, text, &allowed))
        }
        Kind::Number => {
            let number = text.parse::<f32>().ok().filter(|_| !quoted);
            let fits = number.is_some_and(f32::is_finite);
            (!fits).then(|| Problem::value(value.place, path, text, &allowed))
        }
        Kind::Duration => parse_duration(text)
            .err()
            .map(|_| Problem::value(value.place, path, text, &allowed)),
        Kind::Name => CloudName::parse(text)
            .err()
            .map(|_| Problem::value(value.place, path, text, &allowed)),
        Kind::Selector => Selector::parse(text)
            .err()
            .map(|error| Problem::at(value.place, path, error.to_string())),
        _ => None,
    };
    problems.extend(wrong);
}

/// A value of the wrong shape.
fn unfit(value: &Value, path: &str, wanted: &str) -> Problem {
    let found = match &value.shape {
        Shape::Nothing => "nothing",
        Shape::Scalar { text, .. } => {
            return Problem::value(value.place, path, text, wanted);
        }
        Shape::List(_) => "a list",
        Shape::Map(_) => "keys and values",
    };
    let what = format!("{found} cannot stand here; allowed is {wanted}");
    Problem::at(value.place, path, what)
}
