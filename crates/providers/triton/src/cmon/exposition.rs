//! Prometheus' text form, read from many machines and written as one.
//!
//! Reading is strict, because what is written is read by others, who refuse a whole page for one
//! bad line: a line that cannot be read is dropped and counted, and each family is written once,
//! with its help and its type.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What all names are given in front.
const PREFIX: &str = "triton_";
/// What a label is given in front if it has the name of one of ours.
const EXPORTED: &str = "exported_";
/// The families that say whether a machine's metrics could be read; nobody else's.
const UP: &str = "triton_cmon_up";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
    Untyped,
}

impl Kind {
    fn parse(word: &str) -> Self {
        match word {
            "counter" => Self::Counter,
            "gauge" => Self::Gauge,
            "histogram" => Self::Histogram,
            "summary" => Self::Summary,
            _ => Self::Untyped,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
            Self::Untyped => "untyped",
        }
    }

    /// What the names of its series may end in, behind the family's.
    const fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Histogram => &["_bucket", "_sum", "_count"],
            Self::Summary => &["", "_sum", "_count"],
            Self::Counter | Self::Gauge | Self::Untyped => &[""],
        }
    }
}

/// Label names and values, as they are and not as they are written.
type Labels = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq)]
struct Sample {
    /// What the name has behind the family's.
    ending: &'static str,
    labels: Labels,
    value: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Family {
    kind: Kind,
    help: Option<String>,
    samples: Vec<Sample>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Exposition {
    families: BTreeMap<String, Family>,
    pub(crate) dropped: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The node, or the name of a machine that is none.
    pub(crate) node: String,
    pub(crate) machine: String,
    pub(crate) brand: String,
    pub(crate) compute_node: String,
}

impl Exposition {
    pub(crate) fn parse(text: &str) -> Self {
        let mut read = Self::default();
        let mut seen = BTreeSet::new();
        for line in text.lines() {
            let line = line.trim();
            if let Some(comment) = line.strip_prefix('#') {
                read.comment(comment);
            } else if !line.is_empty() {
                match read.sample(line) {
                    // Nothing is twice on one page.
                    Some((family, sample)) if seen.insert((family.clone(), key(&sample))) => {
                        if let Some(family) = read.families.get_mut(&family) {
                            family.samples.push(sample);
                        }
                    }
                    _ => read.dropped += 1,
                }
            }
        }
        read
    }

    fn comment(&mut self, comment: &str) {
        let comment = comment.trim_start();
        let (word, rest) = comment.split_once([' ', '\t']).unwrap_or((comment, ""));
        let rest = rest.trim_start();
        let (name, rest) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        if !is_name(name, true) {
            return;
        }
        match word {
            "HELP" => self.family(name).help = Some(unescaped(rest.trim(), false)),
            // Where values have come before their type, they stay what they were taken for.
            "TYPE" if self.family(name).samples.is_empty() => {
                self.family(name).kind = Kind::parse(rest.trim());
            }
            _ => {}
        }
    }

    fn family(&mut self, name: &str) -> &mut Family {
        self.families
            .entry(name.to_owned())
            .or_insert_with(|| Family {
                kind: Kind::Untyped,
                help: None,
                samples: Vec::new(),
            })
    }

    /// One line with a value, and the family that it is of.
    fn sample(&mut self, line: &str) -> Option<(String, Sample)> {
        let end = line.find(['{', ' ', '\t'])?;
        let (name, rest) = line.split_at(end);
        if !is_name(name, true) {
            return None;
        }
        let (labels, rest) = match rest.trim_start().strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (Labels::new(), rest),
        };
        let mut words = rest.split_whitespace();
        let value = words.next().filter(|it| is_number(it))?;
        // The time of a value is dropped: it would be that of our last look.
        let is_time = words.next().is_none_or(|it| it.parse::<i64>().is_ok());
        if !is_time || words.next().is_some() {
            return None;
        }
        let (family, ending) = self.family_of(name);
        let kind = self.family(&family).kind;
        let needed = match (kind, ending) {
            (Kind::Histogram, "_bucket") => Some("le"),
            (Kind::Summary, "") => Some("quantile"),
            _ => None,
        };
        let fits = needed.is_none_or(|name| labels.get(name).is_some_and(|it| is_number(it)));
        let sample = Sample {
            ending,
            labels,
            value: value.to_owned(),
        };
        fits.then_some((family, sample))
    }

    /// The family that a series is of, and what its name has behind it.
    fn family_of(&self, name: &str) -> (String, &'static str) {
        for ending in ["_bucket", "_sum", "_count", ""] {
            let Some(family) = name.strip_suffix(ending) else {
                continue;
            };
            let known = self.families.get(family);
            if known.is_some_and(|it| it.kind.endings().contains(&ending)) {
                return (family.to_owned(), ending);
            }
        }
        (name.to_owned(), "")
    }
}

fn key(sample: &Sample) -> (&'static str, Labels) {
    (sample.ending, sample.labels.clone())
}

/// Everything on one page, with whether each machine's metrics could be read. What does not fit the
/// others, such as a family of another type, is left out; how much that was comes along.
pub(crate) fn together(all: &[(Source, Option<Exposition>)]) -> (String, u64) {
    let mut families: BTreeMap<&str, (Kind, Option<&str>, String)> = BTreeMap::new();
    let mut dropped = 0;
    for (source, exposition) in all {
        let Some(exposition) = exposition else {
            continue;
        };
        for (name, family) in &exposition.families {
            if family.samples.is_empty() {
                continue;
            }
            let entry = families.entry(name);
            let (kind, help, lines) = entry.or_insert_with(|| (family.kind, None, String::new()));
            if *kind != family.kind || format!("{PREFIX}{name}") == UP {
                dropped += u64::try_from(family.samples.len()).unwrap_or(u64::MAX);
                continue;
            }
            *help = help.or(family.help.as_deref());
            for sample in &family.samples {
                line(lines, name, sample, source);
            }
        }
    }
    let mut page = String::new();
    for (name, (kind, help, lines)) in families {
        if lines.is_empty() {
            continue;
        }
        let usual = format!("{name} of a machine, as the metrics service has it");
        let help = escaped(help.filter(|it| !it.is_empty()).unwrap_or(&usual), false);
        let kind = kind.as_str();
        let _ = write!(
            page,
            "# HELP {PREFIX}{name} {help}\n# TYPE {PREFIX}{name} {kind}\n{lines}"
        );
    }
    let help = "Whether the metrics of a machine could be read.";
    let _ = write!(page, "# HELP {UP} {help}\n# TYPE {UP} gauge\n");
    for (source, exposition) in all {
        let (node, machine) = (escaped(&source.node, true), escaped(&source.machine, true));
        let up = u8::from(exposition.is_some());
        let _ = writeln!(page, r#"{UP}{{node="{node}",machine="{machine}"}} {up}"#);
    }
    (page, dropped)
}

fn line(lines: &mut String, family: &str, sample: &Sample, source: &Source) {
    let own = [
        ("node", &source.node),
        ("machine", &source.machine),
        ("brand", &source.brand),
        ("compute_node", &source.compute_node),
    ];
    let _ = write!(lines, "{PREFIX}{family}{}{{", sample.ending);
    for (name, value) in &sample.labels {
        // Also what has been given that before: two names never become one.
        let bare = name.trim_start_matches(EXPORTED);
        let front = if own.iter().any(|(it, _)| *it == bare) {
            EXPORTED
        } else {
            ""
        };
        let _ = write!(lines, "{front}{name}=\"{}\",", escaped(value, true));
    }
    for (at, (name, value)) in own.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(lines, "{comma}{name}=\"{}\"", escaped(value, true));
    }
    let _ = writeln!(lines, "}} {}", sample.value);
}

/// The labels behind an opening brace, and what follows the closing one.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        rest = rest.trim_start();
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, behind) = rest.split_once('=')?;
        let name = name.trim();
        let (value, behind) = quoted(behind.trim_start().strip_prefix('"')?)?;
        if !is_name(name, false) || labels.insert(name.to_owned(), value).is_some() {
            return None;
        }
        rest = behind.trim_start();
        match rest.strip_prefix(',') {
            Some(behind) => rest = behind,
            None if rest.starts_with('}') => {}
            None => return None,
        }
    }
}

/// The text up to the closing quote, and what is behind that.
fn quoted(rest: &str) -> Option<(String, &str)> {
    let mut escaped = false;
    for (at, letter) in rest.char_indices() {
        match letter {
            _ if escaped => {
                if !matches!(letter, '\\' | '"' | 'n') {
                    return None;
                }
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return Some((unescaped(&rest[..at], true), &rest[at + 1..])),
            _ => {}
        }
    }
    None
}

/// A text as it is meant. What is no escape stands for itself.
fn unescaped(text: &str, quotes: bool) -> String {
    let mut meant = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            meant.push(letter);
            continue;
        }
        match letters.next() {
            Some('n') => meant.push('\n'),
            Some('\\') | None => meant.push('\\'),
            Some('"') if quotes => meant.push('"'),
            Some(other) => {
                meant.push('\\');
                meant.push(other);
            }
        }
    }
    meant
}

fn escaped(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes {
        text.replace('"', "\\\"")
    } else {
        text
    }
}

/// Whether it may be the name of a metric, or of a label.
fn is_name(text: &str, of_metric: bool) -> bool {
    let first = |it: u8| it.is_ascii_alphabetic() || it == b'_' || (of_metric && it == b':');
    let mut bytes = text.bytes();
    let fits = bytes.next().is_some_and(first) && bytes.all(|it| first(it) || it.is_ascii_digit());
    // That one stands for the metric's own.
    fits && text != "__name__"
}

/// Whether everybody takes it for a number; not all know one that is none, with a sign.
fn is_number(text: &str) -> bool {
    let number = text.parse::<f64>();
    number.is_ok_and(|it| !(it.is_nan() && text.starts_with(['+', '-'])))
}

#[cfg(test)]
mod tests;
