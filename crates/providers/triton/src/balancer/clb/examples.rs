//! Ports for the tables of tests.

pub(crate) use bowline_test_kit::port;

/// The uid of the Service of the specification's cases.
pub(crate) const UID: &str = "3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01";
