//! The specifications' cases of pod ranges, end to end: the real manager in this process, an API
//! server, and clouds that say which networks machines are in.

mod doubt;
mod harness;
mod leaders;
mod machines;
mod ranges;
mod rights;
mod seeds;
mod starting;
