//! The fixture: what there is at the beginning, as people write it (`cloud.yaml`).

use std::collections::BTreeMap;
use std::fmt;

use bowline_simulator::faults::RawRule;
use bowline_simulator::timings::Timed;
use serde::{Deserialize, Deserializer, de};

use super::PowerState;
use super::config::{Config, Privilege, Quirks, TimingsSpec, User};

/// The whole fixture file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fixture {
    /// Who may use it; none: one administrator.
    pub users: Vec<UserSpec>,
    /// Tokens; none, and no users: one of the administrator.
    pub tokens: Vec<TokenSpec>,
    pub timings: TimingsSpec,
    pub quirks: Quirks,
    pub pools: Vec<PoolSpec>,
    pub hosts: Vec<HostSpec>,
    pub vms: Vec<VmSpec>,
    /// What goes wrong from the beginning.
    pub faults: Vec<RawRule>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserSpec {
    /// The name, which often is an address of e-mail.
    pub name: String,
    /// The id; one is drawn if left out.
    #[serde(default)]
    pub id: String,
    pub password: String,
    /// May do everything.
    #[serde(default)]
    pub admin: bool,
    /// What somebody may do who is no administrator.
    #[serde(default)]
    pub privileges: Vec<Privilege>,
    /// The one-time code of the second factor.
    #[serde(default)]
    pub otp: Option<String>,
}

impl UserSpec {
    pub(super) fn user(&self) -> User {
        User {
            id: self.id.clone(),
            password: self.password.clone(),
            admin: self.admin,
            privileges: self.privileges.clone(),
            otp: self.otp.clone(),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSpec {
    /// The token itself.
    pub value: String,
    /// The name of its user.
    pub user: String,
}

/// A number of bytes: `4294967296`, `4GiB`, `512 MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl Size {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let split = text.find(|letter: char| !letter.is_ascii_digit());
        let (number, unit) = text.split_at(split.unwrap_or(text.len()));
        let factor = match unit.trim() {
            "" | "B" => 1,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return None,
        };
        let number: u64 = number.parse().ok()?;
        number.checked_mul(factor).map(Self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl de::Visitor<'_> for Reader {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, such as 4294967296, 512MiB or 4GiB")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Size, E> {
                Ok(Size(number))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Size, E> {
                let number = u64::try_from(number).map_err(E::custom)?;
                Ok(Size(number))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                Size::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolSpec {
    /// Its name; if empty, that of its master is shown.
    pub name: String,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    /// Where its master is, as Xen Orchestra knows it.
    pub address: Option<String>,
    /// `connected` (if left out), `connecting` or `disconnected`.
    pub connection: Option<String>,
    /// The records of its VMs cannot be read.
    pub vm_records_missing: bool,
    pub tags: Vec<String>,
}

bowline_simulator::setters! {
    PoolSpec::named(name: &str) |spec| name.clone_into(&mut spec.name);
    id(id: &str) |spec| spec.id = Some(id.to_owned());
}

/// A host of the fixture. The first of a pool is its master.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    pub name: String,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    /// Its pool by name or id; the first if left out.
    pub pool: Option<String>,
    pub address: Option<String>,
    /// It takes no VMs.
    pub disabled: bool,
    /// `Running` (if left out), `Halted` or `Unknown`.
    pub power_state: Option<String>,
    /// Its cores; 16 if left out.
    pub cores: Option<u32>,
    /// Its memory; 128 GiB if left out.
    pub memory: Option<Size>,
    pub tags: Vec<String>,
}

bowline_simulator::setters! {
    /// A host of that name in that pool, by name or id.
    HostSpec::named(name: &str, pool: &str) |spec| {
        name.clone_into(&mut spec.name);
        spec.pool = Some(pool.to_owned());
    };
    id(id: &str) |spec| spec.id = Some(id.to_owned());
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VmSpec {
    /// Its name; with `count`, the beginning of their names. Names need not be unique.
    pub name: String,
    /// How many; their names get numbers.
    pub count: Option<u32>,
    /// Its id; one is drawn if left out.
    pub id: Option<String>,
    pub description: String,
    /// Its pool by name or id; that of its host, or the first, if left out.
    pub pool: Option<String>,
    /// The host that it runs on, by name or id; the one with the fewest VMs if left out.
    pub host: Option<String>,
    /// The host, by name or id, that has a disk of it on storage of its own.
    pub local_disk: Option<String>,
    /// `Running` (if left out), `Halted`, `Paused` or `Suspended`.
    pub power_state: Option<String>,
    /// Processors at most; 2 if left out.
    pub cpus: Option<u32>,
    /// Processors now; as many if left out.
    pub cpus_now: Option<u32>,
    /// Its memory; 4 GiB if left out.
    pub memory: Option<Size>,
    /// The memory that it may grow to; `memory` if left out.
    pub memory_max: Option<Size>,
    /// The only address of its first card; one is given out if left out.
    pub ip: Option<String>,
    /// What its guest tools tell instead, such as `0/ipv6/0: 2001:db8::11`.
    pub guest: Option<BTreeMap<String, String>>,
    /// It has no guest tools.
    pub no_tools: bool,
    /// It is a template, which is not listed among VMs.
    pub template: bool,
    pub tags: Vec<String>,
    pub other: BTreeMap<String, String>,
}

bowline_simulator::setters! {
    /// A VM of that name, which runs.
    VmSpec::named(name: &str) |spec| name.clone_into(&mut spec.name);
    id(id: &str) |spec| spec.id = Some(id.to_owned());
    /// As many of them.
    count(count: u32) |spec| spec.count = Some(count);
    /// In that pool, by name or id.
    pool(pool: &str) |spec| spec.pool = Some(pool.to_owned());
    /// On that host, by name or id.
    host(host: &str) |spec| spec.host = Some(host.to_owned());
    /// With a disk on storage of that host alone, by name or id.
    local_disk(host: &str) |spec| spec.local_disk = Some(host.to_owned());
    power(state: PowerState) |spec| spec.power_state = Some(state.as_str().to_owned());
    /// With so many processors at most, and so many bytes of memory.
    size(cpus: u32, memory: u64) |spec| {
        spec.cpus = Some(cpus);
        spec.memory = Some(Size(memory));
    };
    ip(address: &str) |spec| spec.ip = Some(address.to_owned());
    /// With guest tools that tell this.
    guest(pairs: &[(&str, &str)]) |spec| {
        let owned = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        spec.guest = Some(owned.collect());
    };
    /// Without guest tools.
    no_tools() |spec| spec.no_tools = true;
    tag(tag: &str) |spec| spec.tags.push(tag.to_owned());
}

impl Fixture {
    /// The part that says what it is like.
    pub fn config(&self) -> Config {
        let default = Config::default();
        let users = self
            .users
            .iter()
            .map(|spec| (spec.name.clone(), spec.user()));
        let tokens = self
            .tokens
            .iter()
            .map(|spec| (spec.value.clone(), spec.user.clone()));
        let bare = self.users.is_empty();
        Config {
            users: if bare { default.users } else { users.collect() },
            tokens: if bare && self.tokens.is_empty() {
                default.tokens
            } else {
                tokens.collect()
            },
            timings: default.timings.or_as(&self.timings),
            quirks: self.quirks.clone(),
        }
    }
}
