//! A YAML text as a tree in which every key and value knows its place.
//!
//! Nothing is guessed about scalars: they stay the text that was written, together with whether they were quoted.
//! Whoever asks for a number or a switch reads it from there.

use std::collections::BTreeMap;
use std::fmt;

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::problem::Problem;

/// Bytes of a configuration: a ConfigMap holds no more.
pub(crate) const LARGEST: usize = 1024 * 1024;
/// How deep values may lie in each other. The deepest that means anything lies nine deep.
const DEEPEST: usize = 64;
/// Keys and values, those that aliases repeat included: many times what the largest file has, and few enough
/// that aliases of aliases end.
const MOST_NODES: usize = 200_000;

/// A line and a column, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) line: usize,
    /// The column, in letters.
    pub(crate) column: usize,
}

impl Place {
    /// The beginning of the text.
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    fn of(span: &Span) -> Self {
        Self {
            line: span.start.line(),
            column: span.start.col() + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// Where.
    pub(crate) place: Place,
    pub(crate) shape: Shape,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Nothing, `~` or `null`.
    Nothing,
    /// Anything else that is neither list nor map.
    Scalar {
        /// As it was written, without quotes.
        text: String,
        /// Whether it was quoted, or a block.
        quoted: bool,
    },
    List(Vec<Value>),
    /// Keys and values in their order; a key occurs once.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where the key is.
    pub(crate) place: Place,
    pub(crate) key: String,
    pub(crate) value: Value,
}

impl Value {
    /// The value of a key of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        let entry = self.entries().iter().find(|entry| entry.key == key);
        entry.map(|entry| &entry.value)
    }

    /// The keys of a map; none of anything else.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.shape {
            Shape::Map(entries) => entries,
            Shape::Nothing | Shape::Scalar { .. } | Shape::List(_) => &[],
        }
    }

    /// The items of a list; none of anything else.
    pub(crate) fn items(&self) -> &[Value] {
        match &self.shape {
            Shape::List(items) => items,
            Shape::Nothing | Shape::Scalar { .. } | Shape::Map(_) => &[],
        }
    }

    /// The text of a scalar.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.shape {
            Shape::Scalar { text, .. } => Some(text),
            Shape::Nothing | Shape::List(_) | Shape::Map(_) => None,
        }
    }

    /// Whether there is nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        self.shape == Shape::Nothing
    }
}

/// Reads the one document of a text. Keys that occur twice are reported together; what is no YAML ends the reading.
pub(crate) fn read(text: &str) -> Result<Value, Vec<Problem>> {
    if text.len() > LARGEST {
        let what = format!("the file is larger than {LARGEST} bytes");
        return Err(vec![Problem::at(Place::START, "", what)]);
    }
    let mut reader = Reader {
        events: Parser::new_from_str(text),
        anchors: BTreeMap::new(),
        problems: Vec::new(),
        nodes: 0,
    };
    let read = reader.document();
    let mut problems = reader.problems;
    match read {
        Ok(value) if problems.is_empty() => Ok(value),
        Ok(_) => Err(problems),
        Err(problem) => {
            problems.push(problem);
            Err(problems)
        }
    }
}

struct Reader<'a> {
    events: Parser<'a, serde_saphyr::granit_parser::StrInput<'a>>,
    /// What aliases can mean, and how many nodes it has.
    anchors: BTreeMap<usize, (Value, usize)>,
    problems: Vec<Problem>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Place), Problem> {
        loop {
            match self.events.next_event() {
                Some(Ok((Event::Comment(..) | Event::StreamStart, _))) => {}
                Some(Ok((event, span))) => return Ok((event, Place::of(&span))),
                Some(Err(error)) => {
                    let place = Place {
                        line: error.marker().line(),
                        column: error.marker().col() + 1,
                    };
                    return Err(Problem::at(place, "", format!("no YAML: {}", error.info())));
                }
                None => return Ok((Event::StreamEnd, Place::START)),
            }
        }
    }

    fn document(&mut self) -> Result<Value, Problem> {
        let (event, place) = self.next()?;
        if matches!(event, Event::StreamEnd) {
            let shape = Shape::Nothing;
            return Ok(Value { place, shape });
        }
        let (event, place) = self.next()?;
        let value = self.value(event, place, 0)?;
        self.next()?;
        let (event, place) = self.next()?;
        if !matches!(event, Event::StreamEnd) {
            let what = "a second document begins; a configuration is one document";
            return Err(Problem::at(place, "", what));
        }
        Ok(value)
    }

    fn value(&mut self, event: Event<'a>, place: Place, depth: usize) -> Result<Value, Problem> {
        if depth > DEEPEST {
            let what = format!("values lie more than {DEEPEST} deep in each other");
            return Err(Problem::at(place, "", what));
        }
        let before = self.nodes;
        self.count(1, place)?;
        let (shape, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (scalar(&text, style, tag.as_deref()), anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.list(depth)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.map(depth)?, anchor),
            Event::Alias(anchor) => {
                let Some((value, nodes)) = self.anchors.get(&anchor).cloned() else {
                    let what = "the alias is part of what it stands for";
                    return Err(Problem::at(place, "", what));
                };
                self.count(nodes, place)?;
                return Ok(value);
            }
            _ => return Err(Problem::at(place, "", "a value is missing")),
        };
        let value = Value { place, shape };
        if anchor != 0 {
            let nodes = self.nodes - before;
            self.anchors.insert(anchor, (value.clone(), nodes));
        }
        Ok(value)
    }

    fn list(&mut self, depth: usize) -> Result<Shape, Problem> {
        let mut items = Vec::new();
        loop {
            let (event, place) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Shape::List(items));
            }
            items.push(self.value(event, place, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Shape, Problem> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut places: BTreeMap<String, Place> = BTreeMap::new();
        loop {
            let (event, place) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(Shape::Map(entries));
            }
            let key = self.value(event, place, depth + 1)?;
            let (event, at) = self.next()?;
            let value = self.value(event, at, depth + 1)?;
            let key = match key.shape {
                Shape::Scalar { text, .. } => text,
                Shape::Nothing | Shape::List(_) | Shape::Map(_) => {
                    self.problems
                        .push(Problem::at(place, "", "a key is a text"));
                    continue;
                }
            };
            if key == "<<" {
                let what = "merge keys (<<) are not read; repeat the keys, or use an alias";
                self.problems.push(Problem::at(place, "", what));
            } else if let Some(first) = places.get(&key) {
                let what = format!("the key {key:?} was given before, at {first}");
                self.problems.push(Problem::at(place, "", what));
            } else {
                places.insert(key.clone(), place);
                entries.push(Entry { place, key, value });
            }
        }
    }

    fn count(&mut self, nodes: usize, place: Place) -> Result<(), Problem> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MOST_NODES {
            let what = format!("there are more than {MOST_NODES} keys and values");
            return Err(Problem::at(place, "", what));
        }
        Ok(())
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Shape {
    let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
    let quoted = style != ScalarStyle::Plain || is_text;
    if !quoted && matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        return Shape::Nothing;
    }
    Shape::Scalar {
        text: text.to_owned(),
        quoted,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn wrong(text: &str) -> Vec<String> {
        let problems = read(text).unwrap_err();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn keys_and_values_know_their_places() {
        let value = read("a:\n  - b: 010\n    'c': \"x\"\n# a remark\nd: ~\n").unwrap();
        let place = |line, column| Place { line, column };
        assert_eq!(value.entries()[0].place, place(1, 1));
        let item = &value.get("a").unwrap().items()[0];
        assert_eq!(item.entries()[0].place, place(2, 5));
        assert_eq!(item.get("b").unwrap().place, place(2, 8));
        assert_eq!(item.get("b").unwrap().text(), Some("010"));
        assert_eq!(item.entries()[1].place, place(3, 5));
        assert!(value.get("d").unwrap().is_nothing());
        assert!(read("").unwrap().is_nothing());
        assert!(read("# only a remark\n").unwrap().is_nothing());
    }

    #[test]
    fn what_is_no_yaml_is_told_with_its_place() {
        for (text, start) in [
            ("a: [1, 2\nb: 3\n", "2:"),
            ("a: b: c\n", "1:5"),
            ("a: 1\n---\nb: 2\n", "2:1: a second document"),
            ("<<: {a: 1}\n", "1:1: merge keys"),
            ("? [a]\n: b\n", "1:3: a key is a text"),
            ("a: &x [*x]\n", "1:8: the alias is part"),
        ] {
            let reported = wrong(text);
            assert!(reported[0].starts_with(start), "{text:?}: {reported:?}");
        }
    }

    #[test]
    fn every_repeated_key_is_told_with_the_place_of_the_first() {
        assert_eq!(
            wrong("a: 1\nb: {c: 1, c: 2}\na: 3\n"),
            [
                "2:11: the key \"c\" was given before, at 2:5",
                "3:1: the key \"a\" was given before, at 1:1"
            ]
        );
    }

    #[test]
    fn aliases_repeat_what_they_name_and_not_without_end() {
        let value = read("a: &x {b: 1}\nc: *x\n").unwrap();
        assert_eq!(value.get("c"), value.get("a"));
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for number in 1..12 {
            let alias = format!("*a{}", number - 1);
            let ten = [alias.as_str(); 10].join(", ");
            writeln!(bomb, "a{number}: &a{number} [{ten}]").unwrap();
        }
        let reported = wrong(&bomb);
        assert!(reported[0].contains("more than 200000"), "{reported:?}");
        let reported = wrong(&"[".repeat(100));
        assert!(
            reported[0].contains("more than 64 deep") || reported[0].contains("no YAML"),
            "{reported:?}"
        );
    }
}
