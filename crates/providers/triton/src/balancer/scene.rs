//! Everything that is known about one Service and the cloud when its plan is made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind, Wish};
use futures::try_join;
use uuid::Uuid;

use super::Shared;
use super::naming::default_label;
use super::settings::Settings;
use crate::api::{Account, Network};
use crate::roll::Listing;

/// A list of machines of that age is as good as a new one: several Services are looked at together.
const LIST_AGE: Duration = Duration::from_secs(5);

/// One Service at one moment.
pub(crate) struct Scene<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) wish: &'a Wish,
    /// The uid of the cluster.
    pub(crate) cluster: &'a str,
    pub(crate) settings: Settings,
    /// The label of the Service's name: on nodes in mode `cns`, on the machines in mode `clb`.
    pub(crate) label: String,
    pub(crate) account: Account,
    pub(crate) networks: Arc<BTreeMap<Uuid, Network>>,
    /// All live machines of the account.
    pub(crate) listing: Arc<Listing>,
}

impl<'a> Scene<'a> {
    /// Reads what both modes need.
    pub(crate) async fn look(
        shared: &'a Arc<Shared>,
        wish: &'a Wish,
        settings: Settings,
    ) -> Result<Self, CloudError> {
        let Some(cluster) = wish.cluster_uid.as_deref() else {
            let why = "the uid of the cluster is not known";
            return Err(CloudError::new(CloudErrorKind::Unavailable, why));
        };
        let site = &shared.site;
        let (account, networks, listing) =
            try_join!(site.account(), site.networks(), site.roll.recent(LIST_AGE))?;
        let label = settings.cns_service.clone().unwrap_or_else(|| {
            default_label(
                shared.config.cns_label_style,
                &shared.cluster_name,
                &wish.service.key,
            )
        });
        Ok(Self {
            shared,
            wish,
            cluster,
            settings,
            label,
            account,
            networks,
            listing,
        })
    }
}
