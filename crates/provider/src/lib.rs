//! A provider is one row: everything that the program has to know about a cloud ([`ProviderKind`]).
//!
//! ```text
//!  bowline.yaml ─▶ settings (tree) ─▶ input: what the original would have been given ─┬─▶ check
//!  the original's flags, environment and file ────────────────────────────────────────┴─▶ build ─▶ Arc<dyn Cloud>
//! ```
//!
//! Providers see no Kubernetes client. What they need of the cluster before they are built comes through
//! [`SecretReader`].

#![warn(missing_docs)]

mod context;
mod input;
mod migration;
mod outbox;
pub mod plan;
mod settings;
mod yaml;

use std::fmt;
use std::sync::Arc;

use bowline_core::{BoxFuture, Cloud, Node, NodeMatch};
use serde_json::{Map, Value};

pub use context::{
    BuildError, CloudRegistry, FollowedSecret, NoSecrets, ProviderContext, SecretContent,
    SecretReader, SecretRequest,
};
pub use input::{ConfigFile, Environment, ProviderInput, ReadError, Reader};
pub use migration::{MigrateError, Migration, Original};
pub use outbox::EventOutbox;
pub use settings::{ConfigErrors, Field, Kind, below, number, row, switch, text};
pub use yaml::{first_document, first_line};

/// What the program knows about a cloud before it is built.
pub struct ProviderKind {
    /// Its name: `--cloud-provider`, `clouds[].provider`, the scheme of its provider IDs.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The command of the controller manager that it replaces.
    pub replaces: Option<&'static str>,
    /// What it can do, for a placeholder that stands in while it cannot be built.
    pub capabilities: Capabilities,
    /// Its settings in Bowline's configuration. Parser, schema and reference page are made of them.
    pub settings: fn() -> Kind,
    /// The flags that it alone has.
    pub flags: fn() -> Vec<ProviderFlag>,
    /// What its original would have been given, from settings that were checked. Secrets are resolved.
    pub input: fn(&Value) -> ProviderInput,
    /// What is wrong or odd about an input.
    pub check: fn(&ProviderInput) -> Vec<Finding>,
    /// The settings that say the same as an original's flags, environment and file.
    pub migrate: fn(&Original<'_>, &mut dyn Migration) -> Migrated,
    /// Whose a node is, by the Node alone.
    pub match_node: fn(&Node) -> NodeMatch,
    /// Builds the cloud. Some call their API for that.
    pub build: for<'a> fn(&'a ProviderContext) -> BoxFuture<'a, Built>,
}

/// Settings that say the same, or why there are none.
pub type Migrated = Result<Map<String, Value>, MigrateError>;

/// A cloud, or why there is none.
pub type Built = Result<Arc<dyn Cloud>, BuildError>;

/// What a cloud can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// It has load balancers.
    pub load_balancers: bool,
    /// It knows the networks of machines.
    pub networks: bool,
}

/// A flag that only one cloud has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderFlag {
    /// Its name, without dashes.
    pub name: &'static str,
    /// What it is for.
    pub meaning: &'static str,
    /// Whether it is a switch.
    pub is_switch: bool,
}

/// What a provider says about its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What there is to say. It names the setting by its key, or by the original's name of it.
    pub text: String,
    /// How bad it is.
    pub severity: Severity,
}

impl Finding {
    /// The cloud cannot be built with that.
    pub fn wrong(text: impl fmt::Display) -> Self {
        Self::of(&text, Severity::Wrong)
    }

    /// Worth telling, or not to be checked here.
    pub fn odd(text: impl fmt::Display) -> Self {
        Self::of(&text, Severity::Odd)
    }

    fn of(text: &dyn fmt::Display, severity: Severity) -> Self {
        let text = text.to_string();
        Self { text, severity }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The cloud cannot be built.
    Wrong,
    /// It can.
    Odd,
}
