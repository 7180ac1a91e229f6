//! What the tests of providers are made of.
//!
//! ```text
//!  Simulation  world, simulated server, journal, faults
//!    ▲
//!  Harness     the provider before it: questions about nodes
//!    ▲
//!  ServiceHarness   a Service: request ─▶ draft ─▶ drive ─▶ what is published
//!    ▲
//!  seeds       random changes on a cloud that fails at random
//! ```
//!
//! A provider's tests wrap one of these ([`wraps!`]) and add their fixture.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test that cannot go on has failed"
)]

mod drive;
mod harness;
mod objects;
pub mod seeds;
mod service_harness;
mod table;

pub use drive::{Outcome, PlanRun, drive, steps};
pub use harness::{
    Harness, Simulation, answer, delay, lookups, presence, same_transcript, seams, status,
};
pub use objects::{
    all_found, cannot_tell, found, fresh, gone, named_port, node, port, service, with_node_ip,
};
pub use service_harness::{ServiceHarness, key, set};
pub use table::{begins, ends, pairs, rows, says};

/// Lets a type be used as what it wraps: `wraps!(NodeHarness => harness: Harness<Cloudscale>)`.
#[macro_export]
macro_rules! wraps {
    ($outer:ty => $field:tt: $inner:ty) => {
        impl std::ops::Deref for $outer {
            type Target = $inner;

            fn deref(&self) -> &Self::Target {
                &self.$field
            }
        }

        impl std::ops::DerefMut for $outer {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.$field
            }
        }
    };
}
