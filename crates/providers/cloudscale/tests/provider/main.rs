//! The provider, whole, before a simulated cloudscale.ch.

#[cfg(test)]
mod balancer;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod trust;
