//! One simulated cloud on a bench: the real provider, under the role of an original's manifest.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::metrics::Metrics;
use bowline_core::Cloud;
use bowline_simulator::World;
use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator::serve::Server;
use futures::future::LocalBoxFuture;
use serde_json::Value;

use crate::objects::text;
use crate::{Bench, Granted, LEASE, Replica, Setup, Sharing};

/// How often a process that cannot start is started.
const STARTS: u32 = 10;
/// The pause before that.
const RESTART: Duration = Duration::from_secs(1);

/// The controller manager whose place ours takes.
pub struct Original<'a> {
    /// Its command name.
    pub command: &'static str,
    /// The provider that it is for.
    pub provider: &'static str,
    /// Its service account.
    pub account: &'static str,
    /// The objects of its manifest.
    pub manifest: &'a [Value],
}

/// Makes the provider of one manager; one that cannot start says why.
pub type Making =
    dyn Fn(World, Arc<Metrics>) -> LocalBoxFuture<'static, Result<Arc<dyn Cloud>, String>>;

/// A bench whose managers work with that simulated cloud.
pub struct Site<C> {
    bench: Bench,
    /// The cloud.
    pub cloud: Arc<C>,
    /// Who the manager is to the API server.
    pub user: String,
    making: Box<Making>,
    /// The provider of the manager that starts next.
    next: Rc<RefCell<Option<Arc<dyn Cloud>>>>,
    _server: Server,
}

impl<C> Deref for Site<C> {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        &self.bench
    }
}

impl<C> DerefMut for Site<C> {
    fn deref_mut(&mut self) -> &mut Bench {
        &mut self.bench
    }
}

impl<C> Site<C> {
    /// A bench with the original's rights, and with the cloud that `open` makes on it and serves. The
    /// manager is not started yet; `making` makes its provider whenever it is.
    pub async fn open(
        seed: u64,
        flags: &[&str],
        original: &Original<'_>,
        open: impl FnOnce(&Bench) -> (Arc<C>, Server),
        making: Box<Making>,
    ) -> Self {
        Self::open_on(Sharing::Shared, seed, flags, original, open, making).await
    }

    /// The same, on a server of its own if it has to be.
    pub async fn open_on(
        sharing: Sharing,
        seed: u64,
        flags: &[&str],
        original: &Original<'_>,
        open: impl FnOnce(&Bench) -> (Arc<C>, Server),
        making: Box<Making>,
    ) -> Self {
        let mut bench = Bench::set_up(Setup {
            seed,
            sharing,
            clouds: &[],
            flags,
            program: (original.command, original.provider),
        })
        .await;
        let Granted { config, user } = bench
            .cluster
            .grant(original.account, original.manifest)
            .await;
        bench.act_as(config);
        let (cloud, server) = open(&bench);
        let next: Rc<RefCell<Option<Arc<dyn Cloud>>>> = Rc::default();
        let ready = Rc::clone(&next);
        bench.add_provider(move |_| ready.take().expect("the provider was made"));
        Self {
            bench,
            cloud,
            user,
            making,
            next,
            _server: server,
        }
    }

    /// Starts the manager, as a new process would; one that cannot start is started again.
    pub async fn start(&mut self) {
        let metrics = self.make_provider().await;
        self.bench.start_with(metrics);
    }

    /// Starts one of several managers, which compete for a lease; `name` is its name in the journal.
    pub async fn replica(&self, name: &str, flags: &[&str]) -> Replica {
        let config = self.cluster.manager(name).await;
        let metrics = self.make_provider().await;
        self.bench.replica_in(metrics, name, &config, flags)
    }

    /// The provider of the next manager, which counts in these metrics.
    async fn make_provider(&self) -> Arc<Metrics> {
        let metrics = Metrics::new();
        let mut tries = 0;
        let cloud = loop {
            tries += 1;
            match (self.making)(self.bench.world.clone(), metrics.clone()).await {
                Ok(cloud) => break cloud,
                Err(error) if tries == STARTS => panic!("it does not start: {error}"),
                Err(_) => tokio::time::sleep(RESTART).await,
            }
        };
        self.next.replace(Some(cloud));
        metrics
    }

    /// The manager's calls that could have changed what that path means.
    pub fn writes_to(&self, path: &str) -> Vec<Entry> {
        let filter = Filter::any().server("kubernetes").caller(&self.user);
        self.matching(&filter.mutating().path(path))
    }

    /// Stops the manager, which must end well, and checks that nobody refused it anything: the
    /// original's role was enough.
    pub async fn end(mut self) {
        self.bench.stop().await;
        for status in [401, 403] {
            let filter = Filter::any().server("kubernetes").caller(&self.user);
            let refused = self.matching(&filter.status(status));
            assert!(refused.is_empty(), "refused: {refused:?}");
        }
        let lease = self.cluster.lease(LEASE).expect("there is a lease");
        let holder = text(&lease["spec"]["holderIdentity"]);
        assert_eq!(holder, "", "the lease is released");
    }
}
