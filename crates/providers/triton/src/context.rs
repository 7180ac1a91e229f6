//! What all parts of the cloud work with.

use std::sync::Arc;

use bowline_http::Surroundings;
use bowline_provider::EventOutbox;

use crate::api::{Api, Client, ClientError, Setting};
use crate::config::Config;
use crate::interest::ActivityGate;
use crate::metrics::TritonMetrics;
use crate::reload::Environment;
use crate::site::DataCenter;
use crate::tags::TagReconciler;

pub(crate) struct Context {
    /// The cloud's name, as its operator gave it.
    pub(crate) cloud: String,
    pub(crate) config: Config,
    pub(crate) setting: Setting,
    pub(crate) site: Arc<DataCenter>,
    pub(crate) keeper: Arc<TagReconciler>,
    pub(crate) interest: ActivityGate,
    pub(crate) news: Arc<EventOutbox>,
    pub(crate) environment: Environment,
    pub(crate) metrics: TritonMetrics,
}

impl Context {
    pub(crate) fn new(
        config: Config,
        environment: &Environment,
        surroundings: &Surroundings,
        metrics: &TritonMetrics,
    ) -> Result<Arc<Self>, ClientError> {
        let setting = Setting::new(surroundings, config.calls.clone(), metrics);
        let api = Arc::new(Api::new(Client::new(&config.connection, &setting)?));
        let site = Arc::new(DataCenter::new(&config, api));
        let repairs = metrics.tag_repairs.clone();
        Ok(Arc::new(Self {
            cloud: surroundings.name.to_string(),
            config,
            setting,
            keeper: Arc::new(TagReconciler::new(Arc::clone(&site), repairs)),
            site,
            interest: ActivityGate::default(),
            news: Arc::default(),
            environment: Arc::clone(environment),
            metrics: metrics.clone(),
        }))
    }
}
