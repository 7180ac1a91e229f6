//! Health monitors.

use super::model::{Http, Monitor, Slot};
use super::{Pace, choice, exists, pools, unknown};
use crate::Cloudscale;
use crate::fields::Fields;
use crate::model::Cloud;
use crate::refusals::{OrRefusal, Refusal};
use crate::shelf::{Kept, Patchable, keep, owner};

const TYPES: [&str; 6] = ["ping", "tcp", "http", "https", "tls-hello", "udp-connect"];
const METHODS: [&str; 9] = [
    "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
];
const VERSIONS: [&str; 2] = ["1.0", "1.1"];
/// Seconds of a delay or timeout.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=300;
/// Checks of a threshold.
const CHECKS: std::ops::RangeInclusive<u64> = 1..=10;
/// The shortest delay between two checks by UDP.
const UDP_DELAY: u64 = 3;

impl Patchable for Monitor {
    const CHANGEABLE: &'static [&'static str] = &[
        "delay_s",
        "timeout_s",
        "up_threshold",
        "down_threshold",
        "http",
        "tags",
    ];

    fn set(&mut self, attribute: &str, fields: &Fields) -> OrRefusal {
        let mut changed = self.clone();
        changed.assign(attribute, fields)?;
        let version = |monitor: &Self| monitor.http.as_ref().map(|http| http.version.clone());
        if attribute == "http" && version(&changed) != version(self) {
            return Err(Refusal::field("http", "The version cannot be changed."));
        }
        changed.check()?;
        *self = changed;
        Ok(())
    }

    fn change(cloud: &mut Cloud, project: &str, id: &str, fields: &Fields) -> OrRefusal<bool> {
        let lenient = cloud.quirks.http_options_ignored;
        let monitor = Self::find(owner(cloud, project)?, id)?;
        match fields.only(Self::CHANGEABLE)? {
            None => Ok(false),
            Some("http") if fields.value("http").is_none() => Ok(false),
            Some("http") if lenient && monitor.http.is_none() => Ok(false),
            Some(attribute) => monitor.set(attribute, fields).map(|()| true),
        }
    }
}

impl Monitor {
    /// Gives one attribute a value that need not fit the others.
    pub(super) fn assign(&mut self, attribute: &str, fields: &Fields) -> OrRefusal {
        let number = |range, default| Ok(fields.number(attribute, range)?.unwrap_or(default));
        match attribute {
            "delay_s" => self.delay_s = number(SECONDS, 2)?,
            "timeout_s" => self.timeout_s = number(SECONDS, 1)?,
            "up_threshold" => self.up_threshold = number(CHECKS, 2)?,
            "down_threshold" => self.down_threshold = number(CHECKS, 3)?,
            "tags" => self.tags = fields.tags()?,
            "type" => {
                self.kind = choice(fields, "type", &TYPES)?;
                self.http = matches!(&*self.kind, "http" | "https").then(Http::default);
            }
            "http" => self.merge(fields)?,
            other => return Err(unknown(other)),
        }
        Ok(())
    }

    /// Takes over what is said about HTTP. An empty object or null says nothing.
    fn merge(&mut self, fields: &Fields) -> OrRefusal {
        let Some(value) = fields.value("http") else {
            return Ok(());
        };
        let given = Fields::within("http", value)?;
        if given.is_empty() {
            return Ok(());
        }
        let Some(http) = &mut self.http else {
            let message = format!("A monitor of type {} has no HTTP options.", self.kind);
            return Err(Refusal::field("http", message));
        };
        for key in given.keys() {
            match key {
                "expected_codes" => http.expected_codes = expected_codes(&given)?,
                "method" => http.method = choice(&given, "method", &METHODS)?,
                "version" => http.version = choice(&given, "version", &VERSIONS)?,
                "url_path" => http.url_path = url_path(&given)?,
                "host" => http.host = given.text("host")?.map(str::to_owned),
                other => return Err(unknown(other)),
            }
        }
        Ok(())
    }

    /// What must fit together.
    fn check(&self) -> OrRefusal {
        if self.timeout_s > self.delay_s {
            let message = "The timeout_s must not be greater than delay_s.";
            return Err(Refusal::field("timeout_s", message));
        }
        if self.kind == "udp-connect" && self.delay_s < UDP_DELAY {
            let message = format!("The delay_s of udp-connect must be at least {UDP_DELAY}.");
            return Err(Refusal::field("delay_s", message));
        }
        let host = |http: &Http| http.version == "1.0" && http.host.is_some();
        if self.http.as_ref().is_some_and(host) {
            let message = "The host argument can not be used with HTTP version 1.0.";
            return Err(Refusal::field("host", message));
        }
        Ok(())
    }
}

/// Single codes, or one range.
fn expected_codes(fields: &Fields) -> OrRefusal<Vec<String>> {
    let codes = fields.texts("expected_codes")?.unwrap_or_default();
    let code = |text: &str| text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    let range = |text: &str| {
        text.split_once('-')
            .is_some_and(|(a, b)| code(a) && code(b))
    };
    let valid = match &*codes {
        [] => false,
        [single] => code(single) || range(single),
        several => several.iter().all(|text| code(text)),
    };
    if valid {
        return Ok(codes);
    }
    let message = "Expect a list of status codes, or one range of them.";
    Err(Refusal::field("expected_codes", message))
}

fn url_path(fields: &Fields) -> OrRefusal<String> {
    let path = fields.required("url_path")?;
    if path.starts_with('/') {
        return Ok(path.to_owned());
    }
    Err(Refusal::field("url_path", "The path must begin with /."))
}

impl Cloudscale {
    pub(crate) fn create_monitor(
        &self,
        cloud: &mut Cloud,
        project: &str,
        fields: &Fields,
        pace: Pace,
    ) -> OrRefusal<String> {
        let now = self.now();
        let (pool, balancer) = pools::named(cloud, project, fields)?;
        let mut monitor = Monitor {
            uuid: self.uuid(cloud, fields, pace)?,
            created_at: now,
            pool: pool.clone(),
            balancer: balancer.clone(),
            delay_s: 0,
            timeout_s: 0,
            up_threshold: 0,
            down_threshold: 0,
            kind: String::new(),
            http: None,
            tags: fields.tags()?,
            knows_from: pace.end(now, cloud.timings.load_balancers.check),
        };
        for attribute in [
            "type",
            "delay_s",
            "timeout_s",
            "up_threshold",
            "down_threshold",
        ] {
            monitor.assign(attribute, fields)?;
        }
        if monitor.http.is_some() || !cloud.quirks.http_options_ignored {
            monitor.assign("http", fields)?;
        }
        monitor.check()?;
        let owner = cloud.projects.get(project);
        let twice = owner.is_some_and(|owner| owner.monitors.all().any(|m| m.pool == pool));
        let slot = Slot::Monitor { pool };
        if twice {
            return Err(exists(&slot));
        }
        self.admit(cloud, project, &balancer, Some(&slot), pace)?;
        Ok(keep(cloud, project, monitor))
    }

    pub(crate) fn delete_monitor(
        &self,
        cloud: &mut Cloud,
        project: &str,
        uuid: &str,
        pace: Pace,
    ) -> OrRefusal {
        let monitor = Monitor::take(cloud, project, uuid)?;
        let slot = Slot::Monitor { pool: monitor.pool };
        self.vacate(cloud, project, &monitor.balancer, [slot], pace);
        Ok(())
    }
}
