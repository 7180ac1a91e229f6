//! What the built program tells of itself, for minutes: its sandbox. Most of that is waiting, so it runs beside the scenarios, and
//! begins before them, as its name comes first.

#[path = "../../../crates/bowline/tests/program/process.rs"]
#[allow(dead_code, reason = "other tests of the program use the rest")]
mod process;
mod sandbox;
