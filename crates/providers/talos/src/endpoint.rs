//! Where the Talos API is: what people write, and what is dialled.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use thiserror::Error;

/// Where machines listen.
pub const PORT: u16 = 50000;
/// Where a front end listens that is named by a URL.
const HTTPS_PORT: u16 = 443;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    host: String,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is no endpoint: {reason}")]
pub struct EndpointError {
    text: String,
    reason: &'static str,
}

impl Endpoint {
    /// Reads an address, a host name, either with a port, or a URL. Without a port it is [`PORT`],
    /// or that of HTTPS where the text is a URL of it.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let wrong = |reason| EndpointError {
            text: text.to_owned(),
            reason,
        };
        let (authority, port) = match text.split_once("://") {
            None => (text, PORT),
            Some((scheme, rest)) => {
                let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
                let host = authority.rsplit_once('@').map_or(authority, |(_, it)| it);
                let secure = scheme.eq_ignore_ascii_case("https");
                (host, if secure { HTTPS_PORT } else { PORT })
            }
        };
        let (host, port_text) =
            split(authority).ok_or_else(|| wrong("its brackets do not match"))?;
        let port = match port_text {
            None => port,
            Some(text) => text
                .parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or_else(|| wrong("its port is not a number from 1 to 65535"))?,
        };
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        let endpoint = Self {
            host: host.to_owned(),
            port,
        };
        match endpoint.to_string().parse::<http::uri::Authority>() {
            Ok(_) => Ok(endpoint),
            Err(_) => Err(wrong("its host is neither a name nor an address")),
        }
    }

    pub fn of(address: IpAddr) -> Self {
        Self {
            host: address.to_string(),
            port: PORT,
        }
    }

    /// Its address as a URI: of a call's origin, or to connect to.
    pub fn uri(&self) -> Uri {
        // Checked when it was made.
        format!("https://{self}").parse().unwrap_or_default()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

/// The host without brackets, and the text of the port. None if brackets do not match.
fn split(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    // Several colons are an address of IPv6, and none of them stands before a port.
    match authority.split_once(':') {
        Some((host, port)) if !port.contains(':') => Some((host, Some(port))),
        _ => Some((authority, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_dialled_where_the_original_dials_it() {
        for (text, dialled) in [
            ("10.0.0.2", "10.0.0.2:50000"),
            ("2001:db8::8", "[2001:db8::8]:50000"),
            ("[2001:db8::8]", "[2001:db8::8]:50000"),
            ("[2001:db8::8]:51000", "[2001:db8::8]:51000"),
            ("cp.example", "cp.example:50000"),
            ("cp.example:111", "cp.example:111"),
            ("talos.default", "talos.default:50000"),
            ("https://omni.example", "omni.example:443"),
            ("https://omni.example/", "omni.example:443"),
            ("https://omni.example:8443/a?b", "omni.example:8443"),
            ("https://[2001:db8::8]", "[2001:db8::8]:443"),
            ("http://10.0.0.2", "10.0.0.2:50000"),
            ("http://10.0.0.2:51000", "10.0.0.2:51000"),
            ("grpc://someone@cp.example", "cp.example:50000"),
        ] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!(endpoint.to_string(), dialled, "{text}");
            assert_eq!(endpoint.uri().to_string(), format!("https://{dialled}/"));
        }
    }

    #[test]
    fn what_is_no_endpoint_is_said_to_be_none() {
        for (text, words) in [
            ("", "no host"),
            (":50000", "no host"),
            ("https://", "no host"),
            ("[2001:db8::8", "brackets"),
            ("[2001:db8::8]50000", "brackets"),
            ("10.0.0.2:", "port"),
            ("10.0.0.2:70000", "port"),
            ("10.0.0.2:0", "port"),
            (" 10.0.0.3", "neither a name"),
        ] {
            let error = Endpoint::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_machine_is_an_endpoint_by_its_address() {
        for (address, dialled) in [
            ("10.0.0.2", "10.0.0.2:50000"),
            ("fd00::2", "[fd00::2]:50000"),
        ] {
            let endpoint = Endpoint::of(address.parse().unwrap());
            assert_eq!(endpoint.to_string(), dialled);
            assert_eq!(Endpoint::parse(dialled).unwrap(), endpoint);
        }
    }
}
