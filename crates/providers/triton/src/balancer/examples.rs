//! The Service of the specification's cases, for unit tests.

use bowline_core::{Service, ServicePort};

/// `prod/web` with port 80, which nodes have at 30080.
pub(crate) fn web() -> Service {
    Service {
        finalizers: Vec::new(),
        ports: vec![ServicePort {
            target_port: "8080".to_owned(),
            ..bowline_test_kit::named_port("http", "TCP", 80, 30_080)
        }],
        ..bowline_test_kit::service("prod", "web", "3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01")
    }
}

pub(crate) fn annotated(pairs: &[(&str, &str)]) -> Service {
    let pairs = pairs
        .iter()
        .map(|(key, value)| (format!("cloud.tritoncompute/{key}"), (*value).to_owned()));
    Service {
        annotations: Some(pairs.collect()),
        ..web()
    }
}
