//! What a simulated Xen Orchestra is like: who may use it, how long things take, which release it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_simulator::faults::Span;
use serde::Deserialize;

/// The name of the administrator for whom no other was configured.
pub const DEFAULT_USER: &str = "admin@admin.net";
/// The password of that administrator.
pub const DEFAULT_PASSWORD: &str = "admin";
/// An authentication token of that administrator, without an end.
pub const DEFAULT_TOKEN: &str = "simulated-xen-orchestra-token-for-everybody";

/// A right of a user who is no administrator.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Privilege {
    /// On what: `vm`, `host`, `pool`, `server`, `task`, …
    pub resource: String,
    /// To do what: `read`, `start`, `shutdown:clean`, … or `*`.
    #[serde(default = "read")]
    pub action: String,
    /// The only objects that it is about, by id; all if left out.
    #[serde(default)]
    pub objects: Option<BTreeSet<String>>,
}

fn read() -> String {
    "read".to_owned()
}

impl Privilege {
    /// The right to read everything of that sort.
    pub fn read(resource: &str) -> Self {
        Self {
            resource: resource.to_owned(),
            action: read(),
            objects: None,
        }
    }

    /// Whether it is about that. `shutdown` covers `shutdown:clean`.
    fn covers(&self, resource: &str, action: &str, object: &str) -> bool {
        let wanted = action.strip_prefix(self.action.as_str());
        let action = self.action == "*"
            || wanted.is_some_and(|rest| matches!(rest.chars().next(), None | Some(':')));
        let object = self.objects.as_ref().is_none_or(|ids| ids.contains(object));
        self.resource == resource && action && object
    }
}

/// Somebody who may use Xen Orchestra.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The id; one is drawn if it is empty.
    pub id: String,
    /// With which the user signs in by name.
    pub password: String,
    /// May do everything.
    pub admin: bool,
    /// What somebody may do who is no administrator.
    pub privileges: Vec<Privilege>,
    /// The one-time code that the second factor asks for.
    pub otp: Option<String>,
}

impl User {
    /// An administrator with that password.
    pub fn admin(password: &str) -> Self {
        Self {
            password: password.to_owned(),
            admin: true,
            ..Self::default()
        }
    }

    /// Somebody with that password and these rights.
    pub fn with(password: &str, privileges: &[Privilege]) -> Self {
        Self {
            password: password.to_owned(),
            privileges: privileges.to_vec(),
            ..Self::default()
        }
    }

    /// Whether the user may do that to that object.
    pub(super) fn may(&self, resource: &str, action: &str, object: &str) -> bool {
        self.admin
            || self
                .privileges
                .iter()
                .any(|it| it.covers(resource, action, object))
    }
}

bowline_simulator::timings! {
    /// How long things take; zero is allowed everywhere.
    #[derive(Copy)]
    pub struct Timings, TimingsSpec: Span {
        /// From the beginning of an action on a VM until it is done.
        action: Duration = Duration::from_secs(1),
        /// How long a migration takes until the VM is on its new host.
        migration: Duration = Duration::from_secs(5),
        /// How long a VM that moves to another pool is in none.
        gap: Duration = Duration::ZERO,
        /// From the start of a VM until its guest tools tell its addresses.
        guest: Duration = Duration::from_secs(15),
        /// From the connection to a pool until its objects are shown.
        load: Duration = Duration::from_secs(2),
    }
}

impl Timings {
    /// Nothing takes any time.
    pub fn instant() -> Self {
        Self {
            action: Duration::ZERO,
            migration: Duration::ZERO,
            gap: Duration::ZERO,
            guest: Duration::ZERO,
            load: Duration::ZERO,
        }
    }
}

/// Which release it behaves like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Release {
    /// 6.7.
    #[default]
    Current,
    /// 5.104 to 5.111: passwords only where tokens are made, no `/ping`, no events, administrators only.
    Old,
    /// 5.100 to 5.103: the same, and errors are not JSON.
    Ancient,
}

/// How it is set up, and where it differs from what a new installation does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of a fixture that have nothing to do with each other"
)]
pub struct Quirks {
    /// Which release it behaves like.
    pub release: Release,
    /// There is no `/rest/v0/events`, as before 5.113.
    pub no_events: bool,
    /// Rights of others than administrators are not licensed.
    pub unlicensed: bool,
    /// Plain requests are sent to this port with TLS.
    pub redirect_to_https: Option<u16>,
    /// A proxy in front serves everything under this path; Xen Orchestra itself does not know it.
    pub path_prefix: Option<String>,
    /// `POST /auth/login` signs in, as the Go SDK hopes.
    pub login_works: bool,
    /// The route for tokens without a user in its path is gone.
    pub no_deprecated_tokens: bool,
}

/// What a simulated Xen Orchestra is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who may use it, by name.
    pub users: BTreeMap<String, User>,
    /// Tokens without an end, each with the name of its user.
    pub tokens: BTreeMap<String, String>,
    pub timings: Timings,
    pub quirks: Quirks,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            users: [(DEFAULT_USER.to_owned(), User::admin(DEFAULT_PASSWORD))].into(),
            tokens: [(DEFAULT_TOKEN.to_owned(), DEFAULT_USER.to_owned())].into(),
            timings: Timings::default(),
            quirks: Quirks::default(),
        }
    }
}
