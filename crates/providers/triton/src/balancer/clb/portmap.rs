//! The port map of a load balancer machine: one designation for each port. Pure.
//!
//! The appliance drops what it cannot read without telling anybody, and a port with it. So nothing
//! is written that is not read back here, by the appliance's own rules, as what was meant.

#[cfg(test)]
mod tests;

use std::fmt;

use bowline_core::{Problem, Protocol, Service, ServicePort};

use crate::balancer::settings::{BalancingProtocol, Check as CheckSetting, ClbSettings};

/// What the appliance accepts as a port: the last one is refused.
const PORTS: std::ops::RangeInclusive<u16> = 1..=65534;
/// Successes or failures in a row that change what is thought of a backend.
const TRIES: std::ops::RangeInclusive<u16> = 1..=1000;
/// What kube-proxy answers at the Service's health check port.
const LOCAL_PATH: &str = "/healthz";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Treatment {
    Tcp,
    /// Bytes, with a header that names their source.
    TcpProxy,
    Http,
    /// TLS ends here and begins again; the backend's certificate is verified.
    Https,
    HttpsInsecure,
    HttpsHttp,
}

const TREATMENTS: [(Treatment, &str); 6] = [
    (Treatment::Tcp, "tcp"),
    (Treatment::TcpProxy, "tcp-proxy-v2"),
    (Treatment::Http, "http"),
    (Treatment::Https, "https"),
    (Treatment::HttpsInsecure, "https+insecure"),
    (Treatment::HttpsHttp, "https-http"),
];

impl Treatment {
    pub(crate) fn as_str(self) -> &'static str {
        let row = TREATMENTS.iter().find(|row| row.0 == self);
        row.map_or("tcp", |row| row.1)
    }

    /// As the appliance reads it: letters of any case.
    fn read(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        TREATMENTS.iter().find(|row| row.1 == text).map(|row| row.0)
    }

    fn of(protocol: BalancingProtocol, reports_sources: bool) -> Self {
        match protocol {
            BalancingProtocol::Tcp if reports_sources => Self::TcpProxy,
            BalancingProtocol::Tcp => Self::Tcp,
            BalancingProtocol::Http => Self::Http,
            BalancingProtocol::Https => Self::Https,
            BalancingProtocol::HttpsInsecure => Self::HttpsInsecure,
            BalancingProtocol::HttpsHttp => Self::HttpsHttp,
        }
    }
}

/// How a backend is checked: what is not given is the appliance's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Check {
    /// What is asked for, by HTTP; none: a connection is enough.
    pub(crate) path: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) rise: Option<u16>,
    pub(crate) fall: Option<u16>,
}

impl Check {
    /// The health check of a Service's backends, if an annotation sets one.
    fn of(service: &Service, setting: &CheckSetting) -> Option<Self> {
        match setting {
            CheckSetting::Off => None,
            CheckSetting::Automatic => service.local_health_check_port().map(|port| Self {
                path: Some(LOCAL_PATH.to_owned()),
                port: Some(port),
                ..Self::default()
            }),
            CheckSetting::Given {
                path,
                port,
                rise,
                fall,
            } => Some(Self {
                path: path.clone(),
                port: *port,
                rise: *rise,
                fall: *fall,
            }),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        let fresh = match key {
            "path" => {
                let path = is_path(value).then(|| value.to_owned())?;
                self.path.replace(path).is_none()
            }
            "port" => self.port.replace(number(value, &PORTS)?).is_none(),
            "rise" => self.rise.replace(number(value, &TRIES)?).is_none(),
            "fall" => self.fall.replace(number(value, &TRIES)?).is_none(),
            _ => false,
        };
        fresh.then_some(())
    }

    /// As the appliance reads it, without the braces.
    fn read(text: &str) -> Option<Self> {
        let mut check = Self::default();
        for item in text.split(',') {
            let (key, value) = item.split_once(':')?;
            check.set(if key == "check" { "path" } else { key }, value)?;
        }
        Some(check)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = [
            self.path.as_ref().map(|it| format!("check:{it}")),
            self.port.map(|it| format!("port:{it}")),
            self.rise.map(|it| format!("rise:{it}")),
            self.fall.map(|it| format!("fall:{it}")),
        ];
        let items: Vec<String> = items.into_iter().flatten().collect();
        if items.is_empty() {
            // Empty braces do not parse.
            return Ok(());
        }
        write!(f, "{{{}}}", items.join(","))
    }
}

fn number(text: &str, range: &std::ops::RangeInclusive<u16>) -> Option<u16> {
    let plain = text.bytes().all(|it| it.is_ascii_digit());
    let number = text.parse().ok().filter(|_| plain)?;
    range.contains(&number).then_some(number)
}

fn is_path(text: &str) -> bool {
    let letter = |it: u8| it.is_ascii_alphanumeric() || b"._~/%?=&+-".contains(&it);
    text.starts_with('/') && text.bytes().all(letter)
}

fn is_name(text: &str) -> bool {
    let letter = |it: u8| it.is_ascii_alphanumeric() || b"._-".contains(&it);
    !text.is_empty() && text.bytes().all(letter)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) treatment: Treatment,
    pub(crate) listen: u16,
    pub(crate) backend: String,
    /// Their port; none: from DNS.
    pub(crate) port: Option<u16>,
    pub(crate) check: Option<Check>,
}

impl Entry {
    /// As the appliance reads it; none if it would drop it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (treatment, rest) = text.split_once("://")?;
        let treatment = Treatment::read(treatment)?;
        let (rest, check) = match rest.split_once('{') {
            Some((rest, braces)) => (rest, Some(Check::read(braces.strip_suffix('}')?)?)),
            None => (rest, None),
        };
        let mut parts = rest.split(':');
        let listen = number(parts.next()?, &PORTS)?;
        let backend = parts.next().filter(|name| is_name(name))?.to_owned();
        let port = match parts.next() {
            Some(text) => Some(number(text, &PORTS)?),
            None => None,
        };
        parts.next().is_none().then_some(Self {
            treatment,
            listen,
            backend,
            port,
            check,
        })
    }

    /// Whether the appliance would read it as it is meant.
    fn is_readable(&self) -> bool {
        Self::parse(&self.to_string()).as_ref() == Some(self)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, listen, backend) = (self.treatment.as_str(), self.listen, &self.backend);
        write!(f, "{kind}://{listen}:{backend}")?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        match &self.check {
            Some(check) => check.fmt(f),
            None => Ok(()),
        }
    }
}

/// The designations of a port map: separated by comma, space or line feed outside braces.
pub(crate) fn split(map: &str) -> Vec<&str> {
    let mut inside = false;
    let parts = map.split(move |letter| {
        inside = (inside || letter == '{') && letter != '}';
        !inside && matches!(letter, ',' | ' ' | '\n')
    });
    parts.filter(|part| !part.is_empty()).collect()
}

pub(crate) fn join(entries: &[Entry]) -> String {
    let texts: Vec<String> = entries.iter().map(ToString::to_string).collect();
    texts.join(",")
}

/// The designations of a Service's ports, ascending, or everything that stands against them: there
/// is no load balancer for some of the ports only.
pub(crate) fn entries(
    service: &Service,
    settings: &ClbSettings,
    backend: &str,
) -> Result<Vec<Entry>, Vec<Problem>> {
    let mut problems = Vec::new();
    let check = Check::of(service, &settings.check);
    let mut ports: Vec<&ServicePort> = service.ports.iter().collect();
    ports.sort_by_key(|port| port.port);
    let mut entries = Vec::new();
    for port in ports {
        let protocol = settings.protocol_of(port.port);
        let entry = Entry {
            treatment: Treatment::of(protocol, settings.proxy_protocol),
            listen: port.port,
            backend: backend.to_owned(),
            port: Some(port.node_port),
            check: check.clone(),
        };
        match problem(port, &entry) {
            Some(problem) => problems.push(problem),
            None => entries.push(entry),
        }
    }
    if problems.is_empty() {
        Ok(entries)
    } else {
        Err(problems)
    }
}

fn problem(port: &ServicePort, entry: &Entry) -> Option<Problem> {
    let ServicePort {
        port: number,
        protocol,
        node_port,
        ..
    } = port;
    let (reason, message) = if *protocol != Protocol::Tcp {
        let text =
            format!("port {number}: load balancer machines carry TCP only, and not {protocol}");
        ("UnsupportedProtocol", text)
    } else if *node_port == 0 {
        let text = format!(
            "port {number}: it has no node port, and load balancer machines send to node ports; \
             spec.allocateLoadBalancerNodePorts must not be false"
        );
        ("NodePortsRequired", text)
    } else if entry.is_readable() {
        return None;
    } else {
        let text = format!("port {number}: a load balancer machine would not understand {entry}");
        ("UnsupportedPort", text)
    };
    Some(Problem { reason, message })
}
