//! What a simulated cluster of machines is like.

use std::time::Duration;

use bowline_simulator::faults::Span;

use super::authorities::Algorithm;

bowline_simulator::timings! {
    /// How long things take; zero is allowed everywhere.
    #[derive(Copy)]
    pub struct Timings, TimingsSpec: Span {
        /// How long an endpoint tries to reach a machine that does not exist; really about 20 s.
        unknown: Duration = Duration::ZERO,
        /// How long an endpoint tries to reach a machine that is down.
        down: Duration = Duration::from_secs(20),
    }
}

/// What a simulated cluster is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How its certificates are signed.
    pub algorithm: Algorithm,
    pub timings: Timings,
    /// The pod ranges that its control plane tells.
    pub pods: Vec<String>,
    /// The service ranges that its control plane tells.
    pub services: Vec<String>,
    /// The name of the cluster in what it issues; empty: none.
    pub cluster_name: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Ed25519,
            timings: Timings::default(),
            pods: vec!["10.244.0.0/16".to_owned()],
            services: vec!["10.96.0.0/12".to_owned()],
            cluster_name: String::new(),
        }
    }
}
