//! Talos through the whole manager: the real provider and the real manager between an API server and
//! simulated machines, with the rights of the original's chart.

mod certificates;
mod clouds;
mod connection;
mod harness;
mod initialization;
mod lifecycle;
mod ranges;
mod refresh;
mod reload;
mod rights;
mod rules;
mod seeds;
