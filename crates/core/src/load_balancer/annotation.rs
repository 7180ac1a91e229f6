//! Annotations of Services: each provider has one table of them, and everything that has to know an
//! annotation asks its row.
//!
//! ```text
//!              ┌─▶ AnnotationReader: the value, or a fault that says what is allowed
//! row (once) ──┼─▶ reference page
//!              └─▶ suggestion for a misspelled key
//! ```
//!
//! A new annotation is a row here, a field in the provider's settings, and what the cloud does with it:
//!
//! ```
//! use bowline_core::{Allowed, AnnotationTable, Spaces, annotation_rows};
//!
//! annotation_rows! { "example/";
//!     STRATEGY = "example/strategy" {
//!         allowed: Allowed::OneOf(&["round-robin", "source-hash"]),
//!         default: "round-robin",
//!         meaning: "How connections are spread.",
//!     }
//! }
//! const TABLE: AnnotationTable = AnnotationTable {
//!     prefix: PREFIX, rows: ANNOTATIONS, spaces: Spaces::Kept, kind: "Type", last: None,
//! };
//! assert_eq!(ANNOTATIONS, [STRATEGY]);
//! assert!(TABLE.reference().contains("| round-robin or source-hash |"));
//! ```

use std::fmt::{self, Write as _};

use crate::{Notice, Problem, Service, nearest};

/// The id of a load balancer that a person says is this Service's; the same in every cloud.
pub const TAKE_OVER: &str = "bowline.dev/take-over";

/// One annotation: a row of its provider's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// With the prefix.
    pub key: &'static str,
    /// The type of its value, or what else tells the annotations of a provider apart.
    pub kind: &'static str,
    /// What holds when it is absent.
    pub default: &'static str,
    /// Part of the message about any other value.
    pub allowed: Allowed,
    /// What it is for.
    pub meaning: &'static str,
    /// What a change of the value does to a load balancer that is in use.
    pub change: &'static str,
    /// Whether the manager writes it.
    pub written_back: bool,
    /// Whether it can be set for single ports as well.
    pub per_port: bool,
}

/// The values that an annotation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Its provider's parser decides; this describes it.
    Words(&'static str),
    /// Whole numbers, both limits included.
    Number(i64, i64),
    /// Exactly these.
    OneOf(&'static [&'static str]),
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words(words) => f.write_str(words),
            Self::Number(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::OneOf([most @ .., last]) if !most.is_empty() => {
                write!(f, "{} or {last}", most.join(", "))
            }
            Self::OneOf(choices) => f.write_str(&choices.concat()),
        }
    }
}

impl Annotation {
    /// A text that is changed in place; the base of the rows in [`annotation_rows!`].
    ///
    /// [`annotation_rows!`]: crate::annotation_rows
    pub const fn new(key: &'static str) -> Self {
        Self {
            key,
            kind: "text",
            default: "",
            allowed: Allowed::Words("anything"),
            meaning: "",
            change: "in place",
            written_back: false,
            per_port: false,
        }
    }

    /// What is said about a value that cannot be used.
    pub fn refusal(&self, text: &str) -> String {
        let Self { key, allowed, .. } = self;
        format!("annotation {key}: {text:?} is not allowed; allowed is {allowed}")
    }

    /// The text, if it is one of the choices.
    pub fn choice(&self, text: &str) -> Option<&'static str> {
        match self.allowed {
            Allowed::OneOf(all) => all.iter().find(|choice| **choice == text).copied(),
            _ => None,
        }
    }
}

/// The constants of a table's rows, and `PREFIX` and `ANNOTATIONS`, which has all rows in their
/// order. Keys are written whole, so that a search finds them. Fields of [`Annotation`] that a row
/// leaves out are those of [`Annotation::new`].
#[macro_export]
macro_rules! annotation_rows {
    ($prefix:literal; $($name:ident = $key:literal { $($field:ident: $value:expr),* $(,)? })*) => {
        /// What all keys begin with.
        pub const PREFIX: &str = $prefix;
        $(
            #[doc = concat!("`", $key, "`")]
            pub const $name: $crate::Annotation = $crate::Annotation {
                $($field: $value,)*
                ..$crate::Annotation::new($key)
            };
        )*
        /// All rows, in the order of the reference page.
        pub const ANNOTATIONS: &[$crate::Annotation] = &[$($name),*];
    };
}

/// What space around a value means; the originals differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spaces {
    /// It is part of the value, and an empty value is one.
    Kept,
    /// It is part of the value, but a value of nothing else is absent.
    BlankIsAbsent,
    /// It is cut off, and nothing else is absent.
    Trimmed,
}

/// A column of the reference page: its heading, and what it says about a row.
pub type Column = (&'static str, fn(&Annotation) -> String);

/// The annotations of one provider.
#[derive(Clone, Copy, Debug)]
pub struct AnnotationTable {
    /// What all keys begin with.
    pub prefix: &'static str,
    /// In the order of the reference page.
    pub rows: &'static [Annotation],
    /// What space around values means.
    pub spaces: Spaces,
    /// The heading of [`Annotation::kind`] on the reference page.
    pub kind: &'static str,
    /// A last column of the reference page, with its heading.
    pub last: Option<Column>,
}

impl AnnotationTable {
    /// The value of an annotation, unless it is absent.
    pub fn value<'a>(&self, service: &'a Service, row: Annotation) -> Option<&'a str> {
        let text = service.annotation(row.key)?;
        let blank = text.trim().is_empty();
        match self.spaces {
            Spaces::Kept => Some(text),
            Spaces::BlankIsAbsent => (!blank).then_some(text),
            Spaces::Trimmed => (!blank).then(|| text.trim()),
        }
    }

    /// What there is to say about keys of the prefix that are not in the table.
    pub fn unknown(&self, service: &Service) -> Vec<Notice> {
        let known = || self.rows.iter().map(|row| row.key);
        let keys = service.annotations.iter().flat_map(|map| map.keys());
        keys.filter(|key| key.starts_with(self.prefix) && known().all(|row| row != key.as_str()))
            .map(|key| {
                let hint = match nearest(key, known()) {
                    Some(near) => format!("; did you mean {near}?"),
                    None => String::new(),
                };
                Notice {
                    warning: true,
                    reason: "UnknownAnnotation",
                    message: format!("annotation {key} is not known and does nothing{hint}"),
                }
            })
            .collect()
    }

    /// The reference page's table, in Markdown.
    pub fn reference(&self) -> String {
        let columns = 6 + usize::from(self.last.is_some());
        let last = self.last.map(|(title, _)| format!(" {title} |"));
        let mut page = format!(
            "| Annotation | {} | Default | Allowed | Meaning | A change |{}\n|{}\n",
            self.kind,
            last.unwrap_or_default(),
            "---|".repeat(columns)
        );
        for row in self.rows {
            let suffix = row.key.strip_prefix(self.prefix).unwrap_or(row.key);
            let default = Some(row.default).filter(|text| !text.is_empty());
            let written = if row.written_back {
                " Written back."
            } else {
                ""
            };
            let last = self.last.map(|(_, of)| format!(" {} |", of(row)));
            // Writing to a string cannot fail.
            let _ = writeln!(
                page,
                "| `{suffix}` | {} | {} | {} | {}{written} | {} |{}",
                row.kind,
                default.unwrap_or("none"),
                row.allowed,
                row.meaning,
                row.change,
                last.unwrap_or_default(),
            );
        }
        page
    }

    /// Reads the annotations of that Service.
    pub fn reader<'a>(&'a self, service: &'a Service) -> AnnotationReader<'a> {
        AnnotationReader {
            table: self,
            service,
            faults: Vec::new(),
        }
    }
}

/// A value that cannot be used, or several that do not go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationFault {
    /// None if it concerns several.
    pub row: Option<Annotation>,
    /// Key, value and what is allowed.
    pub message: String,
}

/// Reads one annotation after the other and collects what is wrong, so that one wrong value does not
/// hide another.
#[derive(Debug)]
pub struct AnnotationReader<'a> {
    table: &'a AnnotationTable,
    service: &'a Service,
    /// In the order of reading.
    pub faults: Vec<AnnotationFault>,
}

impl AnnotationReader<'_> {
    /// None if absent or wrong; a wrong value is a fault.
    pub fn value<T>(
        &mut self,
        row: Annotation,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.table.value(self.service, row)?;
        let value = parse(text);
        if value.is_none() {
            self.fault_of(row, row.refusal(text));
        }
        value
    }

    /// One of the row's choices.
    pub fn choice(&mut self, row: Annotation) -> Option<&'static str> {
        self.value(row, |text| row.choice(text))
    }

    /// A number within the row's limits, in the notation that `parse` takes.
    pub fn number<T: Copy + Into<i64>>(
        &mut self,
        row: Annotation,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let fits = |number: &T| match row.allowed {
            Allowed::Number(least, most) => (least..=most).contains(&(*number).into()),
            _ => true,
        };
        self.value(row, |text| parse(text).filter(fits))
    }

    /// A fault with words of its own.
    pub fn fault_of(&mut self, row: Annotation, message: String) {
        let row = Some(row);
        self.faults.push(AnnotationFault { row, message });
    }

    /// A fault of several annotations together.
    pub fn fault(&mut self, message: String) {
        self.faults.push(AnnotationFault { row: None, message });
    }

    /// The faults, as problems of a plan.
    pub fn problems(self, reason: &'static str) -> Vec<Problem> {
        let faults = self.faults.into_iter();
        faults
            .map(|AnnotationFault { message, .. }| Problem { reason, message })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(unreachable_pub, reason = "the macro is for tables that others see")]

    use super::*;
    use crate::load_balancer::service::examples::web;

    annotation_rows! { "x.test/";
        NAME = "x.test/lb-name" { meaning: "Its name.", written_back: true }
        ID = "x.test/lb-id" { kind: "number", allowed: Allowed::Number(1, 9), change: "refused" }
        MODE = "x.test/lb-mode" { allowed: Allowed::OneOf(&["a", "b", "c"]), default: "a" }
        SINGLE = "x.test/lb-single" { allowed: Allowed::OneOf(&["a"]), per_port: true }
    }

    const TABLE: AnnotationTable = AnnotationTable {
        prefix: PREFIX,
        rows: ANNOTATIONS,
        spaces: Spaces::BlankIsAbsent,
        kind: "Type",
        last: None,
    };

    fn annotated(pairs: &[(&str, &str)]) -> Service {
        let map = pairs
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()));
        Service {
            annotations: Some(map.collect()),
            ..web()
        }
    }

    #[test]
    fn a_misspelled_key_is_told_with_what_was_meant() {
        let keys = [
            "x.test/lb-nmae",
            "x.test/entirely-different",
            "x.test/lb-name",
            "y.test/a",
        ];
        let notices = TABLE.unknown(&annotated(&keys.map(|key| (key, ""))));
        let texts: Vec<&str> = notices.iter().map(|it| it.message.as_str()).collect();
        assert_eq!(
            texts,
            [
                "annotation x.test/entirely-different is not known and does nothing",
                "annotation x.test/lb-nmae is not known and does nothing; did you mean \
                 x.test/lb-name?",
            ]
        );
    }

    #[test]
    fn space_around_a_value_means_what_the_table_says() {
        let service = annotated(&[(NAME.key, " a "), (ID.key, " ")]);
        for (spaces, name, id) in [
            (Spaces::Kept, Some(" a "), Some(" ")),
            (Spaces::BlankIsAbsent, Some(" a "), None),
            (Spaces::Trimmed, Some("a"), None),
        ] {
            let table = AnnotationTable { spaces, ..TABLE };
            assert_eq!(table.value(&service, NAME), name, "{spaces:?}");
            assert_eq!(table.value(&service, ID), id, "{spaces:?}");
            assert_eq!(table.value(&service, MODE), None, "{spaces:?}");
        }
    }

    #[test]
    fn a_wrong_value_is_a_fault_of_its_row_and_hides_no_other() {
        let service = annotated(&[
            (ID.key, "10"),
            (MODE.key, "z"),
            (NAME.key, "n"),
            (SINGLE.key, "a"),
        ]);
        let mut reader = TABLE.reader(&service);
        assert_eq!(reader.number(ID, |text| text.parse::<i64>().ok()), None);
        assert_eq!(reader.choice(MODE), None);
        assert_eq!(reader.choice(SINGLE), Some("a"));
        assert_eq!(reader.value(NAME, |text| Some(text.len())), Some(1));
        let rows: Vec<_> = reader.faults.iter().map(|fault| fault.row).collect();
        assert_eq!(rows, [Some(ID), Some(MODE)]);
        reader.fault("both".into());
        let texts = reader.problems("Invalid").into_iter().map(|it| it.message);
        assert_eq!(
            texts.collect::<Vec<_>>(),
            [
                "annotation x.test/lb-id: \"10\" is not allowed; allowed is a whole number from 1 to 9",
                "annotation x.test/lb-mode: \"z\" is not allowed; allowed is a, b or c",
                "both",
            ]
        );
    }

    #[test]
    fn the_page_has_every_row_and_the_last_column_if_there_is_one() {
        let page = TABLE.reference();
        assert!(
            page.starts_with("| Annotation | Type | Default |"),
            "{page}"
        );
        assert!(page.contains(
            "| `lb-name` | text | none | anything | Its name. Written back. | in place |\n"
        ));
        assert!(
            page.contains(
                "| `lb-id` | number | none | a whole number from 1 to 9 |  | refused |\n"
            )
        );
        let last: Column = ("Ports", |row| row.per_port.to_string());
        let page = AnnotationTable {
            last: Some(last),
            ..TABLE
        }
        .reference();
        assert!(
            page.contains("| A change | Ports |\n|---|---|---|---|---|---|---|\n"),
            "{page}"
        );
        assert!(page.ends_with("| a |  | in place | true |\n"), "{page}");
    }
}
