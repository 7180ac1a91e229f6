//! Generates messages, clients and servers from `proto/`. The compiler of the definitions is a crate:
//! nothing has to be installed.

use std::error::Error;
use std::io::Write;

/// What is compiled; the rest comes along by import.
const ROOTS: [&str; 3] = ["cosi/state.proto", "cosi/meta.proto", "talos/machine.proto"];

/// The specifications of resources: nothing imports them, since they travel as bytes.
const SPECIFICATIONS: [&str; 5] = [
    "talos/cluster.proto",
    "talos/hardware.proto",
    "talos/kubernetes.proto",
    "talos/network.proto",
    "talos/runtime.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    writeln!(std::io::stdout(), "cargo:rerun-if-changed=proto")?;
    let definitions = protox::compile(ROOTS.into_iter().chain(SPECIFICATIONS), ["proto"])?;
    tonic_prost_build::configure()
        // Connections are made by the caller, with the rules it has about addresses, TLS and time.
        .build_transport(false)
        // Ordered, so that what is encoded twice is the same bytes.
        .btree_map(".")
        .include_file("generated.rs")
        .compile_fds(definitions)?;
    Ok(())
}
