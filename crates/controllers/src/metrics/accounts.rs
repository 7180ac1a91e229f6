//! Whose account each cloud's credentials see, read when somebody scrapes the metrics.

use bowline_core::AccountState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::clouds::accounts::Accounts;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    cloud: String,
    state: &'static str,
}

#[derive(Debug)]
struct StateGauges(Accounts);

pub(super) fn register(registry: &mut Registry) -> Accounts {
    let accounts = Accounts::default();
    registry.register_collector(Box::new(StateGauges(accounts.clone())));
    accounts
}

impl Collector for StateGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let all = self.0.shown();
        if all.is_empty() {
            return Ok(());
        }
        let kind = ConstGauge::new(0_i64).metric_type();
        let help =
            "Whether the credentials of a cloud are proven to see the account of the cluster";
        let mut family = encoder.encode_descriptor("bowline_account_state", help, None, kind)?;
        for (cloud, shown) in all {
            for (state, name) in [
                (AccountState::Proven, "proven"),
                (AccountState::Unproven, "unproven"),
                (AccountState::Contradicted, "contradicted"),
            ] {
                let cloud = cloud.to_string();
                let labels = StateLabels { cloud, state: name };
                let value = ConstGauge::new(i64::from(shown == state));
                value.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
