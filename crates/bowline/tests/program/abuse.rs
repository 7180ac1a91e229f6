//! Hostile peers: a cloud that answers with whatever could exhaust a process, and callers of the serving port who do the
//! same. The manager is a process of its own, and its peak memory is printed and has a bound.

#[allow(clippy::print_stdout, reason = "the peak of the memory is a result")]
mod callers;
#[allow(clippy::print_stdout, reason = "the peak of the memory is a result")]
mod cloud;
mod hostile;
