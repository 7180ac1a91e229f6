//! The program as a cloud controller manager: from a command line to an exit code.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use bowline_controllers::clients::{Agent, Clients, Connection, Limits, load_config};
use bowline_controllers::manager::{Manager, Reviews, SetVerbosity};
use bowline_controllers::metrics::{BuildInfo, Metrics};
use bowline_controllers::options::{
    self, CLOUD_NODE, CLOUD_NODE_LIFECYCLE, CommandLine, NODE_IPAM, Options, Request,
};
use bowline_controllers::{Stop, stop_signal};
use bowline_core::{Cloud, GuardPolicy};
use bowline_http::{Clock, Connector, ProxyRules, Random, Tls};
use tracing::{info, warn};

use crate::output::{complain, fail, tell};
use crate::providers::{self, Environment, Surroundings};
use crate::triton::secret::Patience;
use crate::{flags, logging, signals};

/// Reads the command line and runs the manager until a signal.
pub(crate) fn main(program: &str, provider: Option<&str>, arguments: &[String]) -> ExitCode {
    let line = match options::parse(flags::table(), program, provider, arguments) {
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
        let (handle, stop) = stop_signal();
        signals::listen(handle).context("listening for signals")?;
        Box::pin(manage(program, *line, environment, set_verbosity, stop)).await
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            fail(&error);
            ExitCode::FAILURE
        }
    }
}

/// Runs a manager with that command line until `stop`.
pub(crate) async fn manage(
    program: &str,
    line: CommandLine,
    environment: Environment,
    set_verbosity: SetVerbosity,
    stop: Stop,
) -> Result<()> {
    let CommandLine {
        options,
        values,
        warnings,
    } = line;
    for warning in warnings {
        warn!("{warning}");
    }
    if options.logging.verbosity >= 1 {
        for flag in options::flag_lines(&values) {
            info!("{flag}");
        }
    }
    options.validate()?;
    providers::named(&options.cloud.provider)?;
    // Asking where an API is can take a while, and nobody has to wait for that in order to stop.
    let built = build(program, options, environment, set_verbosity);
    let Some(manager) = stop.unless_given(built).await else {
        return Ok(());
    };
    let manager = manager?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        clouds = manager.clouds.len(),
        "Bowline starts"
    );
    manager.run(stop).await?;
    info!("Bowline ends");
    Ok(())
}

async fn build(
    program: &str,
    options: Options,
    environment: Environment,
    set_verbosity: SetVerbosity,
) -> Result<Manager> {
    let clock = Clock::system();
    let reached = reach(program, &options, environment, &clock, Patience::Endless).await?;
    let Reached {
        clients,
        cloud,
        metrics,
        proxies,
        random,
    } = reached;
    let reviews = reviews(program, &options, &proxies, &clock, &metrics).await?;
    Ok(Manager {
        options,
        clouds: vec![cloud],
        clients,
        reviews,
        metrics,
        clock,
        random,
        guard: GuardPolicy::default(),
        set_verbosity,
    })
}

/// Both ends of the work, and what they share.
pub(crate) struct Reached {
    /// Clients of the cluster.
    pub(crate) clients: Clients,
    /// The cloud.
    pub(crate) cloud: Arc<dyn Cloud>,
    metrics: Arc<Metrics>,
    proxies: ProxyRules,
    random: Random,
}

/// Sets up the ways to the cluster and to the cloud. The cluster is not called yet, unless a cloud's
/// credentials are there; a cloud only if it has to be asked where its API is.
pub(crate) async fn reach(
    program: &str,
    options: &Options,
    environment: Environment,
    clock: &Clock,
    patience: Patience,
) -> Result<Reached> {
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
    let cloud = providers::build(
        &options.cloud.provider,
        &Surroundings {
            environment,
            connector: Connector::real(tls, proxies.clone()),
            clock: clock.clone(),
            random: random.clone(),
            metrics: metrics.clone(),
            config_file: options.cloud.config_file.clone(),
            needs_machines: needs_machines(options),
            cluster_name: options.cloud.cluster_name.clone(),
            flags: options.cloud.own.clone(),
            clients: clients.clone(),
            patience,
        },
    )
    .await?;
    Ok(Reached {
        clients,
        cloud,
        metrics,
        proxies,
        random,
    })
}

/// Whether a controller runs that asks the cloud about machines or their networks. Services have members that
/// are machines too, but a cloud without load balancers is not asked about them.
fn needs_machines(options: &Options) -> bool {
    let set = options.controllers.set();
    let runs = |name| set.enabled(name);
    runs(CLOUD_NODE) || runs(CLOUD_NODE_LIFECYCLE) || (runs(NODE_IPAM) && options.ipam.allocate)
}

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
