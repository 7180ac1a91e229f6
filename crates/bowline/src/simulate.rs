//! `bowline simulate`: the simulators as servers of their own, for anybody's client.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bowline_controllers::stop_signal;
use bowline_simulator::simulate::{
    self, CloudscaleOptions, ExoscaleOptions, KubernetesOptions, TalosOptions, TritonOptions,
    XenOrchestraOptions,
};

use crate::output::tell;
use crate::{run, signals};

/// The simulated clouds and the Kubernetes API as servers of their own.
///
/// For any controller manager, SDK or command line. Each has a journal of every call
/// (GET /_sim/journal), its whole state (GET /_sim/state) and a control handle (POST /_sim/…),
/// without a password: keep it on loopback. docs/simulators.md has the details.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Arguments {
    /// The cloudscale.ch API
    Cloudscale {
        /// Where to listen; port 0 picks a free one
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18080")]
        listen: SocketAddr,
        /// What the cloud contains: machines, networks, tokens, timings, faults
        #[arg(long, value_name = "FILE")]
        fixture: Option<PathBuf>,
        /// Draw names and addresses from this seed
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
    },
    /// Exoscale's API v2
    Exoscale {
        /// Where to listen; port 0 picks a free one
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18081")]
        listen: SocketAddr,
        /// What the cloud contains: zones, instances, pools, load balancers, keys, timings, faults
        #[arg(long, value_name = "FILE")]
        fixture: Option<PathBuf>,
        /// Also serve what an instance can ask about itself, there
        #[arg(long, value_name = "ADDRESS")]
        metadata: Option<SocketAddr>,
        /// Draw names and addresses from this seed
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
    },
    /// Triton's CloudAPI, with the change feed
    Triton {
        /// Where to listen; port 0 picks a free one
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18084")]
        listen: SocketAddr,
        /// What the cloud contains: accounts, networks, machines, timings, switches, faults
        #[arg(long, value_name = "FILE")]
        fixture: Option<PathBuf>,
        /// Also answer DNS there, over UDP and TCP
        #[arg(long, value_name = "ADDRESS")]
        dns: Option<SocketAddr>,
        /// Also serve metrics (CMON) there, over TLS
        #[arg(long, value_name = "ADDRESS")]
        cmon: Option<SocketAddr>,
        /// Draw names and addresses from this seed
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
    },
    /// The API of Talos machines: a whole cluster of them
    Talos {
        /// Where to listen; port 0 picks a free one
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:15000")]
        listen: SocketAddr,
        /// Where the journal, the state and the control handle are
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:15001")]
        control: SocketAddr,
        /// Where to write the talosconfig of a reader
        #[arg(long, value_name = "FILE", default_value = "bowline.talosconfig")]
        talosconfig: PathBuf,
        /// The machines: addresses, platforms, stages, timings, faults
        #[arg(long, value_name = "FILE")]
        fixture: Option<PathBuf>,
        /// Draw keys and ids from this seed
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
    },
    /// Xen Orchestra's REST API v0, its events and its socket
    Xenorchestra {
        /// Where to listen; port 0 picks a free one
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18083")]
        listen: SocketAddr,
        /// What there is: pools, hosts, VMs, users, tokens, timings, faults
        #[arg(long, value_name = "FILE")]
        fixture: Option<PathBuf>,
        /// Serve TLS, with a certificate that nobody signed
        #[arg(long)]
        tls: bool,
        /// Draw names and addresses from this seed
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
    },
    /// A Kubernetes API server in memory
    Kubernetes {
        /// Where to listen; port 0 picks a free one
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:16443")]
        listen: SocketAddr,
        /// Where to write the kubeconfig of an administrator
        #[arg(long, value_name = "FILE", default_value = "bowline.kubeconfig")]
        kubeconfig: PathBuf,
        /// Objects that the cluster starts with: a stream of YAML documents
        #[arg(long, value_name = "FILE")]
        fixture: Option<PathBuf>,
        /// Draw uids and addresses from this seed
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
    },
}

/// Serves until Ctrl-C.
#[expect(clippy::too_many_lines, reason = "one arm for each server, all alike")]
pub(crate) fn main(arguments: &Arguments) -> Result<ExitCode> {
    run::block_on(async {
        let (handle, stop) = stop_signal();
        signals::listen(handle).context("listening for signals")?;
        match arguments {
            Arguments::Cloudscale {
                listen,
                fixture,
                seed,
            } => {
                let options = CloudscaleOptions {
                    listen: *listen,
                    fixture: fixture.clone(),
                    seed: *seed,
                };
                let simulation = simulate::cloudscale(options).await?;
                tell(&simulation.greeting);
                stop.given().await;
                simulation.server.shutdown().await;
            }
            Arguments::Exoscale {
                listen,
                fixture,
                metadata,
                seed,
            } => {
                let options = ExoscaleOptions {
                    listen: *listen,
                    fixture: fixture.clone(),
                    metadata: *metadata,
                    seed: *seed,
                };
                let simulation = simulate::exoscale(options).await?;
                tell(&simulation.greeting);
                stop.given().await;
                simulation.shutdown().await;
            }
            Arguments::Triton {
                listen,
                fixture,
                dns,
                cmon,
                seed,
            } => {
                let options = TritonOptions {
                    listen: *listen,
                    fixture: fixture.clone(),
                    dns: *dns,
                    cmon: *cmon,
                    seed: *seed,
                };
                let simulation = simulate::triton(options).await?;
                tell(&simulation.greeting);
                stop.given().await;
                simulation.shutdown().await;
            }
            Arguments::Talos {
                listen,
                control,
                talosconfig,
                fixture,
                seed,
            } => {
                let options = TalosOptions {
                    listen: *listen,
                    control: *control,
                    talosconfig: talosconfig.clone(),
                    fixture: fixture.clone(),
                    seed: *seed,
                };
                let simulation = simulate::talos(options).await?;
                tell(&simulation.greeting);
                stop.given().await;
                simulation.shutdown().await;
            }
            Arguments::Xenorchestra {
                listen,
                fixture,
                tls,
                seed,
            } => {
                let options = XenOrchestraOptions {
                    listen: *listen,
                    fixture: fixture.clone(),
                    tls: *tls,
                    seed: *seed,
                };
                let simulation = simulate::xenorchestra(options).await?;
                tell(&simulation.greeting);
                stop.given().await;
                simulation.server.shutdown().await;
            }
            Arguments::Kubernetes {
                listen,
                kubeconfig,
                fixture,
                seed,
            } => {
                let options = KubernetesOptions {
                    listen: *listen,
                    kubeconfig: kubeconfig.clone(),
                    fixture: fixture.clone(),
                    seed: *seed,
                };
                let simulation = simulate::kubernetes(options).await?;
                tell(&simulation.greeting);
                stop.given().await;
                simulation.cluster.shutdown().await;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}
