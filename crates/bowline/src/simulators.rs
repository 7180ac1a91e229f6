//! The simulated clouds that `bowline sandbox` and `bowline simulate` know: each is one row of its own crate.

use anyhow::{Context, Result};
use bowline_simulator::sandbox::SimulatorKind;

/// Every simulated cloud.
pub(crate) const SIMULATORS: &[SimulatorKind] = &[
    bowline_simulator_cloudscale::KIND,
    bowline_simulator_exoscale::KIND,
    bowline_simulator_talos::KIND,
    bowline_simulator_xenorchestra::KIND,
    bowline_simulator_triton::KIND,
    bowline_simulator_static::KIND,
];

/// Their names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SIMULATORS.iter().map(|kind| kind.server.name)
}

/// The cloud of that name.
pub(crate) fn named(name: &str) -> Result<&'static SimulatorKind> {
    let found = SIMULATORS.iter().find(|kind| kind.server.name == name);
    found.with_context(|| format!("the sandbox has no cloud {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers;

    #[test]
    fn every_cloud_of_the_sandbox_is_one_of_the_program() {
        for name in names() {
            assert_eq!(
                named(name).unwrap().server.name,
                providers::named(name).unwrap().name
            );
        }
        assert!(named("bigcorp").is_err());
        assert_eq!(SIMULATORS.len(), providers::PROVIDERS.len());
    }
}
