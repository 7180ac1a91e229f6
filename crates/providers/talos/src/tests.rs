//! The provider against simulated machines, over pipes and with a paused clock.

mod connection;
mod files;
mod lookups;
mod networks;
mod peer;
