//! What a simulated cloud is like: who may use it and how long things take.

use std::time::Duration;

/// The token of a cloud for which none was configured.
pub const DEFAULT_TOKEN: &str = "simulated-token";
/// The project of that token, and of machines that name none.
pub const DEFAULT_PROJECT: &str = "default";

/// A token: it opens one project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What callers send.
    pub value: String,
    /// What they see.
    pub project: String,
    /// Whether they may only look.
    pub read_only: bool,
}

/// How long the changes of a server take; zero is allowed everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// From being made to running.
    pub create: Duration,
    /// From stopped to running.
    pub start: Duration,
    /// From running to stopped.
    pub stop: Duration,
    /// From running to running.
    pub reboot: Duration,
    /// How long reads do not show a server that was made.
    pub created_invisible: Duration,
    /// How long reads still show a server that was deleted.
    pub deleted_visible: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            create: 2 * second,
            start: second,
            stop: second,
            reboot: second,
            created_invisible: Duration::ZERO,
            deleted_visible: Duration::ZERO,
        }
    }
}

/// What a simulated cloud is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who may use it. Several tokens may open one project.
    pub tokens: Vec<Token>,
    /// How long things take.
    pub timings: Timings,
    /// The root of all `href` values; none: from the `Host` header of each request.
    pub public_url: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tokens: vec![Token {
                value: DEFAULT_TOKEN.to_owned(),
                project: DEFAULT_PROJECT.to_owned(),
                read_only: false,
            }],
            timings: Timings::default(),
            public_url: None,
        }
    }
}
