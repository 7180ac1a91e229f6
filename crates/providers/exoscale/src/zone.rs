//! Which zone this is, and where its API is.
//!
//! The zone is configured, or the machine reports it: on a small CD-ROM that every instance has, or
//! at the metadata server, which only instances with a public address reach.

mod cdrom;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_core::{CloudError, error_chain};
use bowline_http::{BaseUrl, BaseUrlError, CallError, Connector, HttpClient, RetryPolicy, Route};
use http::HeaderValue;
use http::header::ACCEPT;
use thiserror::Error;
use tokio::time::timeout;
use url::Host;

use crate::api::{Api, Listing, Zone};
use crate::config::{Config, Endpoint};
use cdrom::CdromError;

/// Where instances find their CD-ROM.
pub(crate) const CDROM: &str = "/dev/disk/by-label/cidata";
/// Where instances find the metadata server.
pub(crate) const METADATA: &str = "http://metadata.exoscale.com";
const AVAILABILITY_ZONE: &str = "latest/meta-data/availability-zone";
/// A drive that hangs must not hold up the start.
const CDROM_LIMIT: Duration = Duration::from_secs(10);
/// The metadata server is next door; a minute is what the original waits.
const METADATA_LIMIT: Duration = Duration::from_secs(60);
const METADATA_REQUEST: Duration = Duration::from_secs(10);

#[derive(Debug, Error)]
pub enum ZoneError {
    #[error(
        "get metadata: no zone is configured (EXOSCALE_API_ZONE), and the machine tells none: \
         CD-ROM: {cdrom}; metadata server: {server}"
    )]
    Unknown { cdrom: String, server: String },
    #[error("could not create Exoscale client: get zone api endpoint")]
    List(#[source] CloudError),
    #[error(
        "could not create Exoscale client: get zone api endpoint: find zone: {zone:?} not found in \
         the list of zones ({known})"
    )]
    NotListed { zone: String, known: String },
    #[error(
        "could not create Exoscale client: get zone api endpoint: find zone: too many found for \
         {zone:?} in the list of zones"
    )]
    ListedTwice { zone: String },
    #[error("could not create Exoscale client: the endpoint of zone {zone:?} cannot be used")]
    Endpoint { zone: String, source: BaseUrlError },
    /// The endpoint of the zone is not encrypted: requests to it, and what they are signed with,
    /// could be read.
    #[error(
        "could not create Exoscale client: the list of zones gives zone {zone:?} an endpoint that is not https, which is \
         used only if the configured endpoint is http on loopback"
    )]
    Plain { zone: String },
}

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) cdrom: PathBuf,
    pub(crate) metadata: String,
    pub(crate) connector: Connector,
}

impl Machine {
    pub(crate) fn new(connector: &Connector) -> Self {
        Self {
            cdrom: CDROM.into(),
            metadata: METADATA.to_owned(),
            // A proxy would ask about its own machine.
            connector: connector.direct(),
        }
    }

    pub(crate) async fn zone(&self) -> Result<String, ZoneError> {
        let cdrom = match self.by_cdrom().await {
            Ok(zone) => return Ok(zone),
            Err(error) => error_chain(&error),
        };
        match self.by_server().await {
            Ok(zone) => Ok(zone),
            Err(server) => Err(ZoneError::Unknown { cdrom, server }),
        }
    }

    async fn by_cdrom(&self) -> Result<String, CdromError> {
        let path = self.cdrom.clone();
        let read = tokio::task::spawn_blocking(move || read_cdrom(&path));
        let in_time = timeout(CDROM_LIMIT, read).await;
        in_time
            .map_err(|_| CdromError::TooSlow)?
            .map_err(|_| CdromError::TooSlow)?
    }

    async fn by_server(&self) -> Result<String, String> {
        let base = BaseUrl::parse(&self.metadata).map_err(|error| error.to_string())?;
        let http = HttpClient::builder("exoscale-metadata", base, self.connector.clone())
            .header(ACCEPT, HeaderValue::from_static("*/*"))
            .retry(RetryPolicy::default())
            .request_timeout(METADATA_REQUEST)
            .call_deadline(METADATA_LIMIT)
            .build();
        let chain = |error: CallError| error_chain(&error);
        let reply = http.get(Route::new(AVAILABILITY_ZONE)).send().await;
        let reply = reply.map_err(chain)?;
        let status = reply.status();
        if status != 200 {
            return Err(format!("it answered {status}"));
        }
        let text = String::from_utf8_lossy(reply.bytes());
        let zone = text.trim();
        if is_zone(zone) {
            Ok(zone.to_owned())
        } else {
            let shown: String = zone.chars().take(40).collect();
            Err(format!("it answered {shown:?}, which is not a zone"))
        }
    }
}

fn read_cdrom(path: &Path) -> Result<String, CdromError> {
    let text = cdrom::meta_data(std::fs::File::open(path)?)?;
    let zone = availability_zone(&text).ok_or(CdromError::NoZone)?;
    if is_zone(zone) {
        Ok(zone.to_owned())
    } else {
        Err(CdromError::NoZone)
    }
}

/// The value of the first line `availability-zone: value`.
fn availability_zone(text: &str) -> Option<&str> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let mut zones = pairs.filter(|(key, _)| key.trim() == "availability-zone");
    zones.next().map(|(_, value)| value.trim())
}

/// Whether it looks like a zone: `^[a-z]{2}-[a-z]{2,4}-[0-9]$`. A machine's answer is checked more
/// than a person's setting: it may come from any server.
fn is_zone(text: &str) -> bool {
    let letters = |part: &str, least, most| {
        (least..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_lowercase())
    };
    let parts: Vec<&str> = text.split('-').collect();
    match parts[..] {
        [country, city, number] => {
            letters(country, 2, 2)
                && letters(city, 2, 4)
                && number.len() == 1
                && number.bytes().all(|b| b.is_ascii_digit())
        }
        _ => false,
    }
}

/// The zone: configured, or reported by the machine.
pub(crate) async fn find(config: &Config, machine: &Machine) -> Result<String, ZoneError> {
    match &config.zone {
        Some(zone) => Ok(zone.value.clone()),
        None => machine.zone().await,
    }
}

/// The root of the zone's API. Only a configured API is asked for it; `client` makes a client.
pub(crate) async fn endpoint(
    configured: &Endpoint,
    zone: &str,
    client: impl FnOnce(BaseUrl) -> HttpClient,
) -> Result<BaseUrl, ZoneError> {
    let (text, may_be_plain) = match configured {
        Endpoint::OfZone { environment } => {
            let text = format!("https://{environment}-{zone}.exoscale.com/v2");
            (text, false)
        }
        Endpoint::Listing(url) => {
            let api = Api::new(client(url.clone()));
            let zones = api.zones().await.map_err(ZoneError::List)?;
            (listed(&zones, zone)?, is_plain_loopback(url))
        }
    };
    let base = BaseUrl::parse(&text).map_err(|source| ZoneError::Endpoint {
        zone: zone.to_owned(),
        source,
    })?;
    if base.url().scheme() == "https" || may_be_plain {
        Ok(base)
    } else {
        Err(ZoneError::Plain {
            zone: zone.to_owned(),
        })
    }
}

/// Whether that is an API of this very machine without TLS: a simulator or a tunnel, whose zones
/// may be so as well.
fn is_plain_loopback(configured: &BaseUrl) -> bool {
    let url = configured.url();
    let is_here = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    };
    url.scheme() == "http" && is_here
}

/// The endpoint of the one zone of that name (or with that endpoint).
fn listed(zones: &Listing<Zone>, zone: &str) -> Result<String, ZoneError> {
    let matching = |it: &&Zone| it.name == zone || it.api_endpoint == zone;
    let mut found = zones.items.iter().filter(matching);
    let zone = zone.to_owned();
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one.api_endpoint.clone()),
        (Some(_), Some(_)) => Err(ZoneError::ListedTwice { zone }),
        (None, _) => {
            let names: Vec<&str> = zones.items.iter().map(|it| it.name.as_str()).collect();
            let known = names.join(", ");
            Err(ZoneError::NotListed { zone, known })
        }
    }
}

#[cfg(test)]
mod tests;
