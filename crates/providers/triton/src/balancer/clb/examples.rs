//! Ports for the tables of tests.

use bowline_core::{Protocol, ServicePort};

/// The uid of the Service of the specification's cases.
pub(crate) const UID: &str = "3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01";

/// A port of a Service.
pub(crate) fn port(protocol: &str, port: u16, node_port: u16) -> ServicePort {
    ServicePort {
        name: format!("{protocol}-{port}").to_lowercase(),
        protocol: Protocol::from(protocol),
        port,
        node_port,
        target_port: port.to_string(),
        application_protocol: None,
    }
}
