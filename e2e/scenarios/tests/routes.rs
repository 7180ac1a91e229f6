//! The specification's cases of routes to pods, end to end: the real manager in this process, an API
//! server, and a cloud that has routes.

mod cases;
mod doubt;
mod harness;
mod pace;
mod rights;
mod seeds;
mod starting;
mod triton;
mod writing;
