//! Managers: how they are made, started and stopped.

use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::clients::{Agent, Clients, Connection, Limits};
use bowline_controllers::manager::{CloudRules, Manager, Reviews};
use bowline_controllers::metrics::Metrics;
use bowline_controllers::options::{self, Options, Request, Table};
use bowline_controllers::{ActiveConfig, ActiveConfigChanger, ActiveConfigs};
use bowline_core::{Cloud, CloudName};
use bowline_http::Connector;

use super::{LEASE, MANAGER, TestCluster};
use crate::replica::Replica;

/// Until another process can start: under the paused clock both would else have the same time, and
/// their events the same names.
const MOMENT: Duration = Duration::from_millis(1);

/// Makes a cloud that notes what it does in a manager's metrics.
pub(super) type Provider = Box<dyn Fn(&Arc<Metrics>) -> Arc<dyn Cloud>>;

impl TestCluster {
    /// A cloud besides the scripted ones, which each manager makes when it starts.
    pub fn add_provider(&mut self, build: impl Fn(&Arc<Metrics>) -> Arc<dyn Cloud> + 'static) {
        self.providers.push(Box::new(build));
    }

    /// What is configured about clouds, from the next start on.
    pub fn use_rules(&mut self, rules: CloudRules) {
        self.rules = rules;
    }

    /// Gives the manager that was started last another configuration, as a changed configuration does. `renamed` says what
    /// clouds were called before.
    pub fn reload(&self, clouds: Vec<Arc<dyn Cloud>>, rules: CloudRules, renamed: &[(&str, &str)]) {
        let changer = self.changer.borrow();
        let changer = changer.as_ref().unwrap();
        let name = |text: &str| CloudName::parse(text).unwrap();
        let present = changer.present();
        changer.change(ActiveConfig {
            generation: present.generation + 1,
            clouds,
            rules,
            renamed: renamed
                .iter()
                .map(|(before, now)| (name(before), name(now)))
                .collect(),
            ..ActiveConfig::clone(&present)
        });
    }

    /// Starts the manager, as a new process would. It needs no lease, unless its flags say so.
    pub fn start(&mut self) {
        self.start_with(Metrics::new());
    }

    /// The same, counting there.
    pub(crate) fn start_with(&mut self, metrics: Arc<Metrics>) {
        let flags = ["--leader-elect=false"].into_iter();
        let flags: Vec<&str> = flags.chain(self.flags.iter().map(String::as_str)).collect();
        let replica = self.replica_in(metrics, MANAGER, &self.config, &flags);
        self.metrics = replica.metrics.clone();
        self.running = Some(replica);
    }

    /// Starts one of several managers, which compete for a lease; `name` is its name in the journal.
    pub async fn replica(&self, name: &str, flags: &[&str]) -> Replica {
        let config = self.cluster.manager(name).await;
        self.replica_as(name, &config, flags)
    }

    /// The same as somebody.
    pub fn replica_as(&self, name: &str, config: &kube::Config, flags: &[&str]) -> Replica {
        self.replica_in(Metrics::new(), name, config, flags)
    }

    /// The same, counting there.
    pub(crate) fn replica_in(
        &self,
        metrics: Arc<Metrics>,
        name: &str,
        config: &kube::Config,
        flags: &[&str],
    ) -> Replica {
        let scripted = self.clouds.iter().cloned();
        let scripted = scripted.map(|cloud| cloud as Arc<dyn Cloud>);
        let built = self.providers.iter().map(|build| build(&metrics));
        let clouds = scripted.chain(built).collect();
        let lease = self.cluster.names().own(LEASE);
        let basis = [
            "--secure-port=0".to_owned(),
            format!("--leader-elect-resource-name={lease}"),
        ];
        let flags = flags.iter().map(|&flag| flag.to_owned());
        let flags: Vec<String> = basis.into_iter().chain(flags).collect();
        let first = ActiveConfig::first(self.parse(&flags), clouds, self.rules.clone());
        let (manager, changer) = self.manager(metrics, config, first);
        self.changer.replace(Some(changer));
        self.run_as(name, manager)
    }

    /// Runs a manager under that name in the journal.
    pub fn run_as(&self, name: &str, manager: Manager) -> Replica {
        Replica::start(name, manager, self.cluster.names().clone())
    }

    fn parse(&self, flags: &[String]) -> Options {
        let (program, provider) = self.program;
        let Ok(Request::Run(line)) =
            options::parse(Table::default(), program, Some(provider), flags)
        else {
            panic!("the flags are wrong: {flags:?}");
        };
        line.options.validate().unwrap();
        line.options
    }

    /// Clients as a manager has them; with `accounts`, one account for each controller.
    pub fn clients(
        &self,
        config: &kube::Config,
        limits: Limits,
        accounts: bool,
        metrics: &Arc<Metrics>,
    ) -> Clients {
        let connector = Connector::simulated(self.world.pipes.clone());
        let agent = Agent {
            program: self.program.0.into(),
            version: "v0".into(),
            commit: "test".into(),
        };
        Clients::new(
            Connection::over(config, connector)
                .unwrap()
                .noting(config, self.shown.clone()),
            agent,
            limits,
            self.world.clock.clone(),
            metrics.clone(),
            accounts,
        )
    }

    fn manager(
        &self,
        metrics: Arc<Metrics>,
        config: &kube::Config,
        first: ActiveConfig,
    ) -> (Manager, ActiveConfigChanger) {
        let client = &first.options.client;
        let limits = Limits::from(client);
        let accounts = client.use_service_account_credentials;
        let (changer, active_configs) = ActiveConfigs::beginning_with(first);
        let manager = Manager {
            clients: self.clients(config, limits, accounts, &metrics),
            active_configs,
            reviews: Reviews::default(),
            metrics,
            clock: self.world.clock.clone(),
            random: self.world.random.fork(),
            set_verbosity: Arc::new(|_| Ok(())),
        };
        (manager, changer)
    }

    /// Stops the manager the way a signal does.
    pub async fn stop(&mut self) {
        let (ended, _) = self.running.take().unwrap().stop().await;
        ended.unwrap();
        self.pass(MOMENT).await;
    }

    /// Kills the manager in the middle of whatever it does.
    pub async fn kill(&mut self) {
        self.running.take().unwrap().kill().await;
        self.pass(MOMENT).await;
    }

    /// Whether the manager still works.
    pub fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(Replica::is_running)
    }
}
