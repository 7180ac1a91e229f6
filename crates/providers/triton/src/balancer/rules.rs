//! The firewall rules of the account, listed once for all Services that are looked at together.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::api::{ApiError, FirewallRule};
use crate::site::DataCenter;

/// For how long a list is good: several Services are looked at together.
const AGE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Rules(Mutex<Option<(Instant, Arc<Vec<FirewallRule>>)>>);

impl Rules {
    pub(crate) async fn all(&self, site: &DataCenter) -> Result<Arc<Vec<FirewallRule>>, ApiError> {
        let mut known = self.0.lock().await;
        if let Some((asked, rules)) = known.as_ref()
            && asked.elapsed() < AGE
        {
            return Ok(Arc::clone(rules));
        }
        let asked = Instant::now();
        let rules = Arc::new(site.api.firewall_rules().await?);
        *known = Some((asked, Arc::clone(&rules)));
        Ok(rules)
    }

    pub(crate) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}
