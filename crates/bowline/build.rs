//! How the released program is linked: static, with Rust's own linker (`.cargo/config.toml`).
//!
//! Other builds keep what their linkers do by default.

use std::env;
use std::io::{self, Write as _};

fn main() -> io::Result<()> {
    let mut cargo = io::stdout();
    writeln!(cargo, "cargo::rerun-if-changed=build.rs")?;
    writeln!(cargo, "cargo::rerun-if-changed=release.ld")?;
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|it| it == value);
    let is_released = is("PROFILE", "release") && is("CARGO_CFG_TARGET_ENV", "musl");
    if !is_released || !is("RUSTC_LINKER", "rust-lld") {
        return Ok(());
    }
    let script = concat!("--script=", env!("CARGO_MANIFEST_DIR"), "/release.ld");
    for argument in [
        // Generic code is compiled for many types that differ in name only.
        "--icf=all",
        // Addresses that the start of the program corrects: a bit map instead of 24 bytes for each.
        "--pack-dyn-relocs=relr",
        // A panic aborts, so that nothing is ever unwound.
        "--no-eh-frame-hdr",
        script,
    ] {
        writeln!(cargo, "cargo::rustc-link-arg-bins={argument}")?;
    }
    Ok(())
}
