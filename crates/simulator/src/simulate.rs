//! A simulated server that runs alone, for anybody's client: what `bowline simulate` asks of each.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result};
use bowline_http::{Clock, Random};
use futures::future::BoxFuture;
use serde::de::DeserializeOwned;

use crate::World;
use crate::control::ControlResult;
use crate::fixture;
use crate::serve::Server;

/// A server that `bowline simulate` can run.
#[derive(Clone, Copy)]
pub struct ServerKind {
    /// Its name: the command.
    pub name: &'static str,
    /// Which API it serves.
    pub about: &'static str,
    /// What can be said about it, in the order of the help.
    pub flags: &'static [Flag],
    /// Starts it.
    pub serve: for<'a> fn(&'a Options) -> BoxFuture<'a, Result<Simulation>>,
}

impl std::fmt::Debug for ServerKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// One flag of such a server.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name, without dashes.
    pub name: &'static str,
    pub help: &'static str,
    /// What follows it.
    pub value: FlagValue,
    /// What counts if it is not given.
    pub default: Option<&'static str>,
}

/// What follows a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagValue {
    /// Where to listen.
    Address,
    File,
    Seed,
    Switch,
}

impl Flag {
    /// Any flag, without a default.
    pub const fn new(name: &'static str, value: FlagValue, help: &'static str) -> Self {
        Self {
            name,
            help,
            value,
            default: None,
        }
    }

    /// The same with a default.
    #[must_use]
    pub const fn or(self, default: &'static str) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }

    /// Where the API is, unless told otherwise.
    pub const fn listen(default: &'static str) -> Self {
        let help = "Where to listen; port 0 picks a free one";
        Self::new("listen", FlagValue::Address, help).or(default)
    }

    /// What there is from the beginning.
    pub const fn fixture(help: &'static str) -> Self {
        Self::new("fixture", FlagValue::File, help)
    }

    /// What is drawn is drawn from a seed.
    pub const fn seed(help: &'static str) -> Self {
        Self::new("seed", FlagValue::Seed, help)
    }
}

/// What was said about a server: flags with their values.
#[derive(Clone, Debug, Default)]
pub struct Options(BTreeMap<&'static str, String>);

impl Options {
    /// With that flag; an empty value for a switch.
    #[must_use]
    pub fn with(mut self, flag: &'static str, value: impl Display) -> Self {
        self.0.insert(flag, value.to_string());
        self
    }

    /// Whether a switch was given.
    pub fn is_set(&self, flag: &str) -> bool {
        self.0.contains_key(flag)
    }

    /// An address, if one was given.
    pub fn address(&self, flag: &str) -> Result<Option<SocketAddr>> {
        self.read(flag)
    }

    /// Where the API shall listen.
    pub fn listen(&self) -> Result<SocketAddr> {
        self.address("listen")?.context("--listen is missing")
    }

    /// A file that has to be named.
    pub fn file(&self, flag: &str) -> Result<PathBuf> {
        let path = self.0.get(flag).map(PathBuf::from);
        path.with_context(|| format!("--{flag} is missing"))
    }

    /// The path of the fixture, if there is one.
    pub fn fixture_path(&self) -> Option<PathBuf> {
        self.0.get("fixture").map(PathBuf::from)
    }

    /// The fixture, if there is one.
    pub fn fixture<T: DeserializeOwned + Default>(&self) -> Result<Option<T>> {
        let read = self.fixture_path().map(|path| fixture::read(&path));
        Ok(read.transpose()?)
    }

    /// What the fixture, or an empty one, comes to in a world of its own.
    pub fn load<F: DeserializeOwned + Default, C>(
        &self,
        from_fixture: impl FnOnce(&World, F) -> ControlResult<C>,
    ) -> Result<(World, C)> {
        let fixture = self.fixture()?.unwrap_or_default();
        let world = self.world()?;
        let loaded = from_fixture(&world, fixture);
        let loaded = loaded.context("the content of the fixture cannot be set up")?;
        Ok((world, loaded))
    }

    /// The seed, if one was given.
    pub fn seed(&self) -> Result<Option<u64>> {
        self.read("seed")
    }

    /// A world of its own, in real time.
    pub fn world(&self) -> Result<World> {
        let random = self
            .seed()?
            .map_or_else(Random::from_system, Random::seeded);
        Ok(World::with(Clock::system(), random))
    }

    fn read<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(
        &self,
        flag: &str,
    ) -> Result<Option<T>> {
        let value = self.0.get(flag).map(|text| {
            let read = text.parse();
            read.with_context(|| format!("--{flag}: {text:?}"))
        });
        value.transpose()
    }
}

/// Servers that run; they stop when this is dropped.
pub struct Simulation {
    /// What to tell the person who started them.
    pub greeting: String,
    /// The servers, the one with the API first.
    pub servers: Vec<Server>,
    /// Whatever else stops with them.
    _kept: Box<dyn Any + Send + Sync>,
}

impl Simulation {
    /// Servers that run, and what else has to stay as long as they do.
    pub fn new(
        greeting: String,
        servers: impl IntoIterator<Item = Server>,
        kept: impl Any + Send + Sync,
    ) -> Self {
        Self {
            greeting,
            servers: servers.into_iter().collect(),
            _kept: Box::new(kept),
        }
    }

    pub async fn shutdown(self) {
        for server in self.servers {
            server.shutdown().await;
        }
    }
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.greeting)
    }
}

/// What is reported about servers that run: where they are, and how they are used.
#[derive(Debug)]
pub struct Greeting(String);

impl Greeting {
    /// Begins with what is served, and where.
    pub fn new(what: &str, place: impl Display) -> Self {
        Self(format!("{what}, simulated, on {place}\n"))
    }

    pub fn line(&mut self, label: &str, text: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "  {label:<9} {text}");
    }

    /// Ends with journal and state, and a warning if others can reach that address.
    pub fn finish(mut self, curl: &str, root: impl Display, address: SocketAddr) -> String {
        self.line("journal", format_args!("{curl} {root}/_sim/journal"));
        self.line("state", format_args!("{curl} {root}/_sim/state"));
        if !address.ip().is_loopback() {
            self.line(
                "warning",
                format_args!("everybody who reaches {address} controls it without a password"),
            );
        }
        self.0
    }
}
