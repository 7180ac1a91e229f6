//! Leader election on Leases: one replica is active, the others are on standby.
//!
//! [`decide`] is the whole protocol as a pure function. [`Elector`] runs it with GET, POST and PUT
//! (the originals' roles do not allow PATCH on Leases). [`Held`] keeps a Lease; its [`Fence`] is to
//! be asked before every write. [`LeaseSet`] holds several Leases at once; [`Migration`] says which
//! controllers run under which Lease while they move between controller managers.

mod elector;
mod fence;
mod migration;
mod notes;
mod record;
mod set;
mod terms;

#[cfg(test)]
mod tests;

pub use elector::{Elector, Held, LeaseCandidate};
pub use fence::{Fence, Fenced};
pub use migration::{BadMigration, Migration, MigrationEntry, Placement};
pub use notes::{LeaseNotes, NOTES};
pub use record::{Act, Observation, Record, decide};
pub use set::{HeldSet, Interrupted, LeaseSet};
pub use terms::{ElectionError, LeaseName, Loss, Lost, Observer, Timing, Wait};

use bowline_http::Random;

/// Who this process is in an election: the host's name and a random part, so that two processes on
/// one host differ and a restarted one is not mistaken for its predecessor.
pub fn identity(hostname: &str, random: &Random) -> String {
    format!("{hostname}_{}", random.uuid())
}

/// The name of this host, as the kernel or else the environment knows it.
pub fn hostname() -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = kernel.trim().to_owned();
    if !name.is_empty() {
        return name;
    }
    std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".to_owned())
}
