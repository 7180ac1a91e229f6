//! Transformation rules: what an operator adds to, or changes of, what machines report.
//!
//! ```text
//!  metadata ──▶ selectors ──▶ matching rules ──┬─▶ are the firmware's facts needed? is the id set?
//!                                              └─▶ templates ──▶ metadata, labels, annotations, taints
//! ```
//!
//! All matching rules apply, in the order of the file; later values win. Selectors and templates
//! see the machine as it was before the first rule. What is wrong in a rule concerns the machines
//! that reach it: it is found when the rules are read ([`Rules::problems`]) and stands in the way
//! of those alone.

mod effect;
mod facts;
mod functions;
mod selector;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use bowline_core::Taint;
use thiserror::Error;

pub use effect::{EffectError, Section};
pub use selector::{Selector, SelectorError};

use crate::instances::machine::{PlatformMetadata, SystemInformation};
use effect::{Effect, Field, read_taint};
pub(crate) use selector::{Requirement, Term};

/// Where a rule stands: its index in the file, and its name, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulePosition {
    pub index: usize,
    /// Its name; empty if it has none.
    pub name: String,
}

impl fmt::Display for RulePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transformations[{}]", self.index)?;
        if self.name.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", self.name)
        }
    }
}

#[derive(Clone, Debug)]
pub struct Rule {
    position: RulePosition,
    selector: Selector,
    effects: Vec<Effect>,
    public_ip_discovery: bool,
}

/// What a rule is made of, as the file has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) name: String,
    pub(crate) selector: Selector,
    pub(crate) sections: BTreeMap<Section, BTreeMap<String, String>>,
    pub(crate) public_ip_discovery: bool,
}

/// All rules, in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

/// Something wrong in a rule, whatever the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
    pub position: RulePosition,
    /// Which part of it: `labels["a"]`.
    pub part: String,
    pub message: String,
    /// Whether it would stop every node, so that nothing may begin with it.
    pub fatal: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuleError {
    #[error("{position}: {error}")]
    Selector {
        position: RulePosition,
        error: SelectorError,
    },
    #[error("{position}: {error}")]
    Effect {
        position: RulePosition,
        error: Box<EffectError>,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transformed {
    pub metadata: PlatformMetadata,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Taints for the node, by key.
    pub taints: Vec<Taint>,
    /// Whether public addresses are looked for on the machine's links.
    pub public_ip_discovery: bool,
}

impl Rules {
    pub(crate) fn new(drafts: Vec<Draft>) -> Self {
        let numbered = drafts.into_iter().enumerate();
        Self(
            numbered
                .map(|(index, draft)| Rule::new(index, draft))
                .collect(),
        )
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everything that is wrong whatever the machine, in the order of the file.
    pub fn problems(&self) -> Vec<RuleProblem> {
        self.0.iter().flat_map(Rule::problems).collect()
    }

    /// The rules for a machine. `metadata` has its defaults: provider id and host name.
    pub fn matching(&self, metadata: &PlatformMetadata) -> Result<Matching<'_>, RuleError> {
        let facts = facts::selector_map(metadata);
        let mut matching = Vec::new();
        for rule in &self.0 {
            let is_for = rule.selector.matches(&facts);
            let is_for = is_for.map_err(|error| RuleError::Selector {
                position: rule.position.clone(),
                error,
            })?;
            if is_for {
                matching.push(rule);
            }
        }
        Ok(Matching(matching))
    }
}

#[derive(Clone, Debug)]
pub struct Matching<'a>(Vec<&'a Rule>);

impl Matching<'_> {
    fn effects(&self) -> impl Iterator<Item = &Effect> {
        self.0.iter().flat_map(|rule| &rule.effects)
    }

    /// Whether the firmware's facts have to be read: some template looks at them.
    pub fn need_system_information(&self) -> bool {
        let mut templates = self.effects().filter_map(Effect::template);
        templates.any(facts::reads_system)
    }

    /// Whether some rule sets the provider id, so that the machine's own does not count.
    pub fn set_the_provider_id(&self) -> bool {
        self.effects().any(|effect| {
            effect.section == Section::PlatformMetadata
                && Field::of(&effect.key) == Field::ProviderId
        })
    }

    pub fn apply(
        &self,
        metadata: &PlatformMetadata,
        system: &SystemInformation,
    ) -> Result<Transformed, RuleError> {
        let values = facts::template_values(metadata, system);
        let mut result = Transformed {
            metadata: metadata.clone(),
            ..Transformed::default()
        };
        let mut taints = BTreeMap::new();
        for rule in &self.0 {
            result.public_ip_discovery |= rule.public_ip_discovery;
            let wrong = |error| RuleError::Effect {
                position: rule.position.clone(),
                error: Box::new(error),
            };
            for effect in &rule.effects {
                let Some(text) = effect.render(&values).map_err(wrong)? else {
                    continue;
                };
                let key = effect.key.clone();
                match effect.section {
                    Section::Annotations => drop(result.annotations.insert(key, text)),
                    Section::Labels => drop(result.labels.insert(key, text)),
                    Section::Taints => {
                        let taint = read_taint(&key, &text).map_err(wrong)?;
                        taints.insert(key, taint);
                    }
                    Section::PlatformMetadata => Field::of(&key).set(&mut result.metadata, &text),
                }
            }
        }
        result.taints = taints.into_values().collect();
        Ok(result)
    }
}

impl Rule {
    fn new(index: usize, draft: Draft) -> Self {
        let Draft {
            name,
            selector,
            sections,
            public_ip_discovery,
        } = draft;
        let empty = BTreeMap::new();
        let effects = Section::ALL
            .into_iter()
            .flat_map(|section| {
                let values = sections.get(&section).unwrap_or(&empty);
                let effects = values.iter();
                effects.map(move |(key, text)| Effect::new(section, key, text))
            })
            .collect();
        Self {
            position: RulePosition { index, name },
            selector,
            effects,
            public_ip_discovery,
        }
    }

    fn problems(&self) -> Vec<RuleProblem> {
        let mut problems = Vec::new();
        let mut add = |part: String, message: String, fatal: bool| {
            problems.push(RuleProblem {
                position: self.position.clone(),
                part,
                message,
                fatal,
            });
        };
        for (number, term) in self.selector.0.iter().enumerate() {
            for (requirement, error) in term.problems() {
                let part = format!("nodeSelector[{number}].matchExpressions[{requirement}]");
                // A bad expression stopped the process as soon as a machine had the key, wherever
                // it stood. Whether a number is one was only asked there, too.
                let fatal = match error {
                    SelectorError::Regexp { .. } => term.0[requirement].concerns_everybody(),
                    SelectorError::NotANumber(_) => false,
                    _ => number == 0,
                };
                add(part, error.to_string(), fatal);
            }
        }
        for effect in &self.effects {
            let part = format!("{}[{:?}]", effect.section.key(), effect.key);
            if let Some(problem) = effect.fatal_problem() {
                add(part, problem.to_string(), self.selector.is_empty());
            } else if let Some(problem) = effect.lesser_problem() {
                add(part, problem.to_string(), false);
            } else if effect.section == Section::PlatformMetadata
                && Field::of(&effect.key) == Field::Unknown
            {
                add(part, "no such field: it has no effect".to_owned(), false);
            }
        }
        problems
    }
}

impl Term {
    fn problems(&self) -> impl Iterator<Item = (usize, SelectorError)> {
        let numbered = self.0.iter().enumerate();
        numbered.filter_map(|(number, it)| it.problem().map(|problem| (number, problem)))
    }
}
