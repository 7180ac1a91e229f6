//! The firewall rules of the account, listed once for all Services that are looked at together.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::CloudError;
use bowline_http::CachedRead;

use crate::api::FirewallRule;
use crate::site::DataCenter;

/// For how long a list is good: several Services are looked at together.
const AGE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Rules(CachedRead<Vec<FirewallRule>>);

impl Rules {
    pub(crate) async fn all(
        &self,
        site: &DataCenter,
    ) -> Result<Arc<Vec<FirewallRule>>, CloudError> {
        let read = async { Ok(site.api.firewall_rules().await?) };
        Ok(self.0.recent(AGE, read).await?.value)
    }

    pub(crate) fn forget(&self) {
        self.0.invalidate();
    }
}
