//! Fuzzing of everything that reads foreign bytes.
//!
//! A target is a function from bytes to nothing ([`TARGETS`]). It must return, soon and without a panic, whatever the
//! bytes are; where something else must hold, it asserts that.
//!
//! ```text
//!  corpus/<target>/* ──┬─▶ tests/replay.rs: every input once, in `cargo test`
//!                      └─▶ fuzz/fuzz_targets/<target>.rs: libFuzzer finds more, `e2e/fuzz/run`
//! ```
//!
//! Answers of clouds and of the API server go the whole way: through the HTTP client, over a pipe in memory, with a
//! paused clock ([`answers`]).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a target that finds something panics"
)]

mod annotations;
mod answers;
mod clouds;
mod files;
mod ids;
mod kubernetes;
mod rules;
mod talos;

/// A reader of foreign bytes.
pub struct Target {
    /// The name of its corpus and of its program.
    pub name: &'static str,
    pub run: fn(&[u8]),
}

/// Finds a target by its name.
pub fn target(name: &str) -> &'static Target {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.expect("a target of that name")
}

const fn row(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    // Answers of clouds.
    row("cloudscale", clouds::cloudscale),
    row("exoscale", clouds::exoscale),
    row("xenorchestra", clouds::xenorchestra),
    row("sse", clouds::sse),
    row("triton", clouds::triton),
    row("talos", talos::talos),
    row("grpc", talos::grpc),
    // Answers of the API server.
    row("node", kubernetes::node),
    row("service", kubernetes::service),
    row("csr", kubernetes::csr),
    row("watch", kubernetes::watch),
    // What users and kubelets write.
    row("annotations", annotations::annotations),
    row("provider_ids", ids::provider_ids),
    row("templates", rules::templates),
    row("patterns", rules::patterns),
    // Files.
    row("configuration", files::configuration),
    row("kubeconfig", files::kubeconfig),
    row("talosconfig", files::talosconfig),
    row("ssh_keys", files::ssh_keys),
];

/// Bytes as text; those that are none are replaced.
fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
