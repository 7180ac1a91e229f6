//! The specification's cases of nodes, end to end: the real manager in this process, an API server,
//! and clouds whose every answer is scripted.

mod addresses;
mod apart;
mod initialization;
mod initialization_writes;
mod label_sync;
mod labels;
mod lifecycle;
mod lifecycle_guard;
mod marks;
mod ownership;
mod ownership_shown;
mod seeds;
mod story;
mod voices;
