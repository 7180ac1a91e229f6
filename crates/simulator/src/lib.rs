//! What every simulated server is made of: a world, a serving layer, faults and a journal.
//!
//! **What.** Servers that speak the real protocols and keep their state in memory. Each simulated API
//! is a crate of its own on this one: each cloud answers as its documentation and its SDK say, and
//! `bowline-simulator-kubernetes` is an API server with kubelets.
//!
//! **Why.** A controller manager is only as good as the failures it has met. Here an API can be slow,
//! forgetful, wrong or gone on command; a day passes in a second; and a run with the same seed gives the
//! same transcript. No mock stands between the controllers and the wire, so what is tested is what
//! ships. `bowline sandbox` and `bowline simulate` run on the same servers.
//!
//! **How.** Everything lives in a [`World`]: its clock, its randomness, its pipes, its journal, its
//! faults and the power of its machines. A simulated API implements [`serve::Api`], which only
//! answers requests; the serving layer around it reads the request, applies faults, writes the journal,
//! and answers the control handle under `/_sim/`.
//!
//! ```text
//!   kubectl, SDKs, providers         the tests: start, stop, destroy, break, look
//!          │ TCP, TLS or a pipe                 │
//!   ┌──────▼──────────────┐              ┌──────▼───────┐
//!   │ serve: read, fault, │◀── World ───▶│ control      │  clock · random · pipes
//!   │ answer, record      │              │ journal      │  journal · faults · machines
//!   └──────┬──────────────┘              └──────────────┘
//!          │ serve::Api
//!   ┌──────▼──────────────┐              ┌──────────────┐
//!   │ simulators/*: a     │─ machines ──▶│ kubelets     │  simulator-kubernetes
//!   │ cloud's own API     │  stop        │ fall silent  │
//!   └─────────────────────┘              └──────────────┘
//! ```
//!
//! **Files.** The simulated clouds, `simulators/*`, share one layout; a file is left out where a cloud
//! has nothing for it:
//!
//! | File | Holds |
//! |---|---|
//! | `lib.rs` | the cloud as a value, its [`serve::Api`], and a picture of how a request goes through it |
//! | `config.rs`, `catalog.rs` | what it is started with (credentials, timings, quirks); what it offers (zones, types) |
//! | `model.rs` | its state |
//! | `routes.rs`, `calls.rs` | from a request to an answer; the names of the API's calls by method and path |
//! | `fields.rs`, `refusals.rs`, `render.rs` | what a body asks for; the API's errors; objects as the API shows them |
//! | `fixture.rs`, `load.rs` | what a fixture may contain; how it becomes state |
//! | `control.rs`, `views.rs` | what tests and the sandbox do to it directly; what they see of it |
//! | `verbs.rs` | the same over HTTP, under `/_sim/` ([`control::Control`]) |
//! | `original.rs` | the RBAC objects of the controller manager that Bowline replaces |
//! | `simulate.rs`, `sandbox.rs` | its rows for `bowline simulate` and `bowline sandbox` |
//!
//! All other files are about one kind of object of that cloud.

pub mod calls;
pub mod collection;
pub mod control;
pub mod faults;
pub mod fixture;
pub mod glob;
pub mod journal;
pub mod keys;
mod kubelet;
pub mod machines;
pub mod rbac;
pub mod sandbox;
pub mod serve;
pub mod simulate;
#[allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    missing_docs,
    reason = "for tests alone"
)]
pub mod testing;
pub mod timings;
mod words;
mod world;

pub use kubelet::KubeletSpec;
pub use world::World;
