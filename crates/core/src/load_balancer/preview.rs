//! Previews of plans: what `bowline plan` shows.

mod apply;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use serde::Serialize;

pub use self::apply::{AppliedFile, Newcomer, as_applied};
use crate::load_balancer::plan::section;
use crate::{Change, CloudName, Goal, Plan, ServiceKey};

/// What there is to expect. Ordered: the worst of several is the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outlook {
    /// The Service is somebody else's, or none that gets a load balancer.
    NotOurs,
    /// Nothing is to be done.
    Unchanged,
    /// Something is to be done.
    Changes,
    /// Something is wrong with what is wanted; a person must put it right.
    Problems,
    /// It is not known: the cloud could not be read.
    Failed,
}

/// What would be done about one Service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Preview {
    /// Namespace and name.
    #[serde(serialize_with = "as_text")]
    pub service: ServiceKey,
    /// The file that it was taken from; none if it is planned as it is in the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The cloud that serves it, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud: Option<CloudName>,
    /// What is wanted there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// In a word.
    pub outlook: Outlook,
    /// Why there is no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What is not known yet, and what stands for it here.
    pub assumptions: Vec<String>,
    /// What is to be done in the cloud.
    pub plan: Plan,
    /// What is to be written to the Service, as far as it is known before the steps are done.
    pub publication: Vec<Change>,
}

fn as_text<S: serde::Serializer>(key: &ServiceKey, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(key)
}

impl Preview {
    /// That there is a plan.
    #[must_use]
    pub fn planned(mut self, plan: Plan, publication: Vec<Change>) -> Self {
        self.outlook = if !plan.problems.is_empty() {
            Outlook::Problems
        } else if !plan.is_empty() || !publication.is_empty() {
            Outlook::Changes
        } else {
            Outlook::Unchanged
        };
        (self.plan, self.publication) = (plan, publication);
        self
    }

    /// That there is none, and why.
    #[must_use]
    pub fn without_plan(mut self, outlook: Outlook, message: impl Into<String>) -> Self {
        self.outlook = outlook;
        self.message = Some(message.into());
        self
    }

    /// All of it, for people. Each line ends with a line feed.
    pub fn text(&self) -> String {
        let mut text = format!("Service {}", self.service);
        if let Some(file) = &self.file {
            let _ = write!(text, ", as in {file}");
        }
        if let Some(cloud) = &self.cloud {
            let _ = write!(text, ", in cloud {cloud}");
        }
        let _ = writeln!(text, ": {}", self.summary());
        let assumptions = self.assumptions.iter().map(|it| format!("  {it}"));
        section(&mut text, "Assumed", &assumptions.collect::<Vec<_>>());
        if self.message.is_none() {
            text.push_str(&self.plan.text());
            let changes: Vec<String> = self.publication.iter().map(Change::line).collect();
            section(&mut text, "Written to the Service", &changes);
        }
        text
    }

    /// The plan in half a sentence.
    pub fn summary(&self) -> String {
        if let Some(message) = &self.message {
            return message.clone();
        }
        let mut parts = Vec::new();
        match self.plan.problems.len() {
            0 => {}
            1 => parts.push("1 problem".to_owned()),
            count => parts.push(format!("{count} problems")),
        }
        match self.plan.steps.len() {
            0 if self.publication.is_empty() => parts.push("nothing to do".to_owned()),
            0 => parts.push("nothing to do in the cloud".to_owned()),
            1 => parts.push(format!("1 step, {}", self.plan.impact())),
            count => parts.push(format!("{count} steps, {}", self.plan.impact())),
        }
        parts.join("; ")
    }
}

/// What would be done about several Services.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Previews {
    /// The worst of them.
    pub outlook: Outlook,
    /// Each, by namespace and name.
    pub services: Vec<Preview>,
    /// What else the reader should know.
    pub remarks: Vec<String>,
}

impl Previews {
    /// Of these.
    pub fn new(services: Vec<Preview>, remarks: Vec<String>) -> Self {
        let worst = services.iter().map(|it| it.outlook).max();
        Self {
            outlook: worst.unwrap_or(Outlook::Unchanged),
            services,
            remarks,
        }
    }

    /// All of it, for programs: an object with `outlook`, `services` and `remarks`.
    pub fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// All of it, for people.
    pub fn text(&self) -> String {
        let mut texts: Vec<String> = self.services.iter().map(Preview::text).collect();
        if !self.remarks.is_empty() {
            texts.push(self.remarks.join("\n") + "\n");
        }
        if self.services.len() != 1 {
            texts.push(self.count());
        }
        texts.join("\n")
    }

    fn count(&self) -> String {
        let of = |outlook| {
            self.services
                .iter()
                .filter(|it| it.outlook == outlook)
                .count()
        };
        let mut text = match self.services.len() {
            0 => return "No Service has, or is to have, a load balancer.\n".to_owned(),
            count => format!("{count} Services"),
        };
        for (outlook, words) in [
            (Outlook::Changes, "with changes"),
            (Outlook::Problems, "with problems"),
            (Outlook::Failed, "that could not be planned"),
            (Outlook::Unchanged, "with nothing to do"),
            (Outlook::NotOurs, "not Bowline's"),
        ] {
            if of(outlook) > 0 {
                let _ = write!(text, ", {} {words}", of(outlook));
            }
        }
        text.push_str(".\n");
        text
    }
}
