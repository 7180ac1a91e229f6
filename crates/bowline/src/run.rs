//! The program as a cloud controller manager: from a command line to an exit code.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use bowline_controllers::clients::{Agent, Clients, Connection, Limits, load_config};
use bowline_controllers::manager::{CloudRules, DefaultCloud, Manager, Reviews, SetVerbosity};
use bowline_controllers::metrics::{BuildInfo, Metrics};
use bowline_controllers::options::{self, CommandLine, Options, Request};
use bowline_controllers::{ActiveConfig, ActiveConfigs};
use bowline_core::{BalancerRules, Cloud};
use bowline_http::{Background, Clock, Connector, ProxyRules, Random, Tls};
use futures::FutureExt;
use futures::future::BoxFuture;
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

/// What a manager is started with.
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
    let (program, options) = (&job.invocation.program, &job.line.options);
    let (outside, proxies) = reach(program, options, environment).await?;
    let (clock, metrics) = (outside.clock.clone(), outside.metrics.clone());
    let settings = (options, job.configuration.as_ref());
    let connections = Connections::open(outside, settings, Patience::Endless).await?;
    let reviews = reviews(program, options, &proxies, &clock, &metrics).await?;
    Ok(assemble(job, connections, reviews, set_verbosity))
}

/// A manager as the program starts it with these arguments, but in another world than that of the process: simulated time,
/// clouds and API server. What follows its configuration has to run beside it.
pub async fn manager(
    arguments: &[String],
    outside: Outside,
) -> Result<(Manager, BoxFuture<'static, ()>)> {
    let (manager, reload) = build_in(outside, arguments).await?;
    let following = async move {
        if let Some(reload) = reload {
            reload.run(None).await;
        }
    };
    Ok((manager, following.boxed()))
}

/// A manager with these arguments, and what follows its configuration.
pub(crate) async fn build_in(
    outside: Outside,
    arguments: &[String],
) -> Result<(Manager, Option<Reload>)> {
    let invocation = Invocation {
        program: "bowline".to_owned(),
        provider: None,
        arguments: arguments.to_vec(),
    };
    let (asked, configuration) = invocation.read().map_err(|it| anyhow!(it.join("\n")))?;
    let line = match asked {
        Ok(Request::Run(line)) => *line,
        Ok(_) => bail!("the command line does not run a manager"),
        Err(wrong) => bail!(wrong.message),
    };
    line.options.validate()?;
    let settings = (&line.options, configuration.as_ref());
    let connections = Connections::open(outside, settings, Patience::Endless).await?;
    let job = Launch {
        invocation,
        line,
        configuration,
    };
    let set_verbosity: SetVerbosity = Arc::new(|_| Ok(()));
    Ok(assemble(
        job,
        connections,
        Reviews::default(),
        set_verbosity,
    ))
}

fn assemble(
    job: Launch,
    connections: Connections,
    reviews: Reviews,
    set_verbosity: SetVerbosity,
) -> (Manager, Option<Reload>) {
    let Launch {
        invocation,
        line: CommandLine {
            options, values, ..
        },
        configuration,
    } = job;
    let path = options.cloud.config.clone();
    let rules = rules(configuration.as_ref(), &options);
    let first = ActiveConfig::first(options, connections.clouds(), rules);
    let (changer, active_configs) = ActiveConfigs::beginning_with(first);
    let outside = connections.factory.outside.clone();
    let manager = Manager {
        active_configs,
        clients: outside.clients,
        reviews,
        metrics: outside.metrics,
        clock: outside.clock,
        random: outside.random,
        set_verbosity: set_verbosity.clone(),
    };
    let reload = configuration.map(|configuration| {
        let parts = ReloadParts {
            invocation,
            path,
            factory: connections.factory,
            changer,
            set_verbosity,
        };
        let in_use = InUse {
            configuration: Arc::new(configuration),
            resolved: connections.resolved,
            values,
        };
        Reload::new(parts, in_use)
    });
    (manager, reload)
}

/// What a manager works with outside its own memory, and where it counts.
#[derive(Clone)]
pub struct Outside {
    /// The environment of the process.
    pub environment: Environment,
    /// Clients of the cluster.
    pub clients: Clients,
    /// How clouds reach their APIs.
    pub connector: Connector,
    /// The time of day.
    pub clock: Clock,
    /// Jitter.
    pub random: Random,
    pub metrics: Arc<Metrics>,
}

/// Both ends of the work.
pub(crate) struct Connections {
    /// Where the clouds were built.
    factory: CloudFactory,
    /// The secrets that the configuration mentions.
    resolved: Resolved,
}

impl Connections {
    /// Builds the clouds. One is called only if it has to be asked where its API is. With endless patience, one of several
    /// clouds that cannot be built now has a placeholder.
    pub(crate) async fn open(
        outside: Outside,
        (options, configuration): (&Options, Option<&Configuration>),
        patience: Patience,
    ) -> Result<Self> {
        let mut factory = CloudFactory {
            outside,
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
        factory.use_them(clouds);
        Ok(Self { factory, resolved })
    }

    /// Clients of the cluster.
    pub(crate) fn clients(&self) -> &Clients {
        &self.factory.outside.clients
    }

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

/// The ways out of this process, and proxies on them. Nobody is called.
pub(crate) async fn reach(
    program: &str,
    options: &Options,
    environment: Environment,
) -> Result<(Outside, ProxyRules)> {
    let (clock, metrics) = (Clock::system(), Metrics::new());
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
    let outside = Outside {
        environment,
        clients,
        connector: Connector::real(tls, proxies.clone()),
        clock,
        random: Random::from_system(),
        metrics,
    };
    Ok((outside, proxies))
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
