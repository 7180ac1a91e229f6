//! Values of flags: how each kind is read from the command line and shown again.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::gates;
use crate::kube::election::LeaseName;
use bowline_core::{NamespaceRule, format_duration, parse_duration, quote};

/// What a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A 32-bit whole number.
    Integer32,
    /// A whole number.
    Integer,
    /// A number of single precision.
    Float,
    /// True or false; the bare flag means true.
    Switch,
    /// A duration in Go's syntax.
    Duration,
    /// Texts, comma separated and repeatable.
    List,
    /// Whole numbers, comma separated and repeatable.
    IntegerList,
    /// Texts, repeatable, in which a comma has no meaning of its own.
    Repeated,
    /// Leases, `namespace/name` or `name`, comma separated and repeatable.
    Leases,
    /// `never`, `any`, or namespaces, comma separated.
    Namespaces,
    /// Names of feature gates with true or false.
    Gates,
    /// Patterns with a log level, `pattern=N`.
    Levels,
    /// An IP address.
    Address,
    /// A number of bytes, as a Kubernetes quantity.
    Size,
    /// `--version`: true, false or raw.
    Version,
}

impl Kind {
    /// The word that stands for the value in the help text.
    pub const fn placeholder(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Integer32 => "int32",
            Self::Integer => "int",
            Self::Float => "float",
            Self::Switch => "",
            Self::Duration => "duration",
            Self::List => "strings",
            Self::IntegerList => "ints",
            Self::Repeated => "cert,key[:domains]",
            Self::Leases => "namespace/name,...",
            Self::Namespaces => "never|any|namespace,...",
            Self::Gates => "Name=true|false,...",
            Self::Levels => "pattern=N,...",
            Self::Address => "ip",
            Self::Size => "quantity",
            Self::Version => "version[=true|raw]",
        }
    }

    /// Whether the flag may stand alone (`--leader-elect`), and then means true.
    pub const fn stands_alone(self) -> bool {
        matches!(self, Self::Switch | Self::Version)
    }

    /// Reads one occurrence. `before` is what earlier occurrences gave; none for the first one.
    pub(super) fn read(self, text: &str, before: Option<Value>) -> Result<Value, String> {
        Ok(match self {
            Self::Text => Value::Text(text.to_owned()),
            Self::Integer32 => Value::Integer(integer(text, 32)?),
            Self::Integer => Value::Integer(integer(text, 64)?),
            Self::Float => Value::Float(float(text)?),
            Self::Switch => Value::Switch(switch(text)?),
            Self::Duration => Value::Duration(parse_duration(text)?),
            Self::List => Value::List(joined(before, comma_separated(text)?)),
            Self::IntegerList => Value::IntegerList(joined_numbers(before, numbers(text)?)),
            Self::Repeated => Value::Repeated(joined(before, vec![certificate_pair(text)?])),
            Self::Leases => Value::List(joined(before, leases(text)?)),
            Self::Namespaces => {
                NamespaceRule::parse(text)?;
                Value::Text(text.to_owned())
            }
            Self::Gates => Value::Gates(merged(before, gates::read(text)?)),
            Self::Levels => Value::Levels(levels(text)?),
            Self::Address => Value::Address(address(text)?),
            Self::Size => Value::Text(size(text)?),
            Self::Version => Value::Text(version(text)?),
        })
    }
}

/// The value of one flag.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of [`Kind::Text`], [`Kind::Namespaces`], [`Kind::Size`] and [`Kind::Version`].
    Text(String),
    /// Of [`Kind::Integer`] and [`Kind::Integer32`].
    Integer(i64),
    /// Of [`Kind::Float`].
    Float(f32),
    /// Of [`Kind::Switch`].
    Switch(bool),
    /// Of [`Kind::Duration`].
    Duration(Duration),
    /// Of [`Kind::List`] and [`Kind::Leases`].
    List(Vec<String>),
    /// Of [`Kind::IntegerList`].
    IntegerList(Vec<i64>),
    /// Of [`Kind::Repeated`].
    Repeated(Vec<String>),
    /// Of [`Kind::Gates`].
    Gates(BTreeMap<String, bool>),
    /// Of [`Kind::Levels`].
    Levels(Vec<(String, i64)>),
    /// Of [`Kind::Address`].
    Address(IpAddr),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let join = |items: Vec<String>| items.join(",");
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Switch(on) => write!(f, "{on}"),
            Self::Duration(duration) => f.write_str(&format_duration(*duration)),
            Self::List(items) => {
                write!(
                    f,
                    "[{}]",
                    join(items.iter().map(|item| csv_field(item)).collect())
                )
            }
            Self::IntegerList(items) => {
                write!(f, "[{}]", join(items.iter().map(i64::to_string).collect()))
            }
            Self::Repeated(items) => write!(f, "[{}]", items.join(";")),
            Self::Gates(gates) => f.write_str(&join(
                gates.iter().map(|(k, v)| format!("{k}={v}")).collect(),
            )),
            Self::Levels(levels) => f.write_str(&join(
                levels.iter().map(|(k, v)| format!("{k}={v}")).collect(),
            )),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

fn joined(before: Option<Value>, mut more: Vec<String>) -> Vec<String> {
    match before {
        Some(Value::List(mut items) | Value::Repeated(mut items)) => {
            items.append(&mut more);
            items
        }
        _ => more,
    }
}

fn joined_numbers(before: Option<Value>, mut more: Vec<i64>) -> Vec<i64> {
    match before {
        Some(Value::IntegerList(mut items)) => {
            items.append(&mut more);
            items
        }
        _ => more,
    }
}

fn merged(before: Option<Value>, more: BTreeMap<String, bool>) -> BTreeMap<String, bool> {
    match before {
        Some(Value::Gates(mut gates)) => {
            gates.extend(more);
            gates
        }
        _ => more,
    }
}

/// Leases as they are written; a name alone is one in the namespace that another flag says.
fn leases(text: &str) -> Result<Vec<String>, String> {
    let items = comma_separated(text)?;
    for item in &items {
        LeaseName::parse(item, "any")?;
    }
    Ok(items)
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(format!(
            "strconv.ParseBool: parsing {}: invalid syntax",
            quote(text)
        )),
    }
}

/// Reads a number the way Go does with base 0: `0x`, `0b`, `0o` and a leading `0` choose the base,
/// underscores may separate digits.
fn integer(text: &str, bits: u32) -> Result<i64, String> {
    let failed = |why: &str| format!("strconv.ParseInt: parsing {}: {why}", quote(text));
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = unsigned.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let separated =
        digits.contains("__") || digits.ends_with('_') || base == 10 && digits.contains('_');
    let digits = digits.replace('_', "");
    if separated || digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return Err(failed("invalid syntax"));
    }
    let size = i128::from_str_radix(&digits, base).map_err(|_| failed("value out of range"))?;
    let value = if negative { -size } else { size };
    let limit = 1_i128 << (bits - 1);
    if value < -limit || value >= limit {
        return Err(failed("value out of range"));
    }
    i64::try_from(value).map_err(|_| failed("value out of range"))
}

fn float(text: &str) -> Result<f32, String> {
    let failed = |why: &str| format!("strconv.ParseFloat: parsing {}: {why}", quote(text));
    let value: f32 = text.parse().map_err(|_| failed("invalid syntax"))?;
    if value.is_finite() || text.to_ascii_lowercase().contains("inf") {
        Ok(value)
    } else if value.is_nan() {
        // Go reads it; no limit can be computed from it.
        Err(failed("not a number"))
    } else {
        Err(failed("value out of range"))
    }
}

/// One line of comma-separated values; a field may be quoted.
fn comma_separated(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut fields = Vec::new();
    let mut rest = text;
    loop {
        let (field, next) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => match rest.split_once(',') {
                Some((field, next)) => (field.to_owned(), Some(next)),
                None => (rest.to_owned(), None),
            },
        };
        if !rest.starts_with('"') && field.contains('"') {
            return Err(r#"parse error on line 1: bare " in non-quoted-field"#.to_owned());
        }
        fields.push(field);
        match next {
            Some(next) => rest = next,
            None => return Ok(fields),
        }
    }
}

/// The rest of a field after its opening quote, and what follows the comma after it.
fn quoted_field(text: &str) -> Result<(String, Option<&str>), String> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let broken =
            || r#"parse error on line 1: extraneous or missing " in quoted-field"#.to_owned();
        let (before, after) = rest.split_once('"').ok_or_else(broken)?;
        field.push_str(before);
        if let Some(escaped) = after.strip_prefix('"') {
            field.push('"');
            rest = escaped;
        } else if after.is_empty() {
            return Ok((field, None));
        } else {
            return after
                .strip_prefix(',')
                .map(|next| (field, Some(next)))
                .ok_or_else(broken);
        }
    }
}

fn csv_field(field: &str) -> String {
    if field.contains([',', '"', '\n']) || field.starts_with(' ') {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

fn numbers(text: &str) -> Result<Vec<i64>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let number = |item: &str| {
        item.parse::<i64>()
            .map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", quote(item)))
    };
    text.split(',').map(number).collect()
}

/// `cert,key` with optional `:domain,domain…`.
fn certificate_pair(text: &str) -> Result<String, String> {
    let files = text.split_once(':').map_or(text, |(files, _)| files);
    match files.split(',').collect::<Vec<_>>()[..] {
        [certificate, key] if !certificate.is_empty() && !key.is_empty() => Ok(text.to_owned()),
        _ => Err("expected comma separated certificate and key file paths".to_owned()),
    }
}

fn levels(text: &str) -> Result<Vec<(String, i64)>, String> {
    let read = |item: &str| {
        let (pattern, level) = item
            .split_once('=')
            .filter(|(pattern, level)| !pattern.is_empty() && !level.is_empty())
            .ok_or_else(|| "syntax error: expect comma-separated list of filename=N".to_owned())?;
        let level = level
            .parse::<i32>()
            .map_err(|_| format!("strconv.ParseInt: parsing {}: invalid syntax", quote(level)))?;
        if level < 0 {
            return Err("negative value for vmodule level".to_owned());
        }
        Ok((pattern.to_owned(), i64::from(level)))
    };
    text.split(',')
        .filter(|item| !item.is_empty())
        .map(read)
        .collect()
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("failed to parse IP: {}", quote(text)))
}

/// A quantity such as `512`, `1k`, `4Mi`; kept as written, because nothing uses it.
fn size(text: &str) -> Result<String, String> {
    const SUFFIXES: [&str; 14] = [
        "", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    if number.parse::<f64>().is_ok() && SUFFIXES.contains(&suffix) {
        Ok(text.to_owned())
    } else {
        Err("unable to parse quantity's value".to_owned())
    }
}

fn version(text: &str) -> Result<String, String> {
    if text == "raw" {
        return Ok(text.to_owned());
    }
    switch(text).map(|on| on.to_string())
}
