//! Metrics of machines: Prometheus is led to the metrics service (CMON), or gets them from here.

pub mod certificate;
