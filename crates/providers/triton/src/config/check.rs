//! From texts to values.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Origin, Secret, Setting, is_label_value, parse_duration};
use bowline_http::BaseUrl;
use uuid::Uuid;

use super::file::FileContent;
use super::sources::{Finder, Found, Given, Source};
use super::table::{self, Row};
use super::{
    Authorities, BalancerMode, CallConfig, Config, ConfigError, ConfigErrors, Connection,
    LabelStyle, LoadBalancerConfig, MetricsConfig, MetricsMode, NodeConfig, RouteConfig,
};
use crate::keys::{KeyId, PrivateKey};
use crate::signature::Owner;

/// The longest name of a cluster: names of load balancer machines hold it and must fit 63
/// characters.
const LONGEST_CLUSTER_NAME: usize = 40;
/// The longest time that makes sense for anything here.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Config {
    pub fn read(given: &Given<'_>) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let file = FileContent::read(given.file.unwrap_or_default()).unwrap_or_else(|reason| {
            errors.push(ConfigError::File { reason });
            FileContent::default()
        });
        if file.profiles {
            return Err(ConfigErrors(vec![ConfigError::Profiles]));
        }
        let mut checker = Checker {
            given,
            errors,
            finder: Finder { given, file: &file },
        };
        let datacenter = checker.label(&table::DATACENTER);
        let region = checker.label(&table::REGION);
        let zone = checker.label(&table::ZONE);
        let connection = checker.connection();
        let calls = checker.calls();
        let cluster_name = checker.cluster_name();
        let changefeed = checker.choice(&table::CHANGEFEED, &[("auto", true), ("off", false)]);
        let resync = checker.duration(&table::RESYNC, Duration::from_secs(60));
        let nodes = checker.nodes();
        let load_balancer = checker.load_balancer();
        let routes = RouteConfig {
            enabled: checker.boolean(&table::ROUTES_ENABLED, false),
            networks: checker.list(&table::ROUTES_NETWORKS),
        };
        let metrics = checker.metrics();
        match (connection, checker.errors) {
            (Some(connection), errors) if errors.is_empty() => Ok(Self {
                connection,
                datacenter,
                region,
                zone,
                calls,
                cluster_name,
                changefeed: changefeed.unwrap_or(true),
                resync,
                nodes,
                load_balancer,
                routes,
                metrics,
                warnings: file.warnings,
            }),
            (_, errors) => Err(ConfigErrors(errors)),
        }
    }
}

struct Checker<'a> {
    given: &'a Given<'a>,
    finder: Finder<'a>,
    errors: Vec<ConfigError>,
}

impl Checker<'_> {
    fn label(&mut self, row: &Row) -> Option<String> {
        let found = self.finder.find(row)?;
        self.checked(row, &found, |text| {
            is_label_value(text).then(|| text.to_owned())
        })
    }

    fn connection(&mut self) -> Option<Connection> {
        let endpoint = self.endpoint();
        let account = self.login(&table::ACCOUNT);
        if account.is_none() && self.finder.find(&table::ACCOUNT).is_none() {
            self.missing("the account", &[&table::ACCOUNT]);
        }
        let (user, act_as) = (self.login(&table::USER), self.login(&table::ACT_AS));
        if let (Some(user), Some(act_as)) = (
            self.finder.find(&table::USER),
            self.finder.find(&table::ACT_AS),
        ) {
            let (user, act_as) = (user.name, act_as.name);
            self.errors.push(ConfigError::UserAndActAs { user, act_as });
        }
        let key = self.key();
        let authorities = self.authorities();
        let roles = self.list(&table::ROLES);
        let insecure = self.insecure();
        let (key, key_text) = key?;
        Some(Connection {
            endpoint: endpoint?,
            owner: Owner {
                account: account?,
                user,
            },
            act_as,
            roles,
            key,
            key_text,
            insecure,
            authorities,
        })
    }

    fn endpoint(&mut self) -> Option<BaseUrl> {
        let Some(found) = self.finder.find(&table::ENDPOINT) else {
            self.missing("the URL of CloudAPI", &[&table::ENDPOINT]);
            return None;
        };
        self.url(&found)
    }

    fn url(&mut self, found: &Found) -> Option<BaseUrl> {
        match BaseUrl::parse(&found.text) {
            Ok(url) => Some(url),
            Err(error) => {
                self.errors.push(ConfigError::Url {
                    origin: found.name.clone(),
                    reason: error.to_string(),
                });
                None
            }
        }
    }

    /// A login stands in paths and in key ids.
    fn login(&mut self, row: &Row) -> Option<String> {
        let found = self.finder.find(row)?;
        self.checked(row, &found, |text| {
            let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'/' | b'"' | b'?' | b'#');
            let fits = text.bytes().all(plain) && Uuid::try_parse(text).is_err() && text != "my";
            fits.then(|| text.to_owned())
        })
    }

    fn key(&mut self) -> Option<(Arc<PrivateKey>, Secret)> {
        let (text, origin) = self.key_text()?;
        let passphrase = self.finder.find(&table::KEY_PASSPHRASE);
        let passphrase = passphrase.as_ref().map(|found| found.text.as_str());
        let key = match PrivateKey::parse(&text, passphrase) {
            Ok(key) => Arc::new(key),
            Err(source) => {
                self.errors.push(ConfigError::Key { origin, source });
                return None;
            }
        };
        if let Some(found) = self.finder.find(&table::KEY_ID) {
            match KeyId::parse(&found.text) {
                Ok(id) if id.is_of(key.fingerprint()) => {}
                Ok(id) => self.errors.push(ConfigError::OtherKey {
                    origin: found.name,
                    configured: id.to_string(),
                    key_origin: origin,
                    key: key.fingerprint().to_string(),
                }),
                Err(source) => {
                    let origin = found.name;
                    self.errors.push(ConfigError::KeyId { origin, source });
                }
            }
        }
        Some((key, Secret::new(text)))
    }

    /// The text of the key and where it was given. A text wins over a file.
    fn key_text(&mut self) -> Option<(String, String)> {
        if let Some(found) = self.finder.find(&table::PRIVATE_KEY) {
            let may_be_path =
                found.source == Source::Environment && found.key.ends_with("_KEY_MATERIAL");
            if may_be_path
                && !found.text.contains(['\n', '\r'])
                && let Ok(text) = (self.given.read)(Path::new(&found.text))
            {
                return Some((text, format!("{} ({})", found.name, found.text)));
            }
            return Some((found.text.replace("\\n", "\n"), found.name));
        }
        let Some(found) = self.finder.find(&table::PRIVATE_KEY_FILE) else {
            self.missing(
                "the private key",
                &[&table::PRIVATE_KEY, &table::PRIVATE_KEY_FILE],
            );
            return None;
        };
        let text = self.named_file(&found)?;
        Some((text, format!("{} ({})", found.name, found.text)))
    }

    fn named_file(&mut self, found: &Found) -> Option<String> {
        match (self.given.read)(Path::new(&found.text)) {
            Ok(text) => Some(text),
            Err(error) => {
                self.errors.push(ConfigError::Unreadable {
                    origin: found.name.clone(),
                    path: found.text.clone(),
                    reason: error.to_string(),
                });
                None
            }
        }
    }

    fn authorities(&mut self) -> Option<Authorities> {
        let found = self.finder.find(&table::CA_FILE)?;
        // The Secret holds the certificates themselves: what it names would be no file of ours.
        let pem = if found.source == Source::Secret {
            found.text
        } else {
            self.named_file(&found)?
        };
        let origin = found.name;
        Some(Authorities { origin, pem })
    }

    fn insecure(&mut self) -> bool {
        let row = &table::TLS_INSECURE;
        let Some(found) = self.finder.find(row) else {
            return false;
        };
        match found.source {
            Source::Environment if table::ANYTHING_IS_TRUE.contains(&found.key.as_str()) => true,
            // As the official tools read it.
            Source::Environment => !matches!(found.text.as_str(), "0" | "false" | "no"),
            _ => self.checked(row, &found, boolean).unwrap_or(false),
        }
    }

    fn calls(&mut self) -> CallConfig {
        let version = self.finder.find(&table::API_VERSION);
        let version = version.and_then(|found| {
            self.checked(&table::API_VERSION, &found, |text| {
                let plain = |b: u8| b.is_ascii_graphic() || b == b' ';
                text.bytes().all(plain).then(|| text.to_owned())
            })
        });
        CallConfig {
            api_version: version.unwrap_or_else(|| "~9||~8".to_owned()),
            request_timeout: self.duration(&table::REQUEST_TIMEOUT, Duration::from_secs(60)),
            qps: self.number(&table::QPS, 5, 1..=1000),
            burst: self.number(&table::BURST, 15, 1..=1000),
            sign_request_target: self.boolean(&table::SIGN_REQUEST_TARGET, true),
        }
    }

    fn cluster_name(&mut self) -> String {
        let row = &table::CLUSTER_NAME;
        let found = self.finder.find(row).unwrap_or_else(|| Found {
            text: self.given.cluster_name.to_owned(),
            source: Source::Flag,
            name: "--cluster-name".to_owned(),
            key: "cluster-name".to_owned(),
        });
        let name = self.checked(row, &found, |text| {
            let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            let fits = (1..=LONGEST_CLUSTER_NAME).contains(&text.len())
                && text.bytes().all(inner)
                && !text.starts_with('-')
                && !text.ends_with('-');
            fits.then(|| text.to_owned())
        });
        name.unwrap_or_default()
    }

    fn nodes(&mut self) -> NodeConfig {
        let row = &table::LABELS_FROM_TAGS;
        let mut tags = self.list(row);
        tags.retain(|tag| {
            // The key becomes the name of a label.
            let fits = bowline_core::is_label_key(&format!("tag.cloud.tritoncompute/{tag}"));
            if !fits && let Some(found) = self.finder.find(row) {
                let refused = |_: &str| None::<()>;
                let _ = self.checked(
                    row,
                    &Found {
                        text: tag.clone(),
                        ..found
                    },
                    refused,
                );
            }
            fits
        });
        NodeConfig {
            name_match: self.boolean(&table::NAME_MATCH, true),
            labels_from_tags: tags,
        }
    }

    fn load_balancer(&mut self) -> LoadBalancerConfig {
        let modes = [
            ("cns", BalancerMode::Cns),
            ("clb", BalancerMode::Clb),
            ("none", BalancerMode::None),
        ];
        let mode = self
            .choice(&table::MODE, &modes)
            .unwrap_or(BalancerMode::Cns);
        let clb_package = self.text(&table::CLB_PACKAGE);
        if mode == BalancerMode::Clb && clb_package.is_none() {
            self.missing(
                "the package of load balancer machines",
                &[&table::CLB_PACKAGE],
            );
        }
        let styles = [("dotted", LabelStyle::Dotted), ("flat", LabelStyle::Flat)];
        let style = self.choice(&table::CNS_LABEL_STYLE, &styles);
        let firewall = self.choice(&table::FIREWALL, &[("auto", true), ("never", false)]);
        let image = self.text(&table::CLB_IMAGE);
        let timeout = Duration::from_secs(300);
        let replicas = self.number(&table::CLB_REPLICAS, 1, 1..=8);
        LoadBalancerConfig {
            mode,
            public_network: self.text(&table::PUBLIC_NETWORK),
            private_network: self.text(&table::PRIVATE_NETWORK),
            cns_suffix_public: self.zone(&table::CNS_SUFFIX_PUBLIC),
            cns_suffix_private: self.zone(&table::CNS_SUFFIX_PRIVATE),
            cns_label_style: style.unwrap_or(LabelStyle::Dotted),
            adopt_legacy: self.boolean(&table::ADOPT_LEGACY, false),
            cns_enable_account: self.boolean(&table::CNS_ENABLE_ACCOUNT, false),
            firewall: firewall.unwrap_or(true),
            clb_image: image.unwrap_or_else(|| "cloud-load-balancer".to_owned()),
            clb_package,
            clb_replicas: replicas,
            allowed_images: self.list(&table::ALLOWED_IMAGES),
            allowed_packages: self.list(&table::ALLOWED_PACKAGES),
            max_replicas: self.number(&table::MAX_REPLICAS, replicas.max(2), 1..=8),
            provision_timeout: self.duration(&table::PROVISION_TIMEOUT, timeout),
            delete_timeout: self.duration(&table::DELETE_TIMEOUT, timeout),
            clb_deletion_protection: self.boolean(&table::CLB_DELETION_PROTECTION, false),
        }
    }

    fn metrics(&mut self) -> MetricsConfig {
        let modes = [
            ("off", MetricsMode::Off),
            ("discovery", MetricsMode::Discovery),
            ("export", MetricsMode::Export),
        ];
        let mode = self.choice(&table::METRICS_MODE, &modes);
        let endpoint = self.finder.find(&table::CMON_ENDPOINT);
        MetricsConfig {
            mode: mode.unwrap_or(MetricsMode::Off),
            cmon_endpoint: endpoint.and_then(|found| self.url(&found)),
        }
    }

    fn text(&mut self, row: &Row) -> Option<String> {
        self.finder.find(row).map(|found| found.text)
    }

    /// A DNS zone, without a dot at its end.
    fn zone(&mut self, row: &Row) -> Option<String> {
        let found = self.finder.find(row)?;
        self.checked(row, &found, |text| {
            let text = text.trim_end_matches('.').to_ascii_lowercase();
            let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
            let label = |it: &str| (1..=63).contains(&it.len()) && it.bytes().all(inner);
            (text.len() <= 253 && text.split('.').all(label)).then_some(text)
        })
    }

    fn list(&mut self, row: &Row) -> Vec<String> {
        let text = self.text(row).unwrap_or_default();
        let items = text.split(',').map(str::trim);
        items
            .filter(|item| !item.is_empty())
            .map(ToOwned::to_owned)
            .collect()
    }

    fn boolean(&mut self, row: &Row, default: bool) -> bool {
        let found = self.finder.find(row);
        found
            .and_then(|found| self.checked(row, &found, boolean))
            .unwrap_or(default)
    }

    fn choice<T: Copy>(&mut self, row: &Row, choices: &[(&str, T)]) -> Option<T> {
        let found = self.finder.find(row)?;
        self.checked(row, &found, |text| {
            let mut choices = choices.iter();
            choices.find(|(name, _)| *name == text).map(|(_, it)| *it)
        })
    }

    fn number<T: Copy + PartialOrd + std::str::FromStr>(
        &mut self,
        row: &Row,
        default: T,
        range: std::ops::RangeInclusive<T>,
    ) -> T {
        let Some(found) = self.finder.find(row) else {
            return default;
        };
        let number = self.checked(row, &found, |text| {
            text.parse().ok().filter(|number| range.contains(number))
        });
        number.unwrap_or(default)
    }

    fn duration(&mut self, row: &Row, default: Duration) -> Duration {
        let Some(found) = self.finder.find(row) else {
            return default;
        };
        let duration = self.checked(row, &found, |text| {
            let seconds = text.parse().ok().map(Duration::from_secs);
            let duration = seconds.or_else(|| parse_duration(text).ok())?;
            (Duration::from_secs(1)..=LONGEST)
                .contains(&duration)
                .then_some(duration)
        });
        duration.unwrap_or(default)
    }

    fn checked<T>(
        &mut self,
        row: &Row,
        found: &Found,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let origin = Origin::Config(found.name.clone());
        match Setting::read(&found.text, origin, row.variable.allowed, parse) {
            Ok(setting) => Some(setting.value),
            Err(error) => {
                self.errors.push(error.into());
                None
            }
        }
    }

    fn missing(&mut self, what: &'static str, rows: &[&Row]) {
        let mut names = Vec::new();
        for row in rows {
            if row.is_flag() {
                names.push(format!("--{}", row.key()));
            }
            names.extend(row.environment.first().map(|name| (*name).to_owned()));
            names.push(format!("{} in the file", row.key()));
        }
        let names = names.join(", ");
        self.errors.push(ConfigError::Missing { what, names });
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}
