//! Which controllers run under which lease.

use tracing::info;

use crate::kube::election::{Migration, Placement};
use crate::loops::certificates::CertificateController;
use crate::manager::active_config::LineUp;
use crate::options::{CERTIFICATES, CONTROLLERS, ControllerSet, KnownController};

/// The controllers of one lease.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// All that run in this component: without election there is one place.
    Only(Option<&'a Migration>),
    /// Those of the main lease.
    Main(Option<&'a Migration>),
    /// Those of the second lease.
    Migrated(&'a Migration),
}

impl Place<'_> {
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

    /// Whether events about the manager as a whole are told from there: one of two places is enough.
    pub(super) fn speaks_for_the_manager(self) -> bool {
        matches!(self, Self::Only(_) | Self::Main(_))
    }
}

/// The controllers of a line-up that run in a place.
pub(super) fn placed(line_up: &LineUp, place: Place<'_>) -> Vec<&'static KnownController> {
    enabled(line_up).filter(|known| place.has(known)).collect()
}

/// Tells which controllers of a line-up run in another component.
pub(super) fn tell_elsewhere(line_up: &LineUp, migration: Option<&Migration>) {
    for known in enabled(line_up).filter(|it| !Place::Only(migration).has(it)) {
        let controller = known.name;
        info!(controller, "runs in another component; not started here");
    }
}

/// The controllers that are switched on, by flag or by a cloud's configuration.
fn enabled(line_up: &LineUp) -> impl Iterator<Item = &'static KnownController> {
    let set = line_up.options.controllers.set();
    CONTROLLERS
        .iter()
        .filter(move |it| set.enabled(it.name) || is_switched_on(line_up, it.name))
}

/// Whether a cloud's configuration starts that controller although no flag names it.
fn is_switched_on(line_up: &LineUp, name: &str) -> bool {
    name == CERTIFICATES
        && CertificateController::has_work(&line_up.clouds, false)
        && !ControllerSet::forbids(&line_up.options.controllers.selection, name)
}
