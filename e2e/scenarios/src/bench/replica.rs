//! Managers: each is what one process would be.

use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::clients::{Agent, Clients, Connection, Limits};
use bowline_controllers::manager::{Manager, ManagerError, Reviews};
use bowline_controllers::metrics::Metrics;
use bowline_controllers::options::{self, Options, Request};
use bowline_controllers::{StopHandle, stop_signal};
use bowline_core::{Cloud, GuardPolicy};
use bowline_http::Connector;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::Bench;

/// Without a socket: what a manager serves is another matter.
const BASIS: &str = "--secure-port=0";
/// No end takes longer, whatever hangs.
const PATIENCE: Duration = Duration::from_secs(900);

/// One running manager.
pub struct Replica {
    /// Its metrics.
    pub metrics: Arc<Metrics>,
    /// Who it is in the journal.
    pub name: String,
    stop: StopHandle,
    task: JoinHandle<Result<(), ManagerError>>,
}

impl Replica {
    /// Asks it to stop, as SIGTERM does; how it ended, and how long that took.
    pub async fn stop(self) -> (Result<(), ManagerError>, Duration) {
        let from = Instant::now();
        self.stop.stop();
        let ended = self.ended().await;
        (ended, from.elapsed())
    }

    /// Waits until it ends by itself.
    pub async fn ended(self) -> Result<(), ManagerError> {
        let ended = timeout(PATIENCE, self.task).await;
        ended.expect("it ends").expect("it does not panic")
    }

    /// Whether it still works.
    pub fn is_running(&self) -> bool {
        !self.task.is_finished()
    }

    /// What SIGKILL does: nothing is finished, nothing is given back.
    pub async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
        // Its detached tasks see the dropped handle as the signal.
        drop(self.stop);
    }

    /// The value of a series, by its exact name with labels; none if it is not there.
    pub fn metric(&self, series: &str) -> Option<f64> {
        metric(&self.metrics, series)
    }

    /// Whether it leads, as its metrics say.
    pub fn leads(&self) -> bool {
        let series = "leader_election_master_status{name=\"cloud-controller-manager\"}";
        self.metric(series) == Some(1.0)
    }
}

pub(super) fn metric(metrics: &Metrics, series: &str) -> Option<f64> {
    let text = metrics.text();
    let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    lines
        .find(|(name, _)| *name == series)
        .map(|(_, value)| value.parse().unwrap())
}

impl Bench {
    /// Starts one more manager, with those flags and no others, by that name in the journal.
    pub async fn replica(&self, name: &str, flags: &[&str]) -> Replica {
        let config = self.cluster.manager(name).await;
        self.replica_as(name, &config, flags)
    }

    /// The same as somebody.
    pub fn replica_as(&self, name: &str, config: &kube::Config, flags: &[&str]) -> Replica {
        let place = self.cluster.lease_flag();
        let flags = [BASIS].into_iter().chain(flags.iter().copied());
        let flags: Vec<String> = flags.map(str::to_owned).chain(place).collect();
        let manager = self.manager(config, self.parse(&flags));
        let (stop, stopped) = stop_signal();
        Replica {
            metrics: manager.metrics.clone(),
            name: name.to_owned(),
            stop,
            task: tokio::spawn(manager.run(stopped)),
        }
    }

    fn parse(&self, flags: &[String]) -> Options {
        let (program, provider) = self.program;
        let Ok(Request::Run(line)) = options::parse(program, Some(provider), flags) else {
            panic!("the flags are wrong: {flags:?}");
        };
        line.options.validate().unwrap();
        line.options
    }

    /// Clients as a manager has them.
    pub fn clients(
        &self,
        config: &kube::Config,
        limits: Limits,
        metrics: &Arc<Metrics>,
    ) -> Clients {
        self.clients_of(config, limits, metrics, false)
    }

    fn clients_of(
        &self,
        config: &kube::Config,
        limits: Limits,
        metrics: &Arc<Metrics>,
        use_accounts: bool,
    ) -> Clients {
        let connector = Connector::simulated(self.world.pipes.clone());
        let agent = Agent {
            program: self.program.0.to_owned(),
            version: "v0".to_owned(),
            commit: "test".to_owned(),
        };
        Clients::new(
            Connection::over(config, connector).unwrap(),
            agent,
            limits,
            self.world.clock.clone(),
            metrics.clone(),
            use_accounts,
        )
    }

    fn manager(&self, config: &kube::Config, options: Options) -> Manager {
        let metrics = Metrics::new();
        let use_accounts = options.client.use_service_account_credentials;
        let limits = Limits::from(&options.client);
        let scripted = self.clouds.iter().cloned();
        let scripted = scripted.map(|cloud| cloud as Arc<dyn Cloud>);
        let built = self.providers.iter().map(|build| build(&metrics));
        Manager {
            clients: self.clients_of(config, limits, &metrics, use_accounts),
            options,
            clouds: scripted.chain(built).collect(),
            reviews: Reviews::default(),
            metrics: metrics.clone(),
            clock: self.world.clock.clone(),
            random: self.world.random.fork(),
            guard: GuardPolicy::default(),
            set_verbosity: Arc::new(|_| Ok(())),
        }
    }
}
