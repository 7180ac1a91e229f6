//! The serving port, leases and the smaller promises.
