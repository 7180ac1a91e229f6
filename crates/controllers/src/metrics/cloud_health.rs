//! How each cloud is, read when somebody scrapes the metrics.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::clouds::cloud_health::{CloudCondition, CloudHealth};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CloudLabels {
    cloud: String,
}

/// Asked at every reading, so that it is never older than that.
#[derive(Debug)]
struct ReadyGauges(CloudHealth);

pub(super) fn register(registry: &mut Registry) -> CloudHealth {
    let cloud_health = CloudHealth::default();
    registry.register_collector(Box::new(ReadyGauges(cloud_health.clone())));
    cloud_health
}

impl Collector for ReadyGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let all = self.0.all();
        if all.is_empty() {
            return Ok(());
        }
        let kind = ConstGauge::new(0_i64).metric_type();
        let help = "Whether a cloud has what it needs and calls to it succeed";
        let mut family = encoder.encode_descriptor("bowline_cloud_ready", help, None, kind)?;
        for (cloud, condition) in all {
            let cloud = cloud.to_string();
            let ready = i64::from(condition == CloudCondition::Well);
            let labels = CloudLabels { cloud };
            ConstGauge::new(ready).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
