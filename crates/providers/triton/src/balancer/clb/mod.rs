//! Load balancer machines: appliances that are driven by their metadata, some for each Service.

#[cfg(test)]
pub(crate) mod examples;
pub(crate) mod metadata;
pub(crate) mod portmap;
