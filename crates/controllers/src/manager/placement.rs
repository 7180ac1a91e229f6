//! Which controllers run under which lease.

use tracing::info;

use crate::kube::election::{Migration, Placement};
use crate::loops::certificates::CertificateController;
use crate::manager::active_config::ActiveConfig;
use crate::options::{CERTIFICATES, CONTROLLERS, ControllerSet, KnownController};

/// The controllers of one lease.
#[derive(Clone, Copy)]
pub(super) enum LeaseControllers<'a> {
    /// All that run in this component: without election there is one place.
    Only(Option<&'a Migration>),
    /// Those of the main lease.
    Main(Option<&'a Migration>),
    /// Those of the second lease.
    Migrated(&'a Migration),
}

impl LeaseControllers<'_> {
    /// Whether a controller belongs there.
    pub(super) fn has(self, known: &KnownController) -> bool {
        let placement =
            |it: Option<&Migration>| it.map_or(Placement::Main, |it| it.placement(known));
        match self {
            Self::Only(migration) => placement(migration) != Placement::Elsewhere,
            Self::Main(migration) => placement(migration) == Placement::Main,
            Self::Migrated(migration) => placement(Some(migration)) == Placement::Migrated,
        }
    }

    /// Whether events about the manager as a whole are written from there: one of two places is enough.
    pub(super) fn speaks_for_the_manager(self) -> bool {
        matches!(self, Self::Only(_) | Self::Main(_))
    }
}

/// The controllers of an active configuration that run in a place.
pub(super) fn placed(
    active_config: &ActiveConfig,
    place: LeaseControllers<'_>,
) -> Vec<&'static KnownController> {
    enabled(active_config)
        .filter(|known| place.has(known))
        .collect()
}

/// Reports which controllers of an active configuration run in another component.
pub(super) fn log_elsewhere(active_config: &ActiveConfig, migration: Option<&Migration>) {
    for known in enabled(active_config).filter(|it| !LeaseControllers::Only(migration).has(it)) {
        let controller = known.name;
        info!(controller, "runs in another component; not started here");
    }
}

/// The controllers that are switched on, by flag or by a cloud's configuration.
fn enabled(active_config: &ActiveConfig) -> impl Iterator<Item = &'static KnownController> {
    let set = active_config.options.controllers.set();
    CONTROLLERS
        .iter()
        .filter(move |it| set.enabled(it.name) || is_switched_on(active_config, it.name))
}

/// Whether a cloud's configuration starts that controller although no flag names it.
fn is_switched_on(active_config: &ActiveConfig, name: &str) -> bool {
    name == CERTIFICATES
        && CertificateController::has_work(&active_config.clouds, false)
        && !ControllerSet::forbids(&active_config.options.controllers.selection, name)
}
