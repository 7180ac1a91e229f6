//! The Talos Linux provider: what machines say about themselves, wherever they run.
//!
//! # The cloud
//!
//! None: Talos is an operating system whose machines answer over gRPC. A machine has read the metadata of
//! its platform at boot, so that it can be asked for its provider id, zone, type and addresses without any
//! cloud's credentials. One provider serves clusters that span clouds and bare metal.
//!
//! # What to know about it
//!
//! - A machine is found by address alone: the annotation that the kubelet writes for `--node-ip`.
//! - Right after boot a machine knows only which platform it runs on. An id made of that would stay for ever,
//!   so platforms that have ids are waited for ([`id::is_ready`]).
//! - The id is that of the machine's cloud. Who initialises a node and who answers for its existence may
//!   be two ([`ownership`]).
//! - Public addresses are on the link `external` where the platform knows them, and on the machine's own links
//!   elsewhere ([`addresses`]).
//! - Operators change all of that with rules, whose values are Go templates ([`transform`]).
//!
//! # The parts
//!
//! ```text
//!  config ─ environment, file, checked; reload ──┐
//!                                                ▼
//!  machine ─ what it says ──▶ describe: recognise ─▶ describe ──▶ instance with its marks
//!                               id · transform · addresses · labels
//!  ownership, lifecycle: whose duty, still there?
//! ```
//!
//! This crate has begun with what decides. The client that asks machines is still to come, and with it the
//! cloud that the program can be told to use.

pub mod addresses;
pub mod config;
pub mod describe;
pub mod id;
pub mod labels;
pub mod lifecycle;
pub mod machine;
pub mod ownership;
#[cfg(test)]
mod testing;
pub mod transform;

pub use config::{Config, ConfigError};
pub use describe::{DescribeError, nothing, recognise};

/// The provider's name, as in `--cloud-provider`.
pub const PROVIDER: &str = "talos";
