//! Listeners.

use ipnet::IpNet;

use super::model::{Listener, Slot};
use super::{Pace, choice, exists, pools, port, unknown};
use crate::Cloudscale;
use crate::fields::Fields;
use crate::model::Cloud;
use crate::refusals::{OrRefusal, Refusal};
use crate::shelf::{Kept, Patchable, keep};

const PROTOCOLS: [&str; 2] = ["tcp", "udp"];
/// Milliseconds of a timeout: at least something, at most 24 days, which fits 31 bits.
const TIMEOUTS: std::ops::RangeInclusive<u64> = 1..=2_147_483_647;
/// How long either side may be silent if nothing else is asked for.
const DATA_TIMEOUT: u64 = 50_000;
/// How long connecting to a member may take if nothing else is asked for.
const CONNECT_TIMEOUT: u64 = 5_000;

impl Listener {
    /// What it occupies of its load balancer.
    pub(super) fn slot(&self) -> Slot {
        Slot::Listener {
            protocol: self.protocol.clone(),
            port: self.protocol_port,
        }
    }
}

impl Patchable for Listener {
    const CHANGEABLE: &'static [&'static str] = &[
        "name",
        "allowed_cidrs",
        "timeout_client_data_ms",
        "timeout_member_connect_ms",
        "timeout_member_data_ms",
        "tags",
    ];

    fn set(&mut self, attribute: &str, fields: &Fields) -> OrRefusal {
        let timeout = |default| timeout(fields, attribute, default);
        match attribute {
            "name" => self.name = fields.name()?,
            "tags" => self.tags = fields.tags()?,
            "allowed_cidrs" => self.allowed_cidrs = allowed_cidrs(fields)?,
            "timeout_client_data_ms" => self.timeout_client_data_ms = timeout(DATA_TIMEOUT)?,
            "timeout_member_connect_ms" => {
                self.timeout_member_connect_ms = timeout(CONNECT_TIMEOUT)?;
            }
            "timeout_member_data_ms" => self.timeout_member_data_ms = timeout(DATA_TIMEOUT)?,
            "protocol" => self.protocol = choice(fields, "protocol", &PROTOCOLS)?,
            "protocol_port" => self.protocol_port = port(fields, "protocol_port")?,
            "pool" => self.pool = fields.text("pool")?.map(str::to_owned),
            other => return Err(unknown(other)),
        }
        Ok(())
    }
}

fn timeout(fields: &Fields, key: &str, default: u64) -> OrRefusal<u64> {
    Ok(fields.number(key, TIMEOUTS)?.unwrap_or(default))
}

/// Every one needs a prefix length; they stay as they are written.
fn allowed_cidrs(fields: &Fields) -> OrRefusal<Vec<String>> {
    let cidrs = fields.texts("allowed_cidrs")?.unwrap_or_default();
    let valid = |text: &String| text.parse::<IpNet>().is_ok_and(|cidr| cidr.trunc() == cidr);
    if cidrs.iter().all(valid) {
        return Ok(cidrs);
    }
    let message = "Enter a valid network address in CIDR notation.";
    Err(Refusal::field("allowed_cidrs", message))
}

impl Cloudscale {
    pub(crate) fn create_listener(
        &self,
        cloud: &mut Cloud,
        project: &str,
        fields: &Fields,
        pace: Pace,
    ) -> OrRefusal<String> {
        let now = self.now();
        // Only by hand can one be made that belongs to no pool.
        let loose = pace == Pace::Hand && fields.value("pool").is_none();
        let (pool, balancer) = if loose {
            (None, fields.required("load_balancer")?.to_owned())
        } else {
            let (pool, balancer) = pools::named(cloud, project, fields)?;
            (Some(pool), balancer)
        };
        let listener = Listener {
            uuid: self.uuid(cloud, fields, pace)?,
            name: fields.name()?,
            created_at: now,
            balancer: balancer.clone(),
            pool,
            protocol: choice(fields, "protocol", &PROTOCOLS)?,
            protocol_port: port(fields, "protocol_port")?,
            allowed_cidrs: allowed_cidrs(fields)?,
            timeout_client_data_ms: timeout(fields, "timeout_client_data_ms", DATA_TIMEOUT)?,
            timeout_member_connect_ms: timeout(
                fields,
                "timeout_member_connect_ms",
                CONNECT_TIMEOUT,
            )?,
            timeout_member_data_ms: timeout(fields, "timeout_member_data_ms", DATA_TIMEOUT)?,
            tags: fields.tags()?,
        };
        let slot = listener.slot();
        let same = |other: &Listener| other.balancer == balancer && other.slot() == slot;
        let owner = cloud.projects.get(project);
        if owner.is_some_and(|owner| owner.listeners.all().any(same)) {
            return Err(exists(&slot));
        }
        self.admit(cloud, project, &balancer, Some(&slot), pace)?;
        Ok(keep(cloud, project, listener))
    }

    pub(crate) fn delete_listener(
        &self,
        cloud: &mut Cloud,
        project: &str,
        uuid: &str,
        pace: Pace,
    ) -> OrRefusal {
        let listener = Listener::take(cloud, project, uuid)?;
        let slot = listener.slot();
        self.vacate(cloud, project, &listener.balancer, [slot], pace);
        Ok(())
    }
}
