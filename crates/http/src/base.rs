//! The root of a cloud's API, and how paths and links are joined to it.

use thiserror::Error;
use url::Url;

/// Why a text cannot be the root of an API. It is not quoted: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BaseUrlError {
    /// Not a URL.
    #[error("not a URL: {0}")]
    NotAUrl(#[from] url::ParseError),
    /// Not HTTP.
    #[error("the URL begins with {0}://, want http:// or https://")]
    Scheme(String),
    /// A user name or password in it.
    #[error("the URL holds credentials; they belong into a setting of their own")]
    Credentials,
    /// A query or fragment.
    #[error("the URL has a query or a fragment; want only scheme, host and path")]
    Query,
}

/// Why a link that a server sent is not followed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LinkError {
    /// Not a URL.
    #[error("the link is not a URL: {0}")]
    NotAUrl(#[from] url::ParseError),
    /// Another host, or from https to http: credentials must not go there.
    #[error("the link leads away from {ours} to {theirs}")]
    Elsewhere {
        /// Scheme, host and port of the configured API.
        ours: String,
        /// Those of the link.
        theirs: String,
    },
}

/// The root of an API: scheme, host and a path prefix, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    url: Url,
    /// What a reverse proxy puts in front of the path that the server itself knows.
    foreign_prefix: String,
}

impl BaseUrl {
    /// Takes `https://host[:port][/prefix][/]`.
    pub fn parse(text: &str) -> Result<Self, BaseUrlError> {
        let mut url = Url::parse(text.trim())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BaseUrlError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BaseUrlError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(BaseUrlError::Query);
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self {
            url,
            foreign_prefix: String::new(),
        })
    }

    /// Drops a last path segment that people add or leave out (`v1`).
    #[must_use]
    pub fn without_suffix(mut self, segment: &str) -> Self {
        let path = self.url.path().trim_end_matches('/');
        if let Some(rest) = path.strip_suffix(segment)
            && rest.ends_with('/')
        {
            let rest = rest.trim_end_matches('/').to_owned();
            self.url.set_path(&rest);
        }
        self
    }

    /// With the path that the server itself knows its API by (`rest/v0`). What stands before it is
    /// then known to be a reverse proxy's, and is put in front of the server's own links again.
    #[must_use]
    pub fn with_suffix(mut self, segments: &str) -> Self {
        let prefix = self.prefix().to_owned();
        let segments = segments.trim_matches('/');
        self.url.set_path(&format!("{prefix}/{segments}"));
        self.foreign_prefix = prefix;
        self
    }

    /// The URL itself, for configuration messages and proxy decisions.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The address of `path` (already escaped, without a slash at its start) with a query.
    pub(crate) fn join(&self, path: &str, query: &str) -> Result<http::Uri, http::Error> {
        let path = format!("{}/{path}", self.prefix());
        let target = if query.is_empty() {
            path
        } else {
            format!("{path}?{query}")
        };
        http::Uri::builder()
            .scheme(self.url.scheme())
            .authority(&self.url[url::Position::BeforeHost..url::Position::AfterPort])
            .path_and_query(target)
            .build()
    }

    /// Resolves a link that a server sent, against `from`. The host must stay the same; the port
    /// may change only together with a change from http to https.
    pub fn resolve(&self, from: &http::Uri, link: &str) -> Result<http::Uri, LinkError> {
        let from = Url::parse(&from.to_string())?;
        let to = from.join(link)?;
        let same_host = to.host() == self.url.host();
        let same_port = to.port_or_known_default() == from.port_or_known_default();
        let upgraded = from.scheme() == "http" && to.scheme() == "https";
        let elsewhere = || LinkError::Elsewhere {
            ours: origin(&self.url),
            theirs: origin(&to),
        };
        if !same_host || !(upgraded || (same_port && to.scheme() == from.scheme())) {
            return Err(elsewhere());
        }
        // Links bring no credentials of their own, and no fragment.
        let host = origin(&to);
        let target = &to[url::Position::BeforePath..url::Position::AfterQuery];
        let prefix = self.missing_prefix(to.path());
        format!("{host}{prefix}{target}")
            .parse()
            .map_err(|_| elsewhere())
    }

    /// The reverse proxy's prefix, if `path` is the server's own path without it.
    fn missing_prefix(&self, path: &str) -> &str {
        let own = self.prefix().strip_prefix(&self.foreign_prefix);
        let own = own.unwrap_or_default();
        let below = path
            .strip_prefix(own)
            .is_some_and(|rest| rest.starts_with('/'));
        if !own.is_empty() && below {
            &self.foreign_prefix
        } else {
            ""
        }
    }

    fn prefix(&self) -> &str {
        self.url.path().trim_end_matches('/')
    }
}

impl std::fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.url.as_str())
    }
}

/// Scheme, host and port, never credentials.
fn origin(url: &Url) -> String {
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    format!("{}://{host}", url.scheme())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words<const N: usize>(row: &str) -> [&str; N] {
        row.split(' ').collect::<Vec<_>>().try_into().unwrap()
    }

    #[test]
    fn paths_are_joined_behind_the_prefix() {
        for (root, spellings) in [
            ("https://api.cloudscale.ch", &["", "/", "/v1", "/v1/"][..]),
            ("http://127.0.0.1:18080/sim", &["", "/", "/v1/"]),
            ("http://[::1]/notv1", &[""]),
        ] {
            for end in spellings {
                let base = BaseUrl::parse(&format!("{root}{end}")).unwrap();
                let joined = base.without_suffix("v1").join("v1/servers", "");
                let wanted = format!("{root}/v1/servers");
                assert_eq!(joined.unwrap().to_string(), wanted, "{end}");
            }
        }
        let base = BaseUrl::parse("http://[::1]:80").unwrap();
        assert_eq!(base.to_string(), "http://[::1]/");
        let base = BaseUrl::parse("https://xo.example.net/prefix/").unwrap();
        assert_eq!(
            base.with_suffix("rest/v0")
                .join("vms", "limit=1")
                .unwrap()
                .to_string(),
            "https://xo.example.net/prefix/rest/v0/vms?limit=1"
        );
    }

    #[test]
    fn what_is_not_the_root_of_an_api_is_refused() {
        let rows = [
            (
                "api.cloudscale.ch",
                "not a URL: relative URL without a base",
            ),
            (
                "ftp://x/",
                "the URL begins with ftp://, want http:// or https://",
            ),
            (
                "https://u:hunter2@x/",
                "the URL holds credentials; they belong into a setting of their own",
            ),
            (
                "https://x/?a=b",
                "the URL has a query or a fragment; want only scheme, host and path",
            ),
        ];
        for (text, wanted) in rows {
            assert_eq!(BaseUrl::parse(text).unwrap_err().to_string(), wanted);
        }
    }

    #[test]
    fn the_prefix_of_a_reverse_proxy_is_put_in_front_of_the_servers_links() {
        let base = BaseUrl::parse("https://xo.lan/prefix").unwrap();
        let base = base.with_suffix("rest/v0");
        let from = "https://xo.lan/prefix/rest/v0/users/me".parse().unwrap();
        for (link, wanted) in [
            ("/rest/v0/users/7", "https://xo.lan/prefix/rest/v0/users/7"),
            ("/prefix/rest/v0/a?b", "https://xo.lan/prefix/rest/v0/a?b"),
            ("7", "https://xo.lan/prefix/rest/v0/users/7"),
            ("/rest/v01/a", "https://xo.lan/rest/v01/a"),
            ("/signin", "https://xo.lan/signin"),
        ] {
            assert_eq!(base.resolve(&from, link).unwrap().to_string(), wanted);
        }
    }

    #[test]
    fn links_are_followed_on_the_same_host_only() {
        for row in [
            "http://xo.lan/a /b?c=d → http://xo.lan/b?c=d",
            "http://xo.lan/a/b c → http://xo.lan/a/c",
            "http://xo.lan/a https://xo.lan/a → https://xo.lan/a",
            "http://xo.lan/a https://xo.lan:8443/a → https://xo.lan:8443/a",
            "https://xo.lan/a https://u:p@xo.lan/x#y → https://xo.lan/x",
            "https://xo.lan/a http://xo.lan/a refused http://xo.lan",
            "https://xo.lan/a https://xo.lan:444/ refused https://xo.lan:444",
            "https://xo.lan/a https://u:pw@evil.lan/ refused https://evil.lan",
            "https://xo.lan/a //evil.lan/ refused https://evil.lan",
        ] {
            let [from, link, verdict, wanted] = words(row);
            let base = BaseUrl::parse(from).unwrap();
            let got = base.resolve(&from.parse().unwrap(), link);
            match (got, verdict) {
                (Ok(got), "→") => assert_eq!(got.to_string(), wanted),
                (Err(LinkError::Elsewhere { theirs, .. }), "refused") => assert_eq!(theirs, wanted),
                (got, _) => panic!("{row}: {got:?}"),
            }
        }
    }
}
