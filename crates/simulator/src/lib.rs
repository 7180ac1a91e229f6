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

pub mod calls;
pub mod collection;
mod control;
pub mod faults;
pub mod fixture;
pub mod glob;
pub mod handle;
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
