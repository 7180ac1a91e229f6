//! The control plane: its files, its ports and its processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use bowline_core::error_chain;
use bowline_http::Random;

use crate::accounts;
use crate::arguments::{AUDIT_POLICY, arguments};
use crate::credentials::{self, Keyring};
use crate::error::ControlPlaneError;
use crate::etcd::Etcd;
use crate::folder::Folder;
use crate::ports::Ports;
use crate::process::{End, Process, Signal, Starter, tail};
use crate::ready::not_ready;
use crate::server::Server;
use crate::settings::Settings;

/// How long a start may take. It takes three to six seconds on two cores; a machine that compiles at
/// the same time is several times slower.
const READY_WITHIN: Duration = Duration::from_secs(180);
/// Pause between two looks whether a server is ready.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A start that takes longer is talked about, and again after the same time.
const SLOW: Duration = Duration::from_secs(5);

/// A server that ended without being told to.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{server} ended by itself ({status}); the end of its log:\n{log}")]
pub struct Failure {
    pub server: Server,
    pub status: ExitStatus,
    pub log: String,
}

/// A running control plane.
///
/// [`shutdown`](Self::shutdown) ends it and removes a temporary folder. Dropping it ends it, too, but
/// does not wait until the servers are gone: what they still write stays behind, until the next control
/// plane on this machine removes it.
pub struct ControlPlane {
    settings: Settings,
    ports: Ports,
    /// One command at a time.
    state: Mutex<State>,
    failure: watch::Sender<Option<Failure>>,
    /// After the processes: it goes when they are gone.
    folder: Folder,
}

struct State {
    keyring: Keyring,
    starter: Starter,
    running: BTreeMap<Server, Process>,
    /// How the latest process of each server ended, also one whose start was given up.
    ends: BTreeMap<Server, End>,
    /// Flags beyond ours, as given with the last good start.
    extra: BTreeMap<Server, Vec<String>>,
}

impl ControlPlane {
    /// Starts a control plane, and returns when it serves.
    pub async fn start(settings: Settings) -> Result<Self, ControlPlaneError> {
        let plane = Self::prepare(settings).await?;
        match plane.start_servers().await {
            Ok(()) => Ok(plane),
            Err(error) => {
                plane.shutdown().await;
                Err(error)
            }
        }
    }

    /// Draws ports, makes certificates, writes files. Nothing runs yet.
    pub async fn prepare(settings: Settings) -> Result<Self, ControlPlaneError> {
        let folder = Folder::new(settings.folder.as_deref())?;
        let ports = Ports::draw(&Random::from_system())?;
        let keyring = Keyring::make(folder.path(), &ports.url(Server::ApiServer))?;
        if settings.audit {
            credentials::write(&folder.path().join("audit-policy.yaml"), AUDIT_POLICY)?;
        }
        let starter = Starter::new().await.map_err(ControlPlaneError::NoThread)?;
        Ok(Self {
            settings,
            ports,
            state: Mutex::new(State {
                keyring,
                starter,
                running: BTreeMap::new(),
                ends: BTreeMap::new(),
                extra: BTreeMap::new(),
            }),
            failure: watch::Sender::new(None),
            folder,
        })
    }

    /// Starts the servers that the settings ask for, and returns when they serve.
    pub async fn start_servers(&self) -> Result<(), ControlPlaneError> {
        self.start_server(Server::Etcd, &[]).await?;
        self.start_server(Server::ApiServer, &[]).await?;
        if self.settings.controller_manager {
            self.start_server(Server::ControllerManager, &[]).await?;
        }
        Ok(())
    }

    /// The API server's address.
    pub fn url(&self) -> String {
        self.ports.url(Server::ApiServer)
    }

    /// The folder with all files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        Keyring::admin_kubeconfig(self.folder())
    }

    /// The log of every request's metadata, one JSON object a line, if the settings ask for it.
    pub fn audit_log(&self) -> Option<PathBuf> {
        self.settings.audit.then(|| self.folder().join("audit.log"))
    }

    /// The API server's version, such as `v1.36.4`.
    pub async fn version(&self) -> Result<String, ControlPlaneError> {
        let https = self.state.lock().await.keyring.admin.clone();
        let port = self.ports.of(Server::ApiServer);
        let answer = https.get(port, "/version").await?;
        let parsed: Value = serde_json::from_slice(&answer).unwrap_or_default();
        Ok(parsed["gitVersion"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until a server ends by itself.
    pub async fn failed(&self) -> Failure {
        let mut failure = self.failure.subscribe();
        loop {
            if let Some(failure) = failure.borrow_and_update().clone() {
                return failure;
            }
            // We hold the other side: it cannot be gone.
            let _ = failure.changed().await;
        }
    }

    /// A kubeconfig with a certificate for a user, who is in at most two groups.
    pub async fn user(&self, name: &str, groups: &[&str]) -> Result<PathBuf, ControlPlaneError> {
        let mut state = self.state.lock().await;
        Ok(state.keyring.user(name, groups)?)
    }

    /// A kubeconfig with a token, good for a day, for a service account. The account, and its
    /// namespace, are made if they are not there.
    pub async fn account(&self, namespace: &str, name: &str) -> Result<PathBuf, ControlPlaneError> {
        let mut state = self.state.lock().await;
        let port = self.ports.of(Server::ApiServer);
        let token = accounts::token(&state.keyring.admin, port, namespace, name).await?;
        Ok(state.keyring.account(namespace, name, token)?)
    }

    /// Starts a server, and returns when it serves. The flags are added to ours; without any, it gets
    /// those of its last good start.
    pub async fn start_server(
        &self,
        server: Server,
        flags: &[String],
    ) -> Result<(), ControlPlaneError> {
        let mut state = self.state.lock().await;
        self.start_in(&mut state, server, flags).await
    }

    /// Stops a server with SIGTERM, and returns when it is gone.
    pub async fn stop(&self, server: Server) -> Result<(), ControlPlaneError> {
        self.end(server, Signal::Terminate).await
    }

    /// Stops a server with SIGKILL, and returns when it is gone.
    pub async fn kill(&self, server: Server) -> Result<(), ControlPlaneError> {
        self.end(server, Signal::Kill).await
    }

    async fn end(&self, server: Server, signal: Signal) -> Result<(), ControlPlaneError> {
        let mut state = self.state.lock().await;
        match state.running.remove(&server) {
            Some(process) => {
                process.stop(signal).await;
                Ok(())
            }
            None => Err(ControlPlaneError::NotRunning(server)),
        }
    }

    /// Stops a server with SIGTERM, if it runs, and starts it again on the same port; see
    /// [`start_server`](Self::start_server).
    pub async fn restart(&self, server: Server, flags: &[String]) -> Result<(), ControlPlaneError> {
        let mut state = self.state.lock().await;
        if let Some(process) = state.running.remove(&server) {
            process.stop(Signal::Terminate).await;
        }
        self.start_in(&mut state, server, flags).await
    }

    /// Makes etcd forget all older revisions; gives the one that it still knows.
    pub async fn compact(&self) -> Result<u64, ControlPlaneError> {
        let state = self.state.lock().await;
        Ok(self.etcd(&state.keyring).compact().await?)
    }

    /// Writes an object straight into etcd, past the API server's checks and defaults: a Node of an
    /// age, under `/registry/minions/NAME`. Gives its resource version.
    ///
    /// The API server reads JSON from there as well as its own encoding, and its watches show it.
    pub async fn store(&self, key: &str, object: &Value) -> Result<u64, ControlPlaneError> {
        if object["apiVersion"].is_null() || object["kind"].is_null() {
            return Err(ControlPlaneError::NoKind(key.to_owned()));
        }
        let state = self.state.lock().await;
        let text = object.to_string();
        Ok(self.etcd(&state.keyring).put(key, text.as_bytes()).await?)
    }

    fn etcd<'a>(&self, keyring: &'a Keyring) -> Etcd<'a> {
        Etcd {
            https: &keyring.etcd,
            port: self.ports.of(Server::Etcd),
        }
    }

    /// Ends everything for good. Nothing that the servers keep is needed any more, so it is done the
    /// quick way.
    pub async fn shutdown(self) {
        let state = self.state.into_inner();
        drop(state.running);
        for end in state.ends.into_values() {
            end.await_it().await;
        }
    }

    async fn start_in(
        &self,
        state: &mut State,
        server: Server,
        flags: &[String],
    ) -> Result<(), ControlPlaneError> {
        if state
            .running
            .get(&server)
            .is_some_and(|process| !process.has_ended())
        {
            return Err(ControlPlaneError::RunsAlready(server));
        }
        // One whose start was given up may still hold the port.
        state.running.remove(&server);
        if let Some(end) = state.ends.remove(&server) {
            end.await_it().await;
        }
        let program = self.settings.assets.program(server)?;
        let extra = if flags.is_empty() {
            state.extra.get(&server).cloned().unwrap_or_default()
        } else {
            flags.to_vec()
        };
        let mut all = arguments(server, self.folder(), self.ports, self.settings.audit);
        all.extend(extra.iter().cloned());
        let mut process = state
            .starter
            .start(server, &program, &all, self.folder())
            .await
            .map_err(|source| ControlPlaneError::NotStarted { program, source })?;
        state.ends.insert(server, process.end());
        if let Err(error) = self.await_ready(&state.keyring, &mut process).await {
            process.stop(Signal::Kill).await;
            return Err(error);
        }
        state.running.insert(server, process);
        state.extra.insert(server, extra);
        Ok(())
    }

    /// Waits until the server is ready, or gone, or out of time.
    async fn await_ready(
        &self,
        keyring: &Keyring,
        process: &mut Process,
    ) -> Result<(), ControlPlaneError> {
        let server = process.server;
        let begun = Instant::now();
        let mut talk = begun + SLOW;
        loop {
            let reason = match not_ready(server, keyring, self.ports).await {
                Ok(()) => match process.is_serving() {
                    Some(surprise) => {
                        self.report_surprise(process, surprise);
                        return Ok(());
                    }
                    None => return Err(ended(process)),
                },
                Err(reason) => reason,
            };
            if process.has_ended() {
                return Err(ended(process));
            }
            let now = Instant::now();
            if now >= begun + READY_WITHIN {
                return Err(ControlPlaneError::NotReady {
                    server,
                    within: READY_WITHIN,
                    log: process.tail(),
                    source: Box::new(reason),
                });
            }
            if now >= talk {
                talk = now + SLOW;
                let seconds = (now - begun).as_secs();
                let reason = error_chain(&reason);
                tracing::info!("{server} is not ready after {seconds} s: {reason}");
            }
            // Its end is seen at once.
            let _ = tokio::time::timeout(LOOK_EVERY, process.end().await_it()).await;
        }
    }

    /// Tells [`failed`](Self::failed) when the process ends by itself.
    fn report_surprise(
        &self,
        process: &Process,
        surprise: tokio::sync::oneshot::Receiver<ExitStatus>,
    ) {
        let (server, log) = (process.server, process.log().to_owned());
        let failure = self.failure.clone();
        tokio::spawn(async move {
            // An error means that it ended as it was told to.
            if let Ok(status) = surprise.await {
                let log = tail(&log);
                failure.send_replace(Some(Failure {
                    server,
                    status,
                    log,
                }));
            }
        });
    }
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlane")
            .field("url", &self.url())
            .field("folder", &self.folder())
            .finish_non_exhaustive()
    }
}

fn ended(process: &Process) -> ControlPlaneError {
    ControlPlaneError::EndedEarly {
        server: process.server,
        log: process.tail(),
    }
}
