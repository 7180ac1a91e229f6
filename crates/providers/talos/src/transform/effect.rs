//! What a rule sets: keys, what they may be, and what their rendered texts mean.

use bowline_core::{SHUTDOWN_TAINT, Taint, UNINITIALIZED_TAINT, is_label_key, is_label_value};
use bowline_templates::{ParseError, Template, Value};
use thiserror::Error;

use super::facts;
use super::functions::FUNCTIONS;
use crate::instances::machine::PlatformMetadata;

/// Taints of Kubernetes' own, which follow conditions of the node.
const KUBERNETES_TAINTS: [&str; 6] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/pid-pressure",
];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Which part of a rule a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    Annotations,
    Labels,
    Taints,
    /// What is taken for the machine's metadata from then on.
    PlatformMetadata,
}

impl Section {
    /// The order in which they have their effect.
    pub(super) const ALL: [Self; 4] = [
        Self::Annotations,
        Self::Labels,
        Self::Taints,
        Self::PlatformMetadata,
    ];

    /// The key in the file.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Annotations => "annotations",
            Self::Labels => "labels",
            Self::Taints => "taints",
            Self::PlatformMetadata => "platformMetadata",
        }
    }

    /// What messages about rendering call it; taints have always been called labels there.
    const fn rendered(self) -> &'static str {
        match self {
            Self::Annotations => "annotation",
            Self::Labels | Self::Taints => "label",
            Self::PlatformMetadata => "platform metadata",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EffectError {
    #[error(
        "failed to transformer {what} {key:?}: failed to parse template {text:?}: template: transformer:{error}"
    )]
    Parse {
        what: &'static str,
        key: String,
        text: String,
        error: ParseError,
    },
    #[error("failed to transformer {what} {key:?}: template: transformer:{reason}")]
    Render {
        what: &'static str,
        key: String,
        reason: String,
    },
    #[error("invalid annotation name {0:?}")]
    AnnotationName(String),
    #[error("invalid label name {0:?}")]
    LabelName(String),
    #[error("invalid label value {0:?}")]
    LabelValue(String),
    #[error("invalid taint name {key:?}: [{reason}]")]
    TaintName { key: String, reason: &'static str },
    #[error("invalid taint value {text:?}: [{reason}]")]
    TaintValue { text: String, reason: String },
    #[error("unsupported platform metadata field {0}")]
    Field(String),
}

/// A field of the metadata that rules can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Region,
    Zone,
    InstanceType,
    InstanceId,
    ProviderId,
    Spot,
    InternalDns,
    ExternalDns,
    /// Not to be set, and not even rendered.
    Fixed,
    /// Not to be set, which is an error.
    Tags,
    /// Not known: rendered and forgotten.
    Unknown,
}

impl Field {
    pub(super) fn of(key: &str) -> Self {
        match key.to_lowercase().as_str() {
            "region" => Self::Region,
            "zone" => Self::Zone,
            "instancetype" => Self::InstanceType,
            "instanceid" => Self::InstanceId,
            "providerid" => Self::ProviderId,
            "spot" => Self::Spot,
            "internaldns" => Self::InternalDns,
            "externaldns" => Self::ExternalDns,
            "hostname" | "platform" => Self::Fixed,
            "tags" => Self::Tags,
            _ => Self::Unknown,
        }
    }

    pub(super) fn set(self, metadata: &mut PlatformMetadata, rendered: &str) {
        let field = match self {
            Self::Region => &mut metadata.region,
            Self::Zone => &mut metadata.zone,
            Self::InstanceType => &mut metadata.instance_type,
            Self::InstanceId => &mut metadata.instance_id,
            Self::ProviderId => &mut metadata.provider_id,
            Self::InternalDns => &mut metadata.internal_dns,
            Self::ExternalDns => &mut metadata.external_dns,
            Self::Spot => {
                metadata.spot = rendered == "true";
                return;
            }
            Self::Fixed | Self::Tags | Self::Unknown => return,
        };
        rendered.trim().clone_into(field);
    }
}

/// One key and its template. A wrong one is kept: only machines that reach it are concerned.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    pub(super) section: Section,
    pub(super) key: String,
    text: String,
    template: Result<Template, ParseError>,
}

impl Effect {
    pub(super) fn new(section: Section, key: &str, text: &str) -> Self {
        Self {
            section,
            key: key.to_owned(),
            text: text.to_owned(),
            template: Template::parse(text, &FUNCTIONS),
        }
    }

    /// Whether it is rendered at all.
    fn is_idle(&self) -> bool {
        self.section == Section::PlatformMetadata && Field::of(&self.key) == Field::Fixed
    }

    pub(super) fn template(&self) -> Option<&Template> {
        self.template.as_ref().ok().filter(|_| !self.is_idle())
    }

    /// What is wrong whatever the machine, and would have been with the original, too.
    pub(super) fn fatal_problem(&self) -> Option<EffectError> {
        if self.is_idle() {
            return None;
        }
        self.parse_problem()
            .or_else(|| self.name_problem())
            .or_else(|| {
                let [bare, full] = self.field_problems();
                bare.and(full)
            })
    }

    /// Whether the template looks for a field that no machine has: of one that tells nothing, and
    /// of one that tells everything.
    fn field_problems(&self) -> [Option<EffectError>; 2] {
        let problem = |values: &Value| {
            let error = self.template.as_ref().ok()?.render(values).err()?;
            let reason = error.to_string();
            let render = EffectError::Render {
                what: self.section.rendered(),
                key: self.key.clone(),
                reason,
            };
            error.is_unknown_field().then_some(render)
        };
        let [bare, full] = facts::extremes();
        [problem(&bare), problem(&full)]
    }

    /// What is wrong whatever the machine, but never stopped a node.
    pub(super) fn lesser_problem(&self) -> Option<EffectError> {
        if self.section == Section::Taints && !is_label_key(&self.key) {
            return Some(self.bad_taint_key());
        }
        let [bare, full] = self.field_problems();
        if let Some(problem) = bare.or(full) {
            return Some(problem);
        }
        // Without an action the text is what is rendered.
        let constant = !self.text.contains("{{");
        constant.then(|| self.outcome_problem(&self.text)).flatten()
    }

    fn parse_problem(&self) -> Option<EffectError> {
        let error = self.template.as_ref().err()?.clone();
        Some(EffectError::Parse {
            what: self.section.rendered(),
            key: self.key.clone(),
            text: self.text.clone(),
            error,
        })
    }

    fn bad_taint_key(&self) -> EffectError {
        EffectError::TaintName {
            key: self.key.clone(),
            reason: "taint key is not a qualified name",
        }
    }

    fn name_problem(&self) -> Option<EffectError> {
        let key = self.key.as_str();
        match self.section {
            Section::Annotations if !is_label_key(key) => {
                Some(EffectError::AnnotationName(key.to_owned()))
            }
            Section::Labels if !is_label_key(key) => Some(EffectError::LabelName(key.to_owned())),
            Section::Taints if KUBERNETES_TAINTS.contains(&key) => Some(EffectError::TaintName {
                key: key.to_owned(),
                reason: "taint in kubernetes namespace",
            }),
            Section::Taints if [UNINITIALIZED_TAINT, SHUTDOWN_TAINT].contains(&key) => {
                Some(EffectError::TaintName {
                    key: key.to_owned(),
                    reason: "taint in cloud provider namespace",
                })
            }
            Section::PlatformMetadata if Field::of(key) == Field::Tags => {
                Some(EffectError::Field(key.to_owned()))
            }
            _ => None,
        }
    }

    fn outcome_problem(&self, rendered: &str) -> Option<EffectError> {
        match self.section {
            Section::Labels if !is_label_value(rendered) => {
                Some(EffectError::LabelValue(rendered.to_owned()))
            }
            Section::Taints => read_taint(&self.key, rendered).err(),
            _ => None,
        }
    }

    /// The rendered text, checked; none if it is not rendered at all.
    pub(super) fn render(&self, values: &Value) -> Result<Option<String>, EffectError> {
        if self.is_idle() {
            return Ok(None);
        }
        if let Some(problem) = self.parse_problem() {
            return Err(problem);
        }
        let Ok(template) = &self.template else {
            return Ok(None);
        };
        let rendered = template
            .render(values)
            .map_err(|error| EffectError::Render {
                what: self.section.rendered(),
                key: self.key.clone(),
                reason: error.to_string(),
            })?;
        if let Some(problem) = self
            .name_problem()
            .or_else(|| self.outcome_problem(&rendered))
        {
            return Err(problem);
        }
        if self.section == Section::Taints && !is_label_key(&self.key) {
            return Err(self.bad_taint_key());
        }
        Ok(Some(rendered))
    }
}

/// A taint from `Effect` or `value:Effect`.
pub(super) fn read_taint(key: &str, text: &str) -> Result<Taint, EffectError> {
    let wrong = |reason: String| EffectError::TaintValue {
        text: text.to_owned(),
        reason,
    };
    let (value, effect) = match text.split_once(':') {
        None => ("", text),
        Some((_, effect)) if effect.contains(':') => {
            return Err(wrong("taint value is not valid".to_owned()));
        }
        Some((value, effect)) => (value, effect),
    };
    if !EFFECTS.contains(&effect) {
        return Err(wrong(format!("taint effect {effect:?} is not valid")));
    }
    if !is_label_value(value) {
        return Err(wrong("taint value is not valid".to_owned()));
    }
    Ok(Taint::new(key, value, effect))
}
