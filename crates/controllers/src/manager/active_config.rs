//! The active configuration of a manager, and its replacement while the manager runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_core::{Cloud, CloudName};
use tokio::sync::watch;

use crate::clouds::resolver::CloudRules;
use crate::options::{Mode, Options};

/// The clouds of a manager, and what is configured about them and about its controllers. It never changes: another
/// one takes its place.
#[derive(Clone)]
pub struct ActiveConfig {
    /// Which one it is, counted from 1.
    pub generation: u64,
    /// The settings. Those of the process itself (serving, election, the way to the API server) are taken from the
    /// first one alone.
    pub options: Options,
    /// The clouds, in configured order.
    pub clouds: Vec<Arc<dyn Cloud>>,
    /// What is configured about clouds that is not for them.
    pub rules: CloudRules,
    /// What is new in it, for people.
    pub summary: String,
    /// What its clouds were called before: each former name, and the present one.
    pub renamed: BTreeMap<CloudName, CloudName>,
}

impl ActiveConfig {
    pub fn first(options: Options, clouds: Vec<Arc<dyn Cloud>>, rules: CloudRules) -> Self {
        Self {
            generation: 1,
            options,
            clouds,
            rules,
            summary: String::new(),
            renamed: BTreeMap::new(),
        }
    }

    /// A cloud that cannot distinguish clusters, which nobody allowed.
    pub fn untagged(&self) -> Option<&Arc<dyn Cloud>> {
        let mut clouds = self.clouds.iter();
        clouds.find(|cloud| !self.options.cloud.allow_untagged && !cloud.has_cluster_id())
    }

    /// Whether it only looks on.
    pub fn is_observing(&self) -> bool {
        self.options.controllers.mode == Mode::Observe
    }
}

/// The active configurations of a running manager: the present one, and notice of others. Clones see the same.
#[derive(Clone)]
pub struct ActiveConfigs {
    first: Arc<ActiveConfig>,
    present: watch::Receiver<Arc<ActiveConfig>>,
    refused: watch::Receiver<Option<Arc<str>>>,
}

/// Changes the active configuration of a running manager.
pub struct ActiveConfigChanger {
    present: watch::Sender<Arc<ActiveConfig>>,
    refused: watch::Sender<Option<Arc<str>>>,
}

/// What is heard about active configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadNotice {
    /// There is another one.
    Changed,
    /// Another one was tried, and is not used for this reason.
    Refused(Arc<str>),
}

impl ActiveConfigs {
    /// Line-ups that can be changed, beginning with this one.
    pub fn beginning_with(first: ActiveConfig) -> (ActiveConfigChanger, Self) {
        let first = Arc::new(first);
        let (present, seen) = watch::channel(first.clone());
        let (refused, refusals) = watch::channel(None);
        let changer = ActiveConfigChanger { present, refused };
        let active_configs = Self {
            first,
            present: seen,
            refused: refusals,
        };
        (changer, active_configs)
    }

    /// This one, for as long as the manager runs.
    pub fn only(active_config: ActiveConfig) -> Self {
        Self::beginning_with(active_config).1
    }

    pub fn first(&self) -> &Arc<ActiveConfig> {
        &self.first
    }

    pub fn present(&self) -> Arc<ActiveConfig> {
        self.present.borrow().clone()
    }

    /// The present one; [`notice`](Self::notice) reports later ones.
    pub fn take(&mut self) -> Arc<ActiveConfig> {
        self.present.borrow_and_update().clone()
    }

    /// Waits until something is to be heard that was not heard before.
    pub async fn notice(&mut self) -> ReloadNotice {
        tokio::select! {
            biased;
            Ok(()) = self.present.changed() => ReloadNotice::Changed,
            Ok(()) = self.refused.changed() => {
                let reason = self.refused.borrow_and_update().clone();
                ReloadNotice::Refused(reason.unwrap_or_default())
            }
            // Nobody can change anything any more.
            else => std::future::pending().await,
        }
    }
}

impl ActiveConfigChanger {
    pub fn present(&self) -> Arc<ActiveConfig> {
        self.present.borrow().clone()
    }

    /// Replaces the present one. What clouds were called before is not forgotten: whoever works
    /// with configurations may miss some.
    pub fn change(&self, mut active_config: ActiveConfig) {
        let mut renamed = self.present().renamed.clone();
        for now in renamed.values_mut() {
            if let Some(later) = active_config.renamed.get(now) {
                now.clone_from(later);
            }
        }
        renamed.append(&mut active_config.renamed);
        let has = |name: &CloudName| active_config.clouds.iter().any(|it| it.name() == name);
        renamed.retain(|before, now| !has(before) && has(now));
        active_config.renamed = renamed;
        self.present.send_replace(Arc::new(active_config));
    }

    /// Tells that the present one stays, and why.
    pub fn refuse(&self, reason: &str) {
        self.refused.send_replace(Some(reason.into()));
    }
}
