//! Everything that can happen to a cluster, at once, under a seed, in simulated time.
//!
//! **What.** The whole manager (one or two of it) works between the simulated API server and simulated clouds while
//! machines come and go, tenants change Services, calls go wrong in every way, processes die, and the configuration
//! changes. A seed draws the story; an hour of it takes a second.
//!
//! **Why.** Scenarios show what somebody thought of. A storm finds what nobody did.
//!
//! **How.** [`Story::of`] draws acts from a seed. [`tell`] plays them, looks at the invariants all along, lets
//! everything come to rest, and looks again. The same story gives the same transcript, byte for byte. A story that fails
//! is made smaller ([`shrink`]) as long as it still does, and printed as a test.
//!
//! ```text
//!  seed ─▶ Story: acts and pauses ─▶ tell: cluster, clouds, managers ─▶ invariants ─▶ rest ─▶ nothing is written
//!                    ▲                                                     │ broken
//!                    └──────────────── shrink: leave acts out ◀────────────┘
//! ```

mod act;
mod clouds;
mod invariants;
mod managers;
mod play;
mod shrink;
mod soak;
mod storm;
mod story;
mod tell;

pub use act::{Act, Broken, Claim, Machine, Names, Server, Wrong};
pub use clouds::{KINDS, Kind};
pub use shrink::shrink;
pub use soak::{Day, soak};
pub use story::Story;
pub use tell::{Told, tell};
