//! What all parts of this provider share.

use std::sync::Arc;

use bowline_http::Seams;
use bowline_provider::EventOutbox;

use crate::activity_gate::ActivityGate;
use crate::api::{Api, Client, ClientError, Setting};
use crate::config::Config;
use crate::data_center::DataCenter;
use crate::metrics::TritonMetrics;
use crate::reload::Environment;
use crate::tags::TagReconciler;

pub(crate) struct Context {
    /// The cloud's name in the configuration.
    pub(crate) cloud: String,
    pub(crate) config: Config,
    pub(crate) setting: Setting,
    pub(crate) data_center: Arc<DataCenter>,
    pub(crate) tags: Arc<TagReconciler>,
    pub(crate) activity: ActivityGate,
    pub(crate) events: Arc<EventOutbox>,
    pub(crate) environment: Environment,
    pub(crate) metrics: TritonMetrics,
}

impl Context {
    pub(crate) fn new(
        config: Config,
        environment: &Environment,
        seams: &Seams,
        metrics: &TritonMetrics,
    ) -> Result<Arc<Self>, ClientError> {
        let setting = Setting::new(seams, config.calls.clone(), metrics);
        let api = Arc::new(Api::new(Client::new(&config.connection, &setting)?));
        let data_center = Arc::new(DataCenter::new(&config, api));
        let repairs = metrics.tag_repairs.clone();
        Ok(Arc::new(Self {
            cloud: seams.name.to_string(),
            config,
            setting,
            tags: Arc::new(TagReconciler::new(Arc::clone(&data_center), repairs)),
            data_center,
            activity: ActivityGate::default(),
            events: Arc::default(),
            environment: Arc::clone(environment),
            metrics: metrics.clone(),
        }))
    }
}
