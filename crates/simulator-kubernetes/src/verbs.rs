//! The verbs: what each request does to the store.

pub mod body;
pub mod create;
pub mod delete;
pub mod namespaces;
pub mod patch;
pub mod subresources;
pub mod update;

use bowline_http::Random;
use bytes::Bytes;
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::auth::{Auth, User};
use super::kinds::Kind;
use super::managed::Writer;
use super::request::Query;
use super::schema::FieldValidation;
use super::status::Refusal;
use super::store::{self, State};
use super::strategy::Context;
use super::strategy::problem::{Problem, check_options};
use super::words::quote;

/// The longest field manager.
const MANAGER_LIMIT: usize = 128;

/// One request for a resource, authenticated and authorized.
pub struct Call<'a> {
    /// Who may do what.
    pub auth: &'a Auth,
    /// Names and uids.
    pub random: &'a Random,
    pub now: Timestamp,
    pub user: User,
    pub kind: &'static Kind,
    /// Namespace; empty for kinds without.
    pub namespace: String,
    /// Name; empty for the collection.
    pub name: String,
    /// Sub-resource or empty.
    pub subresource: String,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether an update may create what does not exist; else why not.
    pub may_create: Result<(), Refusal>,
}

impl Call<'_> {
    /// The object's place in the store.
    pub fn path(&self) -> String {
        store::path(&self.namespace, &self.name)
    }

    /// What strategies may look at.
    pub fn context<'s>(&'s self, state: &'s State) -> Context<'s> {
        Context {
            state,
            user: &self.user,
            now: self.now,
            random: self.random,
        }
    }

    /// Refuses what the writer may not write, and an object that hands out more rights than they have.
    pub fn check_grant(
        &self,
        state: &State,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Refusal> {
        self.auth
            .restrict_node(&self.user, self.kind, &self.subresource, object, old)?;
        self.auth
            .check_grant(&self.user, self.kind, object, old, state)
    }

    /// Who writes.
    pub fn writer(&self) -> Writer {
        let agent = self
            .headers
            .get(http::header::USER_AGENT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let manager = match self.query.get("fieldManager") {
            "" => agent.split('/').next().unwrap_or_default(),
            manager => manager,
        };
        let manager = match manager {
            "" => "unknown".to_owned(),
            manager => manager.chars().take(MANAGER_LIMIT).collect(),
        };
        let subresource = match self.subresource.as_str() {
            "" => None,
            name => Some(name.to_owned()),
        };
        Writer {
            manager,
            time: self.now,
            subresource,
        }
    }

    /// What to do about unknown fields.
    pub fn field_validation(&self) -> FieldValidation {
        FieldValidation::parse(self.query.get("fieldValidation")).unwrap_or_default()
    }

    /// Whether nothing shall be written.
    pub fn dry_run(&self) -> bool {
        self.query.get("dryRun") == "All"
    }

    /// Checks the parameters of a write; `options` is the kind of the options, for the message.
    pub fn check_options(&self, options: &str) -> Result<(), Refusal> {
        let mut problems = Vec::new();
        let dry_run = self.query.all("dryRun");
        if dry_run.iter().any(|value| *value != "All") {
            let value = json!(dry_run);
            problems.push(Problem::unsupported("dryRun", &value, &["All"]));
        }
        let manager = self.query.get("fieldManager");
        if manager.len() > MANAGER_LIMIT {
            problems.push(Problem::too_long("fieldManager", MANAGER_LIMIT));
        }
        for (position, letter) in manager.char_indices().filter(|(_, one)| one.is_control()) {
            let detail = format!(
                "invalid character U+{:04X} (at position {position})",
                u32::from(letter)
            );
            let shown = quote(manager);
            problems.push(Problem::invalid("fieldManager", &shown, &detail));
        }
        let validation = self.query.get("fieldValidation");
        if FieldValidation::parse(validation).is_none() {
            let known = ["", "Ignore", "Strict", "Warn"];
            let value = json!(validation);
            problems.push(Problem::unsupported("fieldValidation", &value, &known));
        }
        check_options(options, &problems)
    }
}

/// The `Status` of something done.
pub fn success(kind: &Kind, object: &Value) -> Value {
    let mut details = json!({
        "name": object["metadata"]["name"], "kind": kind.plural, "uid": object["metadata"]["uid"],
    });
    if !kind.group.is_empty() {
        details["group"] = kind.group.into();
    }
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details,
    })
}
