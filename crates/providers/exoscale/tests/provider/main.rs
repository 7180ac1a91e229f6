//! The provider, whole, before a simulated Exoscale.

#[cfg(test)]
mod balancer;
#[cfg(test)]
mod harness;
