//! The program as a cloud controller manager: from a command line to an exit code.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use bowline_controllers::clients::{Agent, Clients, Connection, Limits, load_config};
use bowline_controllers::manager::{CloudRules, DefaultCloud, Manager, Reviews, SetVerbosity};
use bowline_controllers::metrics::{BuildInfo, Metrics};
use bowline_controllers::options::{self, CommandLine, Options, Request};
use bowline_controllers::{ActiveConfig, ActiveConfigs};
use bowline_core::{BalancerRules, Cloud};
use bowline_http::{Background, Clock, Connector, ProxyRules, Random, Tls};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::cloud_factory::CloudFactory;
use crate::config::{Configuration, Resolved};
use crate::invocation::Invocation;
use crate::output::{complain, fail, tell};
use crate::providers::{self, Environment};
use crate::reload::{InUse, Reload, ReloadParts};
use crate::secrets::Patience;
use crate::{flags, logging, signals};

/// Reads the command line and runs the manager until a signal.
pub(crate) fn main(program: &str, provider: Option<&str>, arguments: &[String]) -> ExitCode {
    let invocation = Invocation {
        program: program.to_owned(),
        provider: provider.map(str::to_owned),
        arguments: arguments.to_vec(),
    };
    let (asked, configuration) = match invocation.read() {
        Ok(both) => both,
        Err(lines) => {
            complain(lines.join("\n"));
            return ExitCode::FAILURE;
        }
    };
    let line = match asked {
        Ok(Request::Run(line)) => line,
        Ok(Request::Help(text)) => return say(&text),
        Ok(Request::Version) => return say(&version()),
        Ok(Request::RawVersion) => return say(&format!("{:?}", build_info())),
        Err(wrong) => {
            if wrong.shows_usage {
                complain(options::usage(flags::table(), program, provider));
            }
            complain(wrong.lines().trim_end());
            return ExitCode::FAILURE;
        }
    };
    let verbosity = logging::start(&line.options.logging);
    let set_verbosity: SetVerbosity = Arc::new(move |level| {
        verbosity.set(level);
        Ok(())
    });
    let environment: Environment = Arc::new(|name| std::env::var(name).ok());
    let ended = block_on(async {
        let stop = CancellationToken::new();
        signals::listen(stop.clone()).context("listening for signals")?;
        let job = Launch {
            invocation,
            line: *line,
            configuration,
        };
        Box::pin(manage(job, environment, set_verbosity, stop)).await
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            fail(&error);
            ExitCode::FAILURE
        }
    }
}

/// What a manager is reported.
pub(crate) struct Launch {
    /// How it was called.
    pub(crate) invocation: Invocation,
    pub(crate) line: CommandLine,
    /// Its own configuration, which the command line names; none: it is told as an original is.
    pub(crate) configuration: Option<Configuration>,
}

/// Runs a manager until `stop`.
pub(crate) async fn manage(
    job: Launch,
    environment: Environment,
    set_verbosity: SetVerbosity,
    stop: CancellationToken,
) -> Result<()> {
    for warning in &job.line.warnings {
        warn!("{warning}");
    }
    if job.line.options.logging.verbosity >= 1 {
        for flag in options::flag_lines(&job.line.values) {
            info!("{flag}");
        }
    }
    job.line.options.validate()?;
    if job.configuration.is_none() {
        providers::named(&job.line.options.cloud.provider)?;
    }
    // Asking where an API is can take a while, and nobody has to wait for that in order to stop.
    let built = Box::pin(build(job, environment, set_verbosity));
    let Some(built) = stop.run_until_cancelled(built).await else {
        return Ok(());
    };
    let (manager, reload) = built?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        clouds = manager.active_configs.first().clouds.len(),
        "Bowline starts"
    );
    let _reloading = reload.map(|reload| Background::start(reload.run(signals::hangups())));
    manager.run(stop).await?;
    info!("Bowline ends");
    Ok(())
}

/// A manager, and what follows its configuration, if it has one.
async fn build(
    job: Launch,
    environment: Environment,
    set_verbosity: SetVerbosity,
) -> Result<(Manager, Option<Reload>)> {
    let Launch {
        invocation,
        line: CommandLine {
            options, values, ..
        },
        configuration,
    } = job;
    let clock = Clock::system();
    let reported = (&options, configuration.as_ref());
    let program = invocation.program.clone();
    let reached = reach(&program, reported, environment, &clock, Patience::Endless).await?;
    let reviews = reviews(
        &program,
        &options,
        &reached.proxies,
        &clock,
        &reached.metrics,
    )
    .await?;
    let path = options.cloud.config.clone();
    let rules = rules(configuration.as_ref(), &options);
    let first = ActiveConfig::first(options, reached.clouds(), rules);
    let (changer, active_configs) = ActiveConfigs::beginning_with(first);
    let manager = Manager {
        active_configs,
        clients: reached.clients,
        reviews,
        metrics: reached.metrics.clone(),
        clock,
        random: reached.random,
        set_verbosity: set_verbosity.clone(),
    };
    let reload = configuration.map(|configuration| {
        let parts = ReloadParts {
            invocation,
            path,
            factory: reached.factory,
            changer,
            metrics: reached.metrics,
            set_verbosity,
        };
        let in_use = InUse {
            text: configuration.text,
            resolved: reached.resolved,
            values,
        };
        Reload::new(parts, in_use)
    });
    Ok((manager, reload))
}

/// Both ends of the work, and what they share.
pub(crate) struct Connections {
    /// Clients of the cluster.
    pub(crate) clients: Clients,
    /// Where the clouds were built.
    factory: CloudFactory,
    /// The secrets that the configuration mentions.
    resolved: Resolved,
    metrics: Arc<Metrics>,
    proxies: ProxyRules,
    random: Random,
}

impl Connections {
    pub(crate) fn clouds(&self) -> Vec<Arc<dyn Cloud>> {
        let clouds = self.factory.clouds.iter();
        clouds.map(|it| it.cloud.clone()).collect()
    }
}

/// What the configuration says about clouds that is not for them.
pub(crate) fn rules(configuration: Option<&Configuration>, options: &Options) -> CloudRules {
    let mut rules = CloudRules {
        balancers: Arc::new(BalancerRules {
            adoption: options.controllers.adoption.clone(),
            ..BalancerRules::default()
        }),
        account: Some(options.cloud.account_fingerprint.clone()).filter(|it| !it.is_empty()),
        ..CloudRules::default()
    };
    let Some(configuration) = configuration else {
        return rules;
    };
    rules.default_cloud = match configuration.default_cloud.clone() {
        Some(name) => DefaultCloud::Named(name),
        None => DefaultCloud::None,
    };
    for cloud in &configuration.clouds {
        rules.guards.insert(cloud.name.clone(), cloud.guard.clone());
        if let Some(account) = cloud.account.clone() {
            rules.accounts.insert(cloud.name.clone(), account);
        }
        if let Some(said) = cloud.balancers.clone() {
            let said = Arc::new(said);
            rules.balancers_by_cloud.insert(cloud.name.clone(), said);
        }
        if let Some(selector) = &cloud.selector {
            let selector = selector.clone();
            rules.selectors.insert(cloud.name.clone(), selector);
        }
    }
    rules
}

/// Sets up the ways to the cluster and to the clouds. The cluster is called only for credentials that are there, a
/// cloud only if it has to be asked where its API is. With endless patience, one of several clouds that cannot be built now
/// has a placeholder.
pub(crate) async fn reach(
    program: &str,
    (options, configuration): (&Options, Option<&Configuration>),
    environment: Environment,
    clock: &Clock,
    patience: Patience,
) -> Result<Connections> {
    let random = Random::from_system();
    let metrics = Metrics::new();
    metrics.build_info(&build_info());
    let proxies = ProxyRules::from_environment(|name| environment(name))?;
    let client = &options.client;
    let config = load_config(&client.kubeconfig, &client.master).await?;
    let clients = Clients::new(
        Connection::open(&config, proxies.clone())?,
        agent(program),
        Limits::from(client),
        clock.clone(),
        metrics.clone(),
        client.use_service_account_credentials,
    );
    let tls = Tls::new().environment(|name| environment(name)).build()?;
    let mut factory = CloudFactory {
        environment,
        connector: Connector::real(tls, proxies.clone()),
        clock: clock.clone(),
        random: random.clone(),
        clients: clients.clone(),
        patience,
        clouds: Vec::new(),
    };
    let (clouds, resolved) = match configuration {
        // The other clouds do not wait for one: what is not there is looked for again while they work.
        Some(configuration) if patience == Patience::Endless => {
            factory.patience = Patience::None;
            factory.begin(configuration, options).await?
        }
        Some(configuration) => {
            let resolver = factory.resolver(Resolved::new());
            let resolved = resolver.resolve(&configuration.clouds).await?;
            let secrets = (&resolved, [].as_slice());
            let clouds = factory.build(configuration, secrets, options).await?;
            (clouds, resolved)
        }
        None => (vec![factory.build_named(options).await?], Resolved::new()),
    };
    factory.use_them(clouds, &metrics);
    Ok(Connections {
        clients,
        factory,
        resolved,
        metrics,
        proxies,
        random,
    })
}

/// The identity of the client that reads secrets of the configuration.
pub(crate) const SECRETS: &str = "configuration";
/// Clients for reviews: of their own kubeconfig, else of the pod, else none.
async fn reviews(
    program: &str,
    options: &Options,
    proxies: &ProxyRules,
    clock: &Clock,
    metrics: &Arc<Metrics>,
) -> Result<Reviews> {
    if options.serving.port == 0 {
        return Ok(Reviews::default());
    }
    let client = async |kubeconfig: &str, identity: &str| -> Result<Option<kube::Client>> {
        let config = if kubeconfig.is_empty() {
            match kube::Config::incluster() {
                Ok(config) => config,
                // Not in a pod: there is nobody to ask.
                Err(_) => return Ok(None),
            }
        } else {
            load_config(kubeconfig, "").await?
        };
        let clients = Clients::new(
            Connection::open(&config, proxies.clone())?,
            agent(program),
            REVIEW_LIMITS,
            clock.clone(),
            metrics.clone(),
            false,
        );
        Ok(Some(clients.root(identity)))
    };
    Ok(Reviews {
        authentication: client(&options.authentication.kubeconfig, "authentication").await?,
        authorization: client(&options.authorization.kubeconfig, "authorization").await?,
    })
}

/// The client limits of reviews, as in every Kubernetes component.
const REVIEW_LIMITS: Limits = Limits {
    qps: 200.0,
    burst: 400,
};

fn agent(program: &str) -> Agent {
    Agent {
        program: program.to_owned(),
        version: format!("v{}", env!("CARGO_PKG_VERSION")),
        commit: option_env!("BOWLINE_COMMIT")
            .unwrap_or("unknown")
            .to_owned(),
    }
}

/// One thread: the work is waiting, and a single thread keeps memory small.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?
        .block_on(work)
}

/// What `--version` prints.
pub(crate) fn version() -> String {
    format!("Bowline v{}", env!("CARGO_PKG_VERSION"))
}

fn say(text: &str) -> ExitCode {
    tell(text);
    ExitCode::SUCCESS
}

/// What is known about this build.
fn build_info() -> BuildInfo {
    let known = |value: Option<&str>| value.unwrap_or("unknown").to_owned();
    BuildInfo {
        build_date: known(option_env!("BOWLINE_BUILD_DATE")),
        compiler: "rustc".to_owned(),
        git_commit: known(option_env!("BOWLINE_COMMIT")),
        git_tree_state: known(option_env!("BOWLINE_TREE_STATE")),
        git_version: format!("v{}", env!("CARGO_PKG_VERSION")),
        go_version: known(option_env!("BOWLINE_RUSTC_VERSION")),
        major: env!("CARGO_PKG_VERSION_MAJOR").to_owned(),
        minor: env!("CARGO_PKG_VERSION_MINOR").to_owned(),
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    }
}
