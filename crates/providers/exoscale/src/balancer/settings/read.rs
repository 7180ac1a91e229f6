//! Reading one annotation after the other, and the forms that their values have.

use bowline_core::{Origin, Service, Setting, parse_duration};
use uuid::Uuid;

use super::table::Annotation;
use super::{Fault, INVALID};
use crate::id::hyphenated;

/// The most characters of a name, a description or a path.
const LONGEST: usize = 255;

/// Reads annotations and collects what is wrong.
pub(super) struct Reader<'a> {
    service: &'a Service,
    pub(super) faults: Vec<Fault>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(service: &'a Service) -> Self {
        Self {
            service,
            faults: Vec::new(),
        }
    }

    pub(super) fn fault(&mut self, message: String) {
        self.faults.push(Fault {
            reason: INVALID,
            message,
        });
    }

    /// A value with a form; a wrong one is a fault. None if absent, empty or wrong.
    pub(super) fn value<T>(
        &mut self,
        row: Annotation,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = said(self.service, row)?;
        let origin = Origin::Annotation(row.key.to_owned());
        match Setting::read(text, origin, row.allowed, parse) {
            Ok(setting) => Some(setting.value),
            Err(error) => {
                self.fault(error.to_string());
                None
            }
        }
    }

    /// A text that is not too long.
    pub(super) fn text(&mut self, row: Annotation) -> Option<String> {
        self.value(row, |text| {
            (text.chars().count() <= LONGEST).then(|| text.to_owned())
        })
    }

    pub(super) fn uuid(&mut self, row: Annotation) -> Option<Uuid> {
        self.value(row, uuid)
    }

    /// One of several words.
    pub(super) fn choice(&mut self, row: Annotation, choices: &[&str]) -> Option<String> {
        self.value(row, |text| choices.contains(&text).then(|| text.to_owned()))
    }

    pub(super) fn number(&mut self, row: Annotation, least: i64, most: i64) -> Option<i64> {
        self.value(row, |text| within(text.trim().parse().ok()?, least, most))
    }

    /// Whole seconds: what is more is cut off.
    pub(super) fn seconds(&mut self, row: Annotation, least: i64, most: i64) -> Option<i64> {
        self.value(row, |text| within(seconds(text.trim())?, least, most))
    }
}

/// The value of an annotation; an empty one counts as absent.
pub(super) fn said(service: &Service, row: Annotation) -> Option<&str> {
    service
        .annotation(row.key)
        .filter(|text| !text.trim().is_empty())
}

/// A uuid as the API writes it, in any case.
pub(super) fn uuid(text: &str) -> Option<Uuid> {
    hyphenated(text.trim())
}

fn seconds(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let duration = parse_duration(text).ok()?;
    i64::try_from(duration.as_secs()).ok()
}

fn within(number: i64, least: i64, most: i64) -> Option<i64> {
    (least..=most).contains(&number).then_some(number)
}
