//! Tags, from the arithmetic to many machines that others write to as well.

mod arithmetic;
mod cases;
mod others;
mod stage;
