//! The provider, whole, before a simulated cloudscale.ch.

#[cfg(test)]
mod balancer;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod trust;
