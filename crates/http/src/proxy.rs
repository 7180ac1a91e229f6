//! Which proxy, if any, a connection goes through: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
//!
//! The rules are those of Go's programs, because the manifests in the field were written for them.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_core::Secret;
use http::HeaderValue;
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use thiserror::Error;
use url::Url;

/// Why a proxy variable cannot be used. The value is not shown: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProxyError {
    /// Not a URL, or one without a host.
    #[error("{variable} is not the URL of a proxy (want http://host:port)")]
    NotAUrl {
        /// The environment variable, or the setting.
        variable: &'static str,
    },
    /// A proxy protocol that is not spoken here.
    #[error("{variable} names a {scheme} proxy; only http and https proxies are supported")]
    Scheme {
        /// The environment variable, or the setting.
        variable: &'static str,
        /// What it asked for.
        scheme: String,
    },
}

/// Where a proxy listens and what it wants to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyUrl {
    uri: http::Uri,
    authorization: Option<Secret>,
}

impl ProxyUrl {
    /// The address of the proxy, without credentials.
    pub fn uri(&self) -> &http::Uri {
        &self.uri
    }

    /// The value for `Proxy-Authorization`, marked sensitive.
    pub fn authorization(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(self.authorization.as_ref()?.reveal()).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// What must not be printed about this proxy.
    pub fn secrets(&self) -> Vec<Secret> {
        self.authorization.iter().cloned().collect()
    }

    fn parse(variable: &'static str, text: &str) -> Result<Self, ProxyError> {
        let not_a_url = ProxyError::NotAUrl { variable };
        // `proxy.lan:3128` parses as a URL of the scheme `proxy.lan`: only `://` makes a scheme.
        let url = if text.contains("://") {
            Url::parse(text)
        } else {
            Url::parse(&format!("http://{text}"))
        }
        .map_err(|_| not_a_url.clone())?;
        let scheme = url.scheme();
        if !matches!(scheme, "http" | "https") {
            let scheme = scheme.to_owned();
            return Err(ProxyError::Scheme { variable, scheme });
        }
        let host = url.host_str().ok_or_else(|| not_a_url.clone())?;
        let port = url
            .port_or_known_default()
            .ok_or_else(|| not_a_url.clone())?;
        let uri = format!("{scheme}://{host}:{port}/")
            .parse()
            .map_err(|_| not_a_url)?;
        Ok(Self {
            uri,
            authorization: basic(&url),
        })
    }
}

fn basic(url: &Url) -> Option<Secret> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    Some(Secret::new(format!("Basic {}", STANDARD.encode(pair))))
}

/// The proxy configuration of a process. The default uses no proxy.
#[derive(Clone, Debug, Default)]
pub struct ProxyRules {
    http: Option<ProxyUrl>,
    https: Option<ProxyUrl>,
    except: Vec<Exception>,
}

/// One entry of `NO_PROXY`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Exception {
    Everything,
    Network(IpNet),
    Address(IpAddr, Option<u16>),
    /// `suffix` begins with a dot; `itself` says that the domain without the dot matches too.
    Domain {
        suffix: String,
        itself: bool,
        port: Option<u16>,
    },
}

impl ProxyRules {
    /// Reads the variables through `environment`. The upper-case name wins over the lower-case one.
    pub fn from_environment(
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ProxyError> {
        let any = |names: [&str; 2]| {
            let found = names
                .into_iter()
                .filter_map(&environment)
                .map(|value| value.trim().to_owned());
            found.into_iter().find(|value| !value.is_empty())
        };
        let parse = |variable, names| any(names).map(|text| ProxyUrl::parse(variable, &text));
        // In a CGI process `HTTP_PROXY` comes from a request header; Go refuses it, and so do we.
        let cgi = environment("REQUEST_METHOD").is_some_and(|method| !method.is_empty());
        let http = if cgi {
            None
        } else {
            parse("HTTP_PROXY", ["HTTP_PROXY", "http_proxy"])
        };
        let https = parse("HTTPS_PROXY", ["HTTPS_PROXY", "https_proxy"]);
        let except = any(["NO_PROXY", "no_proxy"]).unwrap_or_default();
        Ok(Self {
            http: http.transpose()?,
            https: https.transpose()?,
            except: except.split(',').filter_map(exception).collect(),
        })
    }

    /// Everything but loopback goes through the proxy at `url`; `setting` is where that was said.
    pub fn always(setting: &'static str, url: &str) -> Result<Self, ProxyError> {
        let proxy = ProxyUrl::parse(setting, url)?;
        Ok(Self {
            http: Some(proxy.clone()),
            https: Some(proxy),
            except: Vec::new(),
        })
    }

    /// The proxy for requests to `uri`; none means that they go directly.
    pub fn proxy_for_uri(&self, uri: &http::Uri) -> Option<&ProxyUrl> {
        let scheme = uri.scheme_str()?;
        let port = uri.port_u16().or(match scheme {
            "https" => Some(443),
            "http" => Some(80),
            _ => None,
        })?;
        self.choose(scheme, uri.host()?, port)
    }

    /// What must not be printed about these rules.
    pub fn secrets(&self) -> Vec<Secret> {
        let proxies = self.http.iter().chain(&self.https);
        proxies.flat_map(ProxyUrl::secrets).collect()
    }

    fn choose(&self, scheme: &str, host: &str, port: u16) -> Option<&ProxyUrl> {
        let proxy = match scheme {
            "https" => self.https.as_ref()?,
            "http" => self.http.as_ref()?,
            _ => return None,
        };
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_ascii_lowercase();
        let address: Option<IpAddr> = host
            .parse()
            .ok()
            .map(|address: IpAddr| address.to_canonical());
        if host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
            return None;
        }
        let excepted = self
            .except
            .iter()
            .any(|entry| entry.covers(&host, address, port));
        (!excepted).then_some(proxy)
    }
}

impl Exception {
    fn covers(&self, host: &str, address: Option<IpAddr>, port: u16) -> bool {
        let port_fits = |wanted: &Option<u16>| wanted.is_none_or(|wanted| wanted == port);
        match (self, address) {
            (Self::Everything, _) => true,
            (Self::Network(network), Some(address)) => network.contains(&address),
            (Self::Address(entry, wanted), Some(address)) => *entry == address && port_fits(wanted),
            (
                Self::Domain {
                    suffix,
                    itself,
                    port: wanted,
                },
                None,
            ) => {
                (host.ends_with(suffix.as_str()) || (*itself && host == &suffix[1..]))
                    && port_fits(wanted)
            }
            _ => false,
        }
    }
}

fn exception(entry: &str) -> Option<Exception> {
    let entry = entry.trim().to_ascii_lowercase();
    if entry == "*" {
        return Some(Exception::Everything);
    }
    if let Ok(network) = entry.parse() {
        return Some(Exception::Network(network));
    }
    let (host, port) = split_port(&entry)?;
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(Exception::Address(address.to_canonical(), port));
    }
    let host = host
        .strip_prefix('*')
        .filter(|rest| rest.starts_with('.'))
        .unwrap_or(host);
    let (itself, domain) = match host.strip_prefix('.') {
        Some(domain) => (false, domain),
        None => (true, host),
    };
    // Hosts of requests are in ASCII form already.
    let suffix = match url::Host::parse(domain) {
        Ok(url::Host::Domain(ascii)) if !domain.is_ascii() => format!(".{ascii}"),
        _ => format!(".{domain}"),
    };
    (suffix.len() > 1).then_some(Exception::Domain {
        suffix,
        itself,
        port,
    })
}

/// `host`, `host:port`, `[v6]:port`, `v6`. An entry without a host says nothing.
fn split_port(entry: &str) -> Option<(&str, Option<u16>)> {
    if entry.parse::<IpAddr>().is_ok() {
        return Some((entry, None));
    }
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (entry, None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn rules(variables: &[(&str, &str)]) -> Result<ProxyRules, ProxyError> {
        let map: BTreeMap<&str, &str> = variables.iter().copied().collect();
        ProxyRules::from_environment(|name| map.get(name).map(|value| (*value).to_owned()))
    }

    fn goes_through(variables: &[(&str, &str)], url: &str) -> Option<String> {
        let rules = rules(variables).unwrap();
        let uri = Url::parse(url).unwrap().as_str().parse().unwrap();
        let proxy = rules.proxy_for_uri(&uri);
        proxy.map(|proxy| proxy.uri().to_string())
    }

    #[test]
    fn the_scheme_chooses_the_variable_and_upper_case_wins() {
        let set = [
            ("HTTPS_PROXY", "http://secure.lan:3128"),
            ("https_proxy", "http://lower.lan"),
            ("http_proxy", "plain.lan:8080"),
        ];
        let through = |url| goes_through(&set, url);
        assert_eq!(
            through("https://api.example/").as_deref(),
            Some("http://secure.lan:3128/")
        );
        assert_eq!(
            through("http://api.example/").as_deref(),
            Some("http://plain.lan:8080/")
        );
        assert_eq!(goes_through(&[], "https://api.example/"), None);
        let blank = [("HTTPS_PROXY", " "), ("https_proxy", "https://lower.lan")];
        assert_eq!(
            goes_through(&blank, "https://api.example/").as_deref(),
            Some("https://lower.lan:443/")
        );
    }

    #[test]
    fn no_proxy_follows_the_rules_of_go() {
        // (NO_PROXY, URL, goes directly)
        let rows = [
            ("", "https://api.example/", false),
            ("*", "https://api.example/", true),
            ("x, *", "https://10.1.2.3/", true),
            ("example", "https://example/", true),
            ("example", "https://api.example/", true),
            ("example", "https://badexample/", false),
            (".example", "https://api.example/", true),
            (".example", "https://example/", false),
            ("*.example", "https://api.example/", true),
            ("*.example", "https://example/", false),
            ("API.Example", "https://api.EXAMPLE/", true),
            (" a , api.example ", "https://api.example/", true),
            ("api.example:443", "https://api.example/", true),
            ("api.example:6443", "https://api.example/", false),
            ("api.example:6443", "https://api.example:6443/", true),
            (":443", "https://api.example/", false),
            ("api.example:", "https://api.example:6443/", true),
            ("api.example:https", "https://api.example/", false),
            (".", "https://api.example/", false),
            ("bücher.example", "https://xn--bcher-kva.example/", true),
            (".bücher.example", "https://www.bücher.example/", true),
            ("10.0.0.0/8", "https://10.1.2.3/", true),
            ("10.0.0.0/8", "https://11.1.2.3/", false),
            ("10.0.0.0/8", "https://10.example/", false),
            ("10.1.2.3", "https://10.1.2.3/", true),
            ("10.1.2.3:80", "https://10.1.2.3/", false),
            ("2001:db8::/32", "https://[2001:db8::1]/", true),
            ("2001:db8::1", "https://[2001:db8::1]:6443/", true),
            ("10.1.2.3", "https://[::ffff:10.1.2.3]/", true),
            ("10.0.0.0/8", "https://[::ffff:10.1.2.3]/", true),
            ("[2001:db8::1]:443", "https://[2001:db8::1]/", true),
            ("[2001:db8::1]:443", "https://[2001:db8::1]:6443/", false),
            ("2.3", "https://10.1.2.3/", false),
            ("", "https://localhost:6443/", true),
            ("", "https://127.8.8.8/", true),
            ("", "https://[::1]/", true),
        ];
        for (except, url, direct) in rows {
            let set = [("HTTPS_PROXY", "http://p.lan:1"), ("no_proxy", except)];
            assert_eq!(
                goes_through(&set, url).is_none(),
                direct,
                "NO_PROXY={except} {url}"
            );
        }
    }

    #[test]
    fn credentials_become_a_basic_header_and_are_never_shown() {
        let rules = rules(&[("HTTPS_PROXY", "http://ann:p%40ss@p.lan:3128")]).unwrap();
        let uri = "https://api.example".parse().unwrap();
        let proxy = rules.proxy_for_uri(&uri).unwrap();
        let header = proxy.authorization().unwrap();
        assert_eq!(header.to_str().unwrap(), "Basic YW5uOnBAc3M=");
        assert!(header.is_sensitive());
        let shown = format!("{rules:?} {}", proxy.uri());
        assert!(!shown.contains("ss@") && !shown.contains("YW5u"), "{shown}");
    }

    #[test]
    fn what_is_not_a_proxy_is_refused_without_showing_it() {
        let error = rules(&[("HTTPS_PROXY", "http://user:hunter2@")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "HTTPS_PROXY is not the URL of a proxy (want http://host:port)"
        );
        let error = rules(&[("http_proxy", "socks5://p.lan:1080")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "HTTP_PROXY names a socks5 proxy; only http and https proxies are supported"
        );
    }

    #[test]
    fn a_proxy_can_be_for_everything() {
        let rules = ProxyRules::always("proxy-url", "http://p.lan:1").unwrap();
        let proxy = |uri: &str| rules.proxy_for_uri(&uri.parse().unwrap());
        assert!(proxy("https://10.0.0.2:50000").is_some());
        assert!(proxy("https://127.0.0.1:50000").is_none());
        let error = ProxyRules::always("proxy-url", "socks5://p.lan").unwrap_err();
        assert!(error.to_string().starts_with("proxy-url names a socks5"));
    }

    #[test]
    fn a_proxy_from_a_request_header_is_not_believed() {
        let set = [("HTTP_PROXY", "http://evil"), ("REQUEST_METHOD", "GET")];
        assert_eq!(goes_through(&set, "http://api.example/"), None);
    }
}
