//! What all simulated servers of one run share: time, randomness, the network and the faults.

use bowline_http::{Clock, Pipes, Random};

use crate::faults::Faults;
use crate::journal::Journal;
use crate::machines::Machines;

/// One simulated world. Clones share it.
#[derive(Clone, Debug)]
pub struct World {
    /// Time of day; follows tokio's clock in simulated runs.
    pub clock: Clock,
    /// Names, uids, delays.
    pub random: Random,
    /// The in-memory network, for runs without sockets.
    pub pipes: Pipes,
    /// Every call to every server of the world, in order.
    pub journal: Journal,
    /// What is made to go wrong.
    pub faults: Faults,
    /// Which machines exist and run.
    pub machines: Machines,
}

impl World {
    /// A world on the machine's own clock.
    pub fn real() -> Self {
        Self::with(Clock::system(), Random::from_system())
    }

    /// A world whose dates follow tokio's clock from a fixed day, and whose draws follow `seed`.
    pub fn simulated(seed: u64) -> Self {
        let start = jiff::Timestamp::new(1_793_000_000, 0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        Self::with(Clock::simulated(start), Random::seeded(seed))
    }

    /// The id that a fixture gives, else a new one.
    pub fn id_or(&self, given: Option<&String>) -> String {
        given.cloned().unwrap_or_else(|| self.random.uuid())
    }

    /// A world of given parts, with an empty journal and no faults.
    pub fn with(clock: Clock, random: Random) -> Self {
        Self {
            clock,
            // Draws of their own: adding a fault must not change the names that come after.
            faults: Faults::new(random.fork()),
            random,
            pipes: Pipes::default(),
            journal: Journal::default(),
            machines: Machines::default(),
        }
    }
}
