//! The firewall rules of the account, listed once for Services that are reconciled together.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::api::{ApiError, FirewallRule};
use crate::data_center::DataCenter;

const AGE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct RuleCache(Mutex<Option<(Instant, Arc<Vec<FirewallRule>>)>>);

impl RuleCache {
    pub(crate) async fn all(
        &self,
        data_center: &DataCenter,
    ) -> Result<Arc<Vec<FirewallRule>>, ApiError> {
        let mut known = self.0.lock().await;
        if let Some((asked, rules)) = known.as_ref()
            && asked.elapsed() < AGE
        {
            return Ok(Arc::clone(rules));
        }
        let asked = Instant::now();
        let rules = Arc::new(data_center.api.firewall_rules().await?);
        *known = Some((asked, Arc::clone(&rules)));
        Ok(rules)
    }

    pub(crate) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}
