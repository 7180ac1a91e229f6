//! Mode `cns`: a DNS name of the nodes.

use bowline_core::{Draft, DraftError};

use super::scene::Scene;
use super::{clb, members};

/// The plan for a Service that is to be served so.
pub(crate) async fn draft(scene: &Scene<'_>) -> Result<Draft, DraftError> {
    clb::draft(scene).await
}

/// The plan for a Service that is to be served so no more.
pub(crate) fn removal(_: &Scene<'_>) -> Vec<members::Member> {
    Vec::new()
}
