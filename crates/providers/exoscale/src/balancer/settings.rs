//! Reads and checks the annotations of a Service before any request to the cloud. An invalid value
//! is a fault of that setting, reported with its key, its value and what is allowed.

mod read;
pub mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bowline_core::{AnnotationReader, CLASS_PREFIX, Notice, Problem, Service, TAKE_OVER};
use uuid::Uuid;

use table::{
    CHECK_INTERVAL, CHECK_MODE, CHECK_PORT, CHECK_RETRIES, CHECK_SNI, CHECK_TIMEOUT, CHECK_URI,
    DESCRIPTION, EXTERNAL, ID, INSTANCE_POOL, LABELS, NAME, SERVICE_DESCRIPTION, SERVICE_NAME,
    SKS_CLUSTER, SKS_NODEPOOL, STRATEGY, TABLE,
};

/// The reason of events about settings that cannot be used.
pub(crate) const INVALID: &str = "InvalidLoadBalancerConfig";

const DEFAULT_INTERVAL: i64 = 10;
const DEFAULT_TIMEOUT: i64 = 5;
const DEFAULT_RETRIES: i64 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) id: Option<Uuid>,
    pub(crate) name: Option<String>,
    pub(crate) description: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) external: External,
    pub(crate) strategy: String,
    /// None unless the Service has exactly one port.
    pub(crate) service_name: Option<String>,
    /// Empty unless the Service has exactly one port.
    pub(crate) service_description: String,
    pub(crate) pool: PoolSetting,
    pub(crate) check: CheckSettings,
}

/// Whether somebody else manages the load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum External {
    No,
    Yes,
    /// The annotation is neither: nothing changes by it.
    Misread,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolSetting {
    pub(crate) id: Option<Uuid>,
    pub(crate) cluster: Option<String>,
    pub(crate) nodepool: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckSettings {
    pub(crate) mode: Option<String>,
    pub(crate) port: Option<u16>,
    /// Empty if none.
    pub(crate) uri: String,
    /// Empty if none.
    pub(crate) tls_sni: String,
    /// Seconds.
    pub(crate) interval: i64,
    /// Seconds.
    pub(crate) timeout: i64,
    pub(crate) retries: i64,
}

/// A setting that a person must fix before any request to the cloud.
pub(crate) fn invalid(message: impl Into<String>) -> Problem {
    Problem {
        reason: INVALID,
        message: message.into(),
    }
}

impl Settings {
    /// Reads all annotations. What cannot be used has its default, and a fault.
    pub(crate) fn read(service: &Service) -> (Self, Vec<Problem>) {
        let mut reader = TABLE.reader(service);
        let mut settings = Self {
            id: reader.value(ID, read::uuid),
            name: reader.value(NAME, read::text),
            description: reader.value(DESCRIPTION, read::text).unwrap_or_default(),
            labels: reader.value(LABELS, read::labels).unwrap_or_default(),
            external: external(service),
            strategy: reader
                .choice(STRATEGY)
                .unwrap_or(STRATEGY.default)
                .to_owned(),
            service_name: None,
            service_description: String::new(),
            pool: PoolSetting {
                id: reader.value(INSTANCE_POOL, read::uuid),
                cluster: reader.value(SKS_CLUSTER, read::text),
                nodepool: reader.value(SKS_NODEPOOL, read::text),
            },
            check: check(&mut reader),
        };
        // With several ports they do not count.
        if service.ports.len() == 1 {
            settings.service_name = reader.value(SERVICE_NAME, read::text);
            settings.service_description = reader
                .value(SERVICE_DESCRIPTION, read::text)
                .unwrap_or_default();
        }
        let PoolSetting {
            cluster, nodepool, ..
        } = &settings.pool;
        if nodepool.is_some() && cluster.is_none() {
            reader.fault(format!(
                "SKS node pool name specified without SKS cluster name: annotation {} needs {}",
                SKS_NODEPOOL.key, SKS_CLUSTER.key
            ));
        }
        let is_external = settings.external == External::Yes;
        if is_external && settings.name.is_none() && TABLE.value(service, ID).is_none() {
            reader.fault(nothing_to_attach_to());
        }
        if let Some(name) = settings.name.as_deref().filter(|_| !is_external)
            && is_anothers_name(name, &service.uid)
        {
            reader.fault(format!(
                "annotation {}: {name:?} is not allowed: that is how the load balancer of another Service is named",
                NAME.key
            ));
        }
        (settings, reader.problems(INVALID))
    }

    pub(crate) fn balancer_name(&self, service: &Service) -> String {
        let name = self.name.clone();
        name.unwrap_or_else(|| default_name(&service.uid))
    }
}

fn check(reader: &mut AnnotationReader<'_>) -> CheckSettings {
    let before = reader.faults.len();
    let port = reader.number(CHECK_PORT, read::number);
    let check = CheckSettings {
        mode: reader.choice(CHECK_MODE).map(str::to_owned),
        port: port.and_then(|port| u16::try_from(port).ok()),
        uri: reader.value(CHECK_URI, read::text).unwrap_or_default(),
        tls_sni: reader.value(CHECK_SNI, read::text).unwrap_or_default(),
        interval: reader
            .value(CHECK_INTERVAL, |text| read::seconds(text, 5, 300))
            .unwrap_or(DEFAULT_INTERVAL),
        timeout: reader
            .value(CHECK_TIMEOUT, |text| read::seconds(text, 2, 60))
            .unwrap_or(DEFAULT_TIMEOUT),
        retries: reader
            .number(CHECK_RETRIES, read::number)
            .unwrap_or(DEFAULT_RETRIES),
    };
    // What follows compares values that must be valid by themselves.
    if reader.faults.len() == before && check.interval < check.timeout {
        reader.fault(format!(
            "annotation {}: {} s is less than the timeout of {} s; allowed is {}",
            CHECK_INTERVAL.key, check.interval, check.timeout, CHECK_INTERVAL.allowed
        ));
    }
    let mode = check.mode.as_deref();
    if matches!(mode, Some("http" | "https")) && !check.uri.starts_with('/') {
        reader.fault_of(CHECK_URI, CHECK_URI.refusal(&check.uri));
    }
    if !check.tls_sni.is_empty() && mode != Some("https") {
        reader.fault_of(CHECK_SNI, CHECK_SNI.refusal(&check.tls_sni));
    }
    check
}

/// What the name of a load balancer begins with that nobody gave one; the uid of its Service
/// follows.
const DEFAULT_PREFIX: &str = "k8s-";

pub(crate) fn default_name(service_uid: &str) -> String {
    format!("{DEFAULT_PREFIX}{service_uid}")
}

pub(crate) fn uid_in_name(name: &str) -> Option<&str> {
    let uid = name.strip_prefix(DEFAULT_PREFIX)?;
    read::uuid(uid).map(|_| uid)
}

/// Whether that is the default name of another Service's load balancer.
fn is_anothers_name(name: &str, service_uid: &str) -> bool {
    uid_in_name(name).is_some_and(|uid| !uid.eq_ignore_ascii_case(service_uid))
}

/// The problem of a Service that is to be attached but names no load balancer.
pub(crate) fn nothing_to_attach_to() -> String {
    format!(
        "NLB instance marked as external in Service annotations, but no ID or name specified: annotation {} needs \
         {} or {}",
        EXTERNAL.key, ID.key, NAME.key
    )
}

pub(crate) fn external(service: &Service) -> External {
    match TABLE.value(service, EXTERNAL).map(str::trim) {
        None => External::No,
        Some(text) if text.eq_ignore_ascii_case("true") => External::Yes,
        Some(text) if text.eq_ignore_ascii_case("false") => External::No,
        Some(_) => External::Misread,
    }
}

/// The notice about a value that means nothing.
pub(crate) fn external_notice(service: &Service) -> Option<Notice> {
    let misread = external(service) == External::Misread;
    let text = TABLE.value(service, EXTERNAL).filter(|_| misread)?;
    Some(Notice {
        warning: true,
        reason: INVALID,
        message: format!(
            "annotation {}: {text:?} is not allowed and changes nothing; allowed is {}",
            EXTERNAL.key, EXTERNAL.allowed
        ),
    })
}

pub(crate) fn id_of(service: &Service) -> Option<Uuid> {
    read::uuid(TABLE.value(service, ID)?)
}

/// The load balancer that an annotation hands to this Service.
pub(crate) fn take_over(service: &Service) -> Option<Uuid> {
    read::uuid(service.annotation(TAKE_OVER)?)
}

/// Whether another Service may be one of ours: it has no class, or one that names a cloud of ours.
pub(crate) fn may_be_ours(service: &Service) -> bool {
    let class = service.class.as_deref();
    class.is_none_or(|class| class.starts_with(CLASS_PREFIX))
        && (service.is_load_balancer || service.has_finalizer())
}
