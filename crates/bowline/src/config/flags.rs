//! Flags of the manager in the file, under their own names.

use bowline_controllers::options::{self, FLAGS, Flag, FlagEffect};

use super::document::{Shape, Value};
use super::problem::Problem;
use super::schema::{Field, Kind, below};

/// Flags that say what the file says otherwise, or that make no sense in it. Flags of single clouds are not among those
/// of the framework.
const ELSEWHERE: [&str; 7] = [
    "config",
    "cloud-provider",
    "cloud-config",
    "cluster-uid",
    "help",
    "load-balancer-adoption",
    "version",
];

/// A flag and what the file gives it, as on a command line: once for each text.
pub(crate) type Preset = (&'static str, Vec<String>);

/// The flags that the file can have.
fn flags() -> impl Iterator<Item = &'static Flag> {
    FLAGS
        .iter()
        .filter(|flag| flag.effect != FlagEffect::Removed && !ELSEWHERE.contains(&flag.name))
}

pub(super) fn fields() -> Vec<Field> {
    let one = |flag: &'static Flag| {
        let field = Field::new(flag.name, kind(flag.kind), flag.help);
        match flag.default {
            "" => field,
            default => field.or(default),
        }
    };
    flags().map(one).collect()
}

fn kind(kind: options::Kind) -> Kind {
    match kind {
        options::Kind::Integer32 => Kind::Whole(i32::MIN.into(), i32::MAX.into()),
        options::Kind::Integer => Kind::Whole(i64::MIN, i64::MAX),
        options::Kind::Float => Kind::Number,
        options::Kind::Switch => Kind::Switch,
        options::Kind::Duration => Kind::Duration,
        options::Kind::List | options::Kind::Leases => Kind::Texts,
        options::Kind::IntegerList => Kind::Whole(i64::MIN, i64::MAX).list(),
        options::Kind::Repeated => Kind::Text.list(),
        options::Kind::Gates => Kind::Switch.map(),
        options::Kind::Levels => Kind::Whole(0, i32::MAX.into()).map(),
        options::Kind::Text
        | options::Kind::Address
        | options::Kind::Namespaces
        | options::Kind::Size
        | options::Kind::Version => Kind::Text,
    }
}

/// What the file gives flags. Values that their flags do not take are problems.
pub(super) fn read(value: &Value, problems: &mut Vec<Problem>) -> Vec<Preset> {
    let mut presets = Vec::new();
    for entry in value.entries() {
        let Some(flag) = flags().find(|flag| flag.name == entry.key) else {
            continue;
        };
        if entry.value.is_nothing() {
            continue;
        }
        let texts = texts(&entry.value, flag.kind);
        let path = below("manager", flag.name);
        let reported = |problem: &Problem| problem.path.starts_with(&path);
        if problems.iter().any(reported) {
            continue;
        }
        for text in &texts {
            if let Err(reason) = flag.check(text) {
                problems.push(Problem::at(
                    entry.value.place,
                    &path,
                    format!("{text:?} is not allowed: {reason}"),
                ));
            }
        }
        presets.push((flag.name, texts));
    }
    presets
}

fn texts(value: &Value, kind: options::Kind) -> Vec<String> {
    let plain = |value: &Value| value.text().unwrap_or_default().to_owned();
    match &value.shape {
        Shape::Nothing => Vec::new(),
        Shape::Scalar { text, .. } => vec![text.clone()],
        // No item at all is said by nothing.
        Shape::List(items) if items.is_empty() => vec![String::new()],
        Shape::List(items) if kind == options::Kind::List => {
            items.iter().map(|item| field(&plain(item))).collect()
        }
        Shape::List(items) => items.iter().map(plain).collect(),
        Shape::Map(entries) => {
            let all = entries.iter();
            let all: Vec<String> = all
                .map(|it| format!("{}={}", it.key, plain(&it.value)))
                .collect();
            vec![all.join(",")]
        }
    }
}

/// One item of a list whose items are separated by commas.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) || text.is_empty() {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
