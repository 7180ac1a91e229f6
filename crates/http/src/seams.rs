//! What a provider is built with.

use bowline_core::CloudName;

use crate::{BaseUrl, CallMetrics, ClientBuilder, Clock, Connector, HttpClient, Random};

/// What a provider is built with: its seams, and where it stands among other clouds.
#[derive(Clone, Debug)]
pub struct Seams {
    /// What the operator calls this cloud; the provider's name where there is only one.
    pub name: CloudName,
    /// The network.
    pub connector: Connector,
    /// The time of day.
    pub clock: Clock,
    /// Jitter.
    pub random: Random,
    /// Where calls are counted; each provider registers its own.
    pub metrics: Option<CallMetrics>,
}

impl Seams {
    /// A client of the API at `base`, without credentials.
    pub fn client(&self, base: BaseUrl) -> ClientBuilder {
        HttpClient::builder(self.name.as_str(), base, self.connector.clone())
            .clock(self.clock.clone())
            .random(self.random.clone())
            .metrics(self.metrics.clone())
    }
}
