//! Follows the configuration while the manager runs: looked at every few seconds, or at once on SIGHUP.
//!
//! ```text
//!  text, secrets ─▶ changed? ─▶ read ─▶ flags ─▶ clouds built ─▶ the manager's next ActiveConfig
//!                                 └───────┴─────────┴─▶ wrong: told, and everything stays as it is
//! ```
//!
//! Clouds that could not be built at the start are tried again at each look.

#[cfg(all(test, feature = "sandbox"))]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use bowline_controllers::manager::SetVerbosity;
use bowline_controllers::options::{CommandLine, FLAGS, Values};
use bowline_controllers::{ActiveConfig, ActiveConfigChanger};
use bowline_core::error_chain;
use tokio::signal::unix::Signal;
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use crate::cloud_factory::CloudFactory;
use crate::config::{self, Configuration, Missing, Resolved};
use crate::invocation::Invocation;
use crate::run;
use crate::secrets::Patience;
use crate::signals;

/// How often files are looked at: soon enough for somebody who waits for it, and a few system calls.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often Secrets of the cluster are read, and a configuration that was refused is tried again: what it lacks may be
/// elsewhere.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// How long building clouds may take. Some ask their API where things are.
const BUILD_LIMIT: Duration = Duration::from_secs(120);

/// What the manager works with now.
pub(crate) struct InUse {
    /// The configuration. It is not read again while its text is the same.
    pub(crate) configuration: Arc<Configuration>,
    /// The secrets that it mentions.
    pub(crate) resolved: Resolved,
    /// The flags.
    pub(crate) values: Values,
}

/// What following a configuration needs.
pub(crate) struct ReloadParts {
    /// How the program was called.
    pub(crate) invocation: Invocation,
    /// Where the configuration is.
    pub(crate) path: String,
    /// Builds clouds; those in use are in it.
    pub(crate) factory: CloudFactory,
    /// Changes the manager's active configuration.
    pub(crate) changer: ActiveConfigChanger,
    /// How much is logged.
    pub(crate) set_verbosity: SetVerbosity,
}

/// Follows a configuration. Not an `http::Reloaded`: a look also builds clouds that failed before.
pub(crate) struct Reload {
    parts: ReloadParts,
    in_use: InUse,
    /// What was refused last.
    refused: Option<Refused>,
    /// When Secrets were last read.
    asked: Instant,
}

/// A configuration that is not used.
struct Refused {
    /// Its text, or why it cannot be read.
    text: Result<String, String>,
    why: String,
}

/// What came of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// Nothing is different.
    Same,
    /// The manager has another configuration.
    Changed,
    /// Something is wrong, and everything stays as it is.
    Refused,
}

impl Reload {
    /// Begins with what the manager works with already.
    pub(crate) fn new(mut parts: ReloadParts, in_use: InUse) -> Self {
        // Nobody waits for what is not there: it is looked for again.
        parts.factory.patience = Patience::None;
        Self {
            parts,
            in_use,
            refused: None,
            asked: Instant::now(),
        }
    }

    /// Looks again and again; at once when somebody asks for it.
    pub(crate) async fn run(mut self, mut hangups: Option<Signal>) {
        loop {
            let nudged = tokio::select! {
                biased;
                () = signals::next(&mut hangups) => true,
                () = tokio::time::sleep(LOOK_EVERY) => false,
            };
            self.look(nudged).await;
        }
    }

    /// Looks once. Somebody who nudges wants everything looked at.
    pub(crate) async fn look(&mut self, nudged: bool) -> Looked {
        let text = config::command::text(&self.parts.path).map_err(|it| error_chain(it.as_ref()));
        let due = nudged || self.asked.elapsed() >= ASK_EVERY;
        let is_refused = self.refused.as_ref().is_some_and(|it| it.text == text);
        if is_refused && !due {
            return self.mend().await;
        }
        match self.attempt(&text, due).await {
            Ok(looked) => {
                self.refused = None;
                looked
            }
            Err(error) => {
                self.refuse(text, error_chain(error.as_ref()));
                if due {
                    // Also where it did not come to that: what waits meanwhile is not tried less often.
                    self.asked = Instant::now();
                }
                match self.mend().await {
                    Looked::Changed => Looked::Changed,
                    Looked::Same | Looked::Refused => Looked::Refused,
                }
            }
        }
    }

    /// Tries clouds again that could not be built, while there is a text that is not used.
    async fn mend(&mut self) -> Looked {
        if !self.parts.factory.has_placeholders() {
            return Looked::Same;
        }
        let text = Ok(self.in_use.configuration.text.clone());
        self.attempt(&text, false).await.unwrap_or_else(|error| {
            debug!("clouds cannot be built: {}", error_chain(error.as_ref()));
            Looked::Same
        })
    }

    /// Uses that text if it is different, or its secrets are; `due` if Secrets are to be read again.
    async fn attempt(&mut self, text: &Result<String, String>, due: bool) -> Result<Looked> {
        let text = text.as_ref().map_err(|why| anyhow!(why.clone()))?;
        let is_new = *text != self.in_use.configuration.text;
        let configuration = if is_new {
            let read = config::read(text).map_err(|problems| {
                let path = &self.parts.path;
                let lines = problems.iter().map(|it| format!("{path}:{it}"));
                anyhow!(lines.collect::<Vec<_>>().join("; "))
            });
            Arc::new(read?)
        } else {
            self.in_use.configuration.clone()
        };
        let (mut resolved, mut missing) = self.resolve(&configuration, due || is_new).await;
        if !is_new {
            // The cluster may not answer now; what was read before stays good.
            missing.retain(|it| {
                let known = self.in_use.resolved.get(&it.reference);
                if let Some(secret) = known {
                    debug!("a secret cannot be read again: {it}");
                    resolved.insert(it.reference.clone(), secret.clone());
                }
                known.is_none()
            });
            let has_placeholders = self.parts.factory.has_placeholders();
            if !has_placeholders && same(&resolved, &self.in_use.resolved) {
                return Ok(Looked::Same);
            }
        }
        let changing = self.change(configuration, (resolved, missing));
        match timeout(BUILD_LIMIT, changing).await {
            Ok(changed) => changed,
            Err(_) => bail!("building its clouds takes more than {BUILD_LIMIT:?}"),
        }
    }

    /// The secrets of a configuration. Those in Secrets are asked for only if `fully`.
    async fn resolve(
        &mut self,
        configuration: &Configuration,
        fully: bool,
    ) -> (Resolved, Vec<Missing>) {
        if fully {
            self.asked = Instant::now();
        }
        let known = if fully {
            Resolved::new()
        } else {
            self.in_use.resolved.clone()
        };
        let resolver = self.parts.factory.resolver(known);
        resolver.try_resolve(&configuration.clouds).await
    }

    /// Gives the manager another configuration, or says what is wrong; then nothing is different.
    async fn change(
        &mut self,
        configuration: Arc<Configuration>,
        (resolved, missing): (Resolved, Vec<Missing>),
    ) -> Result<Looked> {
        let line = self.parts.invocation.command_line(&configuration);
        let CommandLine {
            options, values, ..
        } = line.map_err(|message| anyhow!(message))?;
        options.validate().context("the flags in it are wrong")?;
        let flags = changed_flags(&self.in_use.values, &values);
        check_changeable(&flags)?;
        if options.election.migration && flags.iter().any(|it| it.name == "controllers") {
            bail!("with --enable-leader-migration a change of --controllers needs a restart");
        }
        let clouds = self
            .parts
            .factory
            .build(&configuration, (&resolved, &missing), &options)
            .await?;
        let renamed = self.parts.factory.renamed(&clouds);
        let mut differences = self.parts.factory.differences(&clouds, &renamed);
        differences.extend(flags.iter().map(ToString::to_string));
        let present = self.parts.changer.present();
        let rules = run::rules(Some(&configuration), &options);
        if rules != present.rules {
            differences.push("what is configured about clouds".to_owned());
        }
        let summary = differences.join("; ");
        let active_config = ActiveConfig {
            generation: present.generation + 1,
            rules,
            clouds: clouds.iter().map(|it| it.cloud.clone()).collect(),
            options,
            summary: summary.clone(),
            renamed,
        };
        if let Some(cloud) = active_config.untagged() {
            let name = cloud.name();
            bail!("cloud {name} has no ClusterID, and allow-untagged-cloud is not set");
        }
        if flags.iter().any(|it| it.name == "v") {
            let verbosity = active_config.options.logging.verbosity;
            (self.parts.set_verbosity)(verbosity).map_err(|why| anyhow!(why))?;
        }
        self.in_use = InUse {
            configuration,
            resolved,
            values,
        };
        if differences.is_empty() {
            // A remark in the file, or a secret that its cloud follows by itself.
            return Ok(Looked::Same);
        }
        info!(
            generation = active_config.generation,
            "the configuration has changed: {summary}"
        );
        self.parts.factory.use_them(clouds);
        self.parts.changer.change(active_config);
        Ok(Looked::Changed)
    }

    /// Tells once what is wrong.
    fn refuse(&mut self, text: Result<String, String>, why: String) {
        if self.refused.as_ref().is_some_and(|it| it.why == why) {
            debug!(
                path = self.parts.path,
                "the configuration is still not used: {why}"
            );
        } else {
            warn!(
                path = self.parts.path,
                "the configuration has changed and is not used: {why}"
            );
            self.parts.changer.refuse(&why);
        }
        self.refused = Some(Refused { text, why });
    }
}

/// Whether these are the same secrets.
fn same(some: &Resolved, others: &Resolved) -> bool {
    let revealed = |it: &'_ Resolved| -> Vec<String> {
        let all = it
            .iter()
            .map(|(place, secret)| format!("{place}={}", secret.reveal()));
        all.collect()
    };
    revealed(some) == revealed(others)
}

/// A flag with another value.
struct ChangedFlag {
    name: &'static str,
    before: String,
    after: String,
}

impl std::fmt::Display for ChangedFlag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            name,
            before,
            after,
        } = self;
        write!(f, "{name} is {after:?} (it was {before:?})")
    }
}

fn changed_flags(before: &Values, after: &Values) -> Vec<ChangedFlag> {
    let text = |values: &Values, name| {
        values
            .get(name)
            .map(ToString::to_string)
            .unwrap_or_default()
    };
    let all = after.iter().map(|(name, _)| ChangedFlag {
        name,
        before: text(before, name),
        after: text(after, name),
    });
    all.filter(|it| it.before != it.after).collect()
}

fn check_changeable(flags: &[ChangedFlag]) -> Result<()> {
    let is_live = |name: &str| FLAGS.iter().any(|flag| flag.name == name && flag.is_live);
    let fixed = flags.iter().filter(|it| !is_live(it.name));
    let fixed: Vec<String> = fixed.map(|it| format!("manager.{it}")).collect();
    if fixed.is_empty() {
        return Ok(());
    }
    bail!("this needs a restart of the manager: {}", fixed.join("; "))
}
