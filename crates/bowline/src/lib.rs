//! One cloud controller manager for Kubernetes, for several clouds at once.
//!
//! The program is [`main`]. It is a library only so that fuzzing can read configurations as the program does, and the storm
//! can run managers as it does.

mod cli;
mod cloud_factory;
mod config;
mod explain;
mod flags;
mod inspect;
mod invocation;
mod logging;
mod output;
mod placeholder_cloud;
mod plan;
mod providers;
mod reload;
mod run;
#[cfg(feature = "sandbox")]
mod sandbox;
mod secrets;
mod signals;
#[cfg(feature = "sandbox")]
mod simulate;
#[cfg(feature = "sandbox")]
mod simulators;

pub use cli::main;
pub use config::problems_of;
pub use run::{Outside, manager};
