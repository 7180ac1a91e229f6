//! What the program logs, where, and how much of it.

use std::io::IsTerminal;

use bowline_controllers::options::LoggingOptions;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use tracing::level_filters::LevelFilter;

/// Changes the verbosity of a running program.
#[derive(Clone)]
pub(crate) struct Verbosity(reload::Handle<Targets, Registry>);

impl Verbosity {
    /// Sets it, in the numbers of `-v`.
    pub(crate) fn set(&self, verbosity: i32) {
        // An error means that logging is gone, and then there is nothing to set.
        let _ = self.0.reload(targets(verbosity, &[]));
    }
}

/// Starts logging to standard error. Only the first call of a process has an effect.
pub(crate) fn start(options: &LoggingOptions) -> Verbosity {
    let (filter, handle) = reload::Layer::new(targets(options.verbosity, &options.modules));
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
        .with(layer.with_filter(targets(4, &[])))
        .try_init();
    Ok(())
}

/// Which messages pass: ours first, those of the libraries only at high verbosity.
///
/// `modules` are `--vmodule` patterns: names of our modules with a verbosity each.
fn targets(verbosity: i32, modules: &[(String, i64)]) -> Targets {
    let ours = match verbosity {
        ..=3 => LevelFilter::INFO,
        4..=7 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let theirs = match verbosity {
        ..=5 => LevelFilter::WARN,
        6..=7 => LevelFilter::INFO,
        8..=9 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let mut targets = Targets::new()
        .with_default(theirs)
        .with_target("bowline", ours);
    for (pattern, level) in modules {
        let level = if *level >= 4 {
            LevelFilter::DEBUG
        } else {
            LevelFilter::INFO
        };
        for room in [
            "bowline",
            "bowline_controllers",
            "bowline_http",
            "bowline_cloudscale",
            "bowline_exoscale",
            "bowline_talos",
            "bowline_xenorchestra",
        ] {
            let module = pattern.trim_end_matches('*');
            targets = targets.with_target(format!("{room}::{module}"), level);
        }
    }
    targets
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
            let passed = targets(verbosity, &[]).would_enable(target, &level);
            assert_eq!(passed, passes, "-v={verbosity} {target} {level}");
        }
    }

    #[test]
    fn vmodule_raises_single_modules() {
        let targets = targets(0, &[("lifecycle*".into(), 5)]);
        assert!(targets.would_enable("bowline_controllers::lifecycle::round", &Level::DEBUG));
        assert!(!targets.would_enable("bowline_controllers::node", &Level::DEBUG));
    }
}
