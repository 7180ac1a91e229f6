//! What the program logs, where, and how much of it.

use std::io::IsTerminal;

use bowline_controllers::options::LoggingOptions;
use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

/// Changes the verbosity of a running program.
#[derive(Clone)]
pub(crate) struct Verbosity(reload::Handle<Levels, Registry>);

impl Verbosity {
    /// Sets it, in the numbers of `-v`.
    pub(crate) fn set(&self, verbosity: i32) {
        // An error means that logging is gone, and then there is nothing to set.
        let _ = self.0.reload(Levels::new(verbosity, &[]));
    }
}

/// Starts logging to standard error. Only the first call of a process has an effect.
pub(crate) fn start(options: &LoggingOptions) -> Verbosity {
    let (filter, handle) = reload::Layer::new(Levels::new(options.verbosity, &options.modules));
    let stderr = fmt::layer().with_writer(std::io::stderr);
    let layer = if options.format == "json" {
        stderr.json().flatten_event(true).boxed()
    } else {
        stderr.with_ansi(std::io::stderr().is_terminal()).boxed()
    };
    // An error means that logging was started before, as tests do.
    let _ = tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init();
    Verbosity(handle)
}

/// Starts logging to a file, everything of ours: for the sandbox, whose output is the story.
#[cfg(feature = "sandbox")]
pub(crate) fn start_to_file(path: &std::path::Path) -> anyhow::Result<()> {
    use anyhow::Context as _;

    let file = std::fs::File::create(path)
        .with_context(|| format!("making the log {}", path.display()))?;
    let layer = fmt::layer()
        .with_writer(std::sync::Arc::new(file))
        .with_ansi(false);
    // An error means that logging was started before, as tests do.
    let _ = tracing_subscriber::registry()
        .with(layer.with_filter(Levels::new(4, &[])))
        .try_init();
    Ok(())
}

/// Which messages pass: ours first, those of the libraries only at high verbosity.
#[derive(Clone, Debug)]
struct Levels {
    ours: LevelFilter,
    theirs: LevelFilter,
    /// `--vmodule`: names of our modules, at any place of a path.
    modules: Vec<(String, LevelFilter)>,
}

impl Levels {
    fn new(verbosity: i32, modules: &[(String, i64)]) -> Self {
        let level = |(pattern, level): &(String, i64)| {
            let is_debug = *level >= 4;
            let level = if is_debug {
                LevelFilter::DEBUG
            } else {
                LevelFilter::INFO
            };
            (pattern.clone(), level)
        };
        Self {
            ours: match verbosity {
                ..=3 => LevelFilter::INFO,
                4..=7 => LevelFilter::DEBUG,
                _ => LevelFilter::TRACE,
            },
            theirs: match verbosity {
                ..=5 => LevelFilter::WARN,
                6..=7 => LevelFilter::INFO,
                8..=9 => LevelFilter::DEBUG,
                _ => LevelFilter::TRACE,
            },
            modules: modules.iter().map(level).collect(),
        }
    }

    fn of(&self, target: &str) -> LevelFilter {
        if !target.starts_with("bowline") {
            return self.theirs;
        }
        let is_named = |pattern: &str| {
            let mut segments = target.split("::");
            segments.any(|segment| match pattern.strip_suffix('*') {
                Some(start) => segment.starts_with(start),
                None => segment == pattern,
            })
        };
        let mut modules = self.modules.iter();
        let named = modules.find(|(pattern, _)| is_named(pattern));
        named.map_or(self.ours, |(_, level)| *level)
    }

    fn passes(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.of(metadata.target())
    }
}

impl<S> Filter<S> for Levels {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.passes(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.passes(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let modules = self.modules.iter().map(|(_, level)| *level);
        modules.chain([self.ours, self.theirs]).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn ours_speak_up_before_the_libraries_do() {
        for (verbosity, target, level, passes) in [
            (0, "bowline_controllers::node", Level::INFO, true),
            (3, "bowline_controllers::node", Level::DEBUG, false),
            (4, "bowline_controllers::node", Level::DEBUG, true),
            (4, "hyper", Level::INFO, false),
            (8, "hyper", Level::DEBUG, true),
            (10, "hyper", Level::TRACE, true),
        ] {
            let passed = level <= Levels::new(verbosity, &[]).of(target);
            assert_eq!(passed, passes, "-v={verbosity} {target} {level}");
        }
    }

    #[test]
    fn vmodule_raises_single_modules() {
        let levels = Levels::new(0, &[("lifecycle*".into(), 5), ("cns".into(), 5)]);
        for (target, debugs) in [
            ("bowline_controllers::lifecycle::round", true),
            ("bowline_controllers::loops::lifecycle", true),
            ("bowline_triton::balancer::cns", true),
            ("bowline_controllers::node", false),
            ("hyper::lifecycle", false),
        ] {
            assert_eq!(Level::DEBUG <= levels.of(target), debugs, "{target}");
        }
    }
}
