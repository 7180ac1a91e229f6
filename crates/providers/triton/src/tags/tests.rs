//! Tags, from the arithmetic to many machines that others write to as well.

mod arithmetic;
mod cases;
mod harness;
mod others;
