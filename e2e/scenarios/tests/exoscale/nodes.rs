//! Nodes at Exoscale: which instance they are, what becomes of them, and whose they are.

mod harness;
mod initialization;
mod lifecycle;
mod overrides;
mod rights;
