//! Writes the registry as Prometheus text 0.0.4, or as OpenMetrics for those who ask for it.
//!
//! The library speaks OpenMetrics only, and in the order of its hash maps. So its text is taken
//! apart into families and samples, sorted, and written anew; bounds of histograms get the form
//! that Go programs give them, since dashboards compare them as strings.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::registry::Registry;

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text, version 0.0.4.
    Prometheus,
    /// OpenMetrics text, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// What the `Accept` header asks for.
    pub fn from_accept(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// The matching `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[derive(Debug, Default)]
struct Described {
    help: String,
    kind: String,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    /// What sets series apart, without the bound of a bucket.
    labels: String,
    bound: Option<f64>,
    suffix: String,
    value: String,
}

/// What the library writes.
pub(super) fn raw(registry: &Registry) -> String {
    let mut raw = String::new();
    if let Err(error) = encode_registry(&mut raw, registry) {
        tracing::error!(%error, "metrics could not be written");
    }
    raw
}

/// What the library wrote, of one registry or of several, in that format.
pub(super) fn encode(raw: &str, format: Format) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut families: Vec<_> = (parse(raw).into_iter())
        .map(|(name, family)| (shown_name(&name, &family, format), name, family))
        .collect();
    families.sort_by(|a, b| a.0.cmp(&b.0));
    for (shown, name, mut family) in families {
        family.samples.sort_by(|a, b| {
            let rank = |sample: &Sample| (sample.bound.is_none(), sample.suffix != "_sum");
            (a.labels.cmp(&b.labels))
                .then_with(|| rank(a).cmp(&rank(b)))
                .then_with(|| {
                    a.bound
                        .partial_cmp(&b.bound)
                        .unwrap_or(std::cmp::Ordering::Equal)
                })
        });
        write_family(&mut out, (&shown, &name), &family, format);
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn parse(raw: &str) -> BTreeMap<String, Described> {
    let mut families: BTreeMap<String, Described> = BTreeMap::new();
    let mut current = String::new();
    for line in raw.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            name.clone_into(&mut current);
            let family = families.entry(current.clone()).or_default();
            help.clone_into(&mut family.help);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "unknown"));
            name.clone_into(&mut current);
            let family = families.entry(current.clone()).or_default();
            kind.clone_into(&mut family.kind);
        } else if line.starts_with('#') {
            // Units: the name says them already.
        } else if let Some(sample) = parse_sample(line, &current)
            && sample.suffix != "_created"
        {
            families
                .entry(current.clone())
                .or_default()
                .samples
                .push(sample);
        }
    }
    families.retain(|_, family| !family.samples.is_empty());
    families
}

fn parse_sample(line: &str, family: &str) -> Option<Sample> {
    let rest = line.strip_prefix(family)?;
    let end = rest.find(['{', ' '])?;
    let (suffix, rest) = rest.split_at(end);
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => split_labels(rest)?,
        None => (Vec::new(), rest),
    };
    let mut bound = None;
    let mut kept = Vec::new();
    for label in labels {
        match label.strip_prefix("le=\"") {
            Some(quoted) if suffix == "_bucket" => {
                let text = quoted.trim_end_matches('"');
                bound = Some(text.parse().unwrap_or(f64::INFINITY));
            }
            _ => kept.push(label),
        }
    }
    Some(Sample {
        labels: kept.join(","),
        bound,
        suffix: suffix.to_owned(),
        value: value.trim_start().to_owned(),
    })
}

/// Splits `a="x",b="y"} 1` at the commas and at the closing brace, minding quotes and escapes.
fn split_labels(text: &str) -> Option<(Vec<&str>, &str)> {
    let mut labels = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'}' if !quoted => {
                if at > start {
                    labels.push(&text[start..at]);
                }
                start = at + 1;
                if byte == b'}' {
                    return Some((labels, &text[start..]));
                }
            }
            _ => {}
        }
    }
    None
}

fn shown_name(name: &str, family: &Described, format: Format) -> String {
    match format {
        Format::Prometheus if family.kind == "counter" => format!("{name}_total"),
        Format::Prometheus | Format::OpenMetrics => name.to_owned(),
    }
}

fn write_family(out: &mut String, (shown, name): (&str, &str), family: &Described, format: Format) {
    let kind = match (format, family.kind.as_str()) {
        (Format::Prometheus, "info") => "gauge",
        (Format::Prometheus, "unknown") => "untyped",
        (_, kind) => kind,
    };
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP {shown} {}", family.help);
    let _ = writeln!(out, "# TYPE {shown} {kind}");
    for sample in &family.samples {
        out.push_str(name);
        out.push_str(&sample.suffix);
        let bound = sample
            .bound
            .map(|bound| format!("le=\"{}\"", go_float(bound, format)));
        let labels: Vec<&str> = [Some(sample.labels.as_str()), bound.as_deref()]
            .into_iter()
            .flatten()
            .filter(|labels| !labels.is_empty())
            .collect();
        if !labels.is_empty() {
            let _ = write!(out, "{{{}}}", labels.join(","));
        }
        let _ = writeln!(out, " {}", go_value(&sample.value, format));
    }
}

/// A sample's value; whole numbers without a point in Prometheus text.
fn go_value(value: &str, format: Format) -> String {
    match value.parse() {
        Ok(number) if format == Format::Prometheus && value.contains('.') => {
            go_float(number, format)
        }
        _ => value.to_owned(),
    }
}

/// The shortest form of a number as Go's `%g` prints it; OpenMetrics wants a point in whole ones.
fn go_float(number: f64, format: Format) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let plain = number.to_string();
        return if format == Format::OpenMetrics && !plain.contains('.') {
            plain + ".0"
        } else {
            plain
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_look_as_go_prints_them() {
        let rows = [
            (1e-8, "1e-08", "1e-08"),
            (0.001, "0.001", "0.001"),
            (0.0001, "0.0001", "0.0001"),
            (1e-5, "1e-05", "1e-05"),
            (1.0, "1", "1.0"),
            (16_777_216.0, "1.6777216e+07", "1.6777216e+07"),
            (1_048_576.0, "1.048576e+06", "1.048576e+06"),
            (262_144.0, "262144", "262144.0"),
            (f64::INFINITY, "+Inf", "+Inf"),
        ];
        for (number, prometheus, openmetrics) in rows {
            assert_eq!(go_float(number, Format::Prometheus), prometheus);
            assert_eq!(go_float(number, Format::OpenMetrics), openmetrics);
        }
    }

    #[test]
    fn values_lose_a_needless_point() {
        let rows = [
            ("1.0", "1"),
            ("7", "7"),
            ("0.25", "0.25"),
            ("1700000000.5", "1.7000000005e+09"),
        ];
        for (value, shown) in rows {
            assert_eq!(go_value(value, Format::Prometheus), shown);
            assert_eq!(go_value(value, Format::OpenMetrics), value);
        }
    }

    #[test]
    fn labels_are_split_at_commas_outside_of_quotes() {
        let (labels, rest) = split_labels(r#"a="x,}\"y",b="z"} 1"#).unwrap();
        assert_eq!((labels, rest), (vec![r#"a="x,}\"y""#, r#"b="z""#], " 1"));
        assert_eq!(split_labels("a=\"x"), None);
    }
}
