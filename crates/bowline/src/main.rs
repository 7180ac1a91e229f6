//! The program `bowline`; see the library.

use std::process::ExitCode;

/// That of musl takes a sixth of the program's time.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    bowline::main(std::env::args().collect())
}
