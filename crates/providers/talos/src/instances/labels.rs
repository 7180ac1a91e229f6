//! The labels that every machine's node gets, beside those of rules.

use std::collections::BTreeMap;

use crate::transform::Transformed;

pub const PLATFORM: &str = "node.cloudprovider.kubernetes.io/platform";
/// Whether the machine can be taken away at any time.
pub const LIFECYCLE: &str = "node.cloudprovider.kubernetes.io/lifecycle";
pub const CLUSTER_NAME: &str = "node.cloudprovider.kubernetes.io/clustername";
pub const SPOT: &str = "spot";

/// All labels of a node: what is known of the machine, overridden by its rules.
pub fn labels(transformed: &Transformed, cluster_name: Option<&str>) -> BTreeMap<String, String> {
    let metadata = &transformed.metadata;
    let mut labels = BTreeMap::new();
    let mut add = |key: &str, value: &str| {
        if !value.is_empty() {
            labels.insert(key.to_owned(), value.to_owned());
        }
    };
    add(PLATFORM, &metadata.platform);
    add(LIFECYCLE, if metadata.spot { SPOT } else { "" });
    add(CLUSTER_NAME, cluster_name.unwrap_or(""));
    labels.extend(transformed.labels.clone());
    labels
}
