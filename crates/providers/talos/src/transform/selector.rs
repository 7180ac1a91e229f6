//! Which machines a rule is for.

use std::collections::BTreeMap;

use bowline_templates::GoRegex;
use thiserror::Error;

/// Keys that every machine has.
const ALWAYS_THERE: [&str; 4] = ["platform", "hostname", "providerid", "spot"];

/// Alternatives of which one has to match; none at all match everything.
#[derive(Clone, Debug, Default)]
pub struct Selector(pub(crate) Vec<Term>);

/// Requirements that all have to be met; none at all match nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Term(pub(crate) Vec<Requirement>);

/// One comparison, checked; a wrong one is kept, because only machines that reach it are concerned.
#[derive(Clone, Debug)]
pub(crate) struct Requirement {
    /// In lower case.
    key: String,
    test: Result<Test, SelectorError>,
}

#[derive(Clone, Debug)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    /// Greater or less, than a number that is read when it is needed.
    Greater(String),
    Less(String),
    Regexp(GoRegex),
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectorError {
    #[error("values must be non-empty for operator '{0}'")]
    NoValues(String),
    #[error("values must be empty for operator {0}")]
    Values(String),
    #[error("values must have a single element for operator {0}")]
    NotOneValue(String),
    #[error("failed to parse value {0} as int")]
    NotANumber(String),
    #[error("{pattern:?} is no regular expression: {reason}")]
    Regexp { pattern: String, reason: String },
    #[error("{0} not a valid selector operator")]
    Operator(String),
}

impl Requirement {
    pub(crate) fn new(key: &str, operator: &str, values: &[String]) -> Self {
        Self {
            key: key.to_lowercase(),
            test: test(operator, values),
        }
    }

    /// What is wrong with it, whatever the machine.
    pub(crate) fn problem(&self) -> Option<SelectorError> {
        match &self.test {
            Err(error) => Some(error.clone()),
            Ok(Test::Greater(number) | Test::Less(number)) => whole(number).err(),
            Ok(_) => None,
        }
    }

    /// Whether every machine has the key.
    pub(crate) fn concerns_everybody(&self) -> bool {
        ALWAYS_THERE.contains(&self.key.as_str())
    }

    fn is_met(&self, facts: &BTreeMap<&'static str, String>) -> Result<bool, SelectorError> {
        let found = facts.get(self.key.as_str());
        let test = match &self.test {
            // What nobody has is compared with nothing.
            Err(SelectorError::Regexp { .. }) if found.is_none() => return Ok(false),
            test => test.as_ref().map_err(Clone::clone)?,
        };
        let value = match (test, found) {
            (Test::Exists, found) => return Ok(found.is_some()),
            (Test::DoesNotExist, found) => return Ok(found.is_none()),
            (_, None) => return Ok(false),
            (_, Some(value)) => value,
        };
        Ok(match test {
            Test::In(values) => values.contains(value),
            Test::NotIn(values) => !values.contains(value),
            Test::Greater(number) => whole(value)? > whole(number)?,
            Test::Less(number) => whole(value)? < whole(number)?,
            Test::Regexp(regex) => regex.is_match(value),
            Test::Exists | Test::DoesNotExist => true,
        })
    }
}

fn test(operator: &str, values: &[String]) -> Result<Test, SelectorError> {
    let named = || operator.to_owned();
    let one = || match values {
        [one] => Ok(one.clone()),
        _ => Err(SelectorError::NotOneValue(named())),
    };
    match operator {
        "In" | "NotIn" if values.is_empty() => Err(SelectorError::NoValues(named())),
        "In" => Ok(Test::In(values.to_vec())),
        "NotIn" => Ok(Test::NotIn(values.to_vec())),
        "Exists" | "DoesNotExist" if !values.is_empty() => Err(SelectorError::Values(named())),
        "Exists" => Ok(Test::Exists),
        "DoesNotExist" => Ok(Test::DoesNotExist),
        "Gt" => one().map(Test::Greater),
        "Lt" => one().map(Test::Less),
        "Regexp" => {
            let pattern = one()?;
            match GoRegex::new(&pattern) {
                Ok(regex) => Ok(Test::Regexp(regex)),
                Err(error) => Err(SelectorError::Regexp {
                    pattern,
                    reason: error.to_string(),
                }),
            }
        }
        _ => Err(SelectorError::Operator(named())),
    }
}

/// A whole number as Go reads it: a sign and digits.
fn whole(text: &str) -> Result<i64, SelectorError> {
    text.parse()
        .map_err(|_| SelectorError::NotANumber(text.to_owned()))
}

impl Term {
    /// All requirements are looked at, so that a wrong one shows whatever the others say.
    fn matches(&self, facts: &BTreeMap<&'static str, String>) -> Result<bool, SelectorError> {
        let mut all = !self.0.is_empty();
        for requirement in &self.0 {
            all &= requirement.is_met(facts)?;
        }
        Ok(all)
    }
}

impl Selector {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it selects a machine. Alternatives after the first that does are not looked at.
    pub(super) fn matches(
        &self,
        facts: &BTreeMap<&'static str, String>,
    ) -> Result<bool, SelectorError> {
        for term in &self.0 {
            if term.matches(facts)? {
                return Ok(true);
            }
        }
        Ok(self.0.is_empty())
    }
}
