//! Metrics fetched from the service, so that Prometheus needs neither its certificate nor its
//! names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Cluster, error_chain};
use bowline_http::{BaseUrl, Connector, HttpClient, RetryPolicy, Route, Tls, TlsError};
use futures::{StreamExt as _, stream};
use http::HeaderValue;
use http::header::ACCEPT;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;
use uuid::Uuid;

use super::certificate::ClientCertificate;
use super::exposition::{Exposition, Source, together};
use super::targets::{Endpoint, Target};
use super::{Board, Cmon};
use crate::api::Client;
use crate::lock;

pub const EVERY: Duration = Duration::from_secs(30);
/// Machines at the same time: a tenth of what the service allows an account in a second.
pub const AT_ONCE: usize = 10;
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of one machine's page. A real one has a few KiB.
const LARGEST_PAGE: usize = 1024 * 1024;

/// How the service is reached, for as long as certificate and way stay the same.
struct Line {
    certificate: ClientCertificate,
    /// Another one after credentials changed.
    client: Arc<Client>,
    endpoint: Endpoint,
    connector: Connector,
    machines: BTreeMap<Uuid, HttpClient>,
}

/// Machines without metrics, and why: each reason is logged once.
type Silent = BTreeMap<String, String>;

enum Fetched {
    Read(Exposition),
    Unauthorized,
    Failed(String),
}

struct Errand {
    source: Source,
    /// The way to ask, or why there is none.
    client: Result<HttpClient, &'static str>,
}

impl Cmon {
    pub(super) async fn scrape(&self, cluster: &dyn Cluster, board: &Board) {
        let mut line = None;
        let mut ready = board.certificate.subscribe();
        let mut views = board.view.subscribe();
        // Without either there is nothing to fetch; the board lives as long as this.
        let _ = views.wait_for(Option::is_some).await;
        let _ = ready.wait_for(Option::is_some).await;
        let mut silent = Silent::default();
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let errands = self.errands(board, &mut line);
            let fetched: Vec<(Source, Fetched)> = stream::iter(errands)
                .map(|errand| async move { (errand.source, fetch(errand.client).await) })
                .buffered(AT_ONCE)
                .collect()
                .await;
            self.show_metrics(cluster, fetched, &mut silent);
        }
    }

    fn errands(&self, board: &Board, line: &mut Option<Line>) -> Vec<Errand> {
        let Some(view) = board.view.borrow().clone() else {
            return Vec::new();
        };
        let certificate = board.certificate.borrow().clone();
        self.renew_line(line, view.endpoint.as_ref().zip(certificate.as_ref()));
        if let Some(line) = line {
            line.keep_only(&view.targets);
        }
        let errand = |target: &Target| Errand {
            source: target.source(),
            client: if target.runs() {
                let line = line.as_mut();
                let client = line.and_then(|it| it.client_of(target.machine.id));
                client.ok_or("there is no certificate or no metrics service")
            } else {
                Err("the machine does not run")
            },
        };
        view.targets.iter().map(errand).collect()
    }

    fn renew_line(&self, line: &mut Option<Line>, wanted: Option<(&Endpoint, &ClientCertificate)>) {
        let client = self.context.data_center.api.client();
        let is_good = |it: &Line| {
            wanted == Some((&it.endpoint, &it.certificate)) && Arc::ptr_eq(&it.client, &client)
        };
        if line.as_ref().is_some_and(is_good) {
            return;
        }
        *line = wanted.and_then(|(endpoint, certificate)| {
            match self.connector(&client, endpoint, certificate) {
                Ok(connector) => Some(Line {
                    certificate: certificate.clone(),
                    client: Arc::clone(&client),
                    endpoint: endpoint.clone(),
                    connector,
                    machines: BTreeMap::new(),
                }),
                Err(error) => {
                    let error = error_chain(&error);
                    warn!(
                        cloud = self.context.cloud,
                        error, "no way to the metrics service"
                    );
                    None
                }
            }
        });
    }

    /// The way to the service, with the certificate. Machines' names lead to the service's own: the
    /// DNS need not know them.
    fn connector(
        &self,
        client: &Client,
        endpoint: &Endpoint,
        certificate: &ClientCertificate,
    ) -> Result<Connector, TlsError> {
        let connection = client.connection();
        let mut tls = Tls::new()
            .environment(|name| (self.context.environment)(name))
            .clock(self.context.setting.clock.clone())
            .insecure(connection.insecure)
            .client_certificate_pem(
                "the metrics service",
                &certificate.certificate,
                certificate.key.clone(),
            );
        if let Some(authorities) = &connection.authorities {
            tls = tls.authority_pem(&authorities.origin, &authorities.pem);
        }
        let connector = client.connector().with_tls(tls.build()?);
        Ok(connector.found_at(&endpoint.host).deadline(PATIENCE))
    }

    fn show_metrics(
        &self,
        cluster: &dyn Cluster,
        fetched: Vec<(Source, Fetched)>,
        silent: &mut Silent,
    ) {
        silent.retain(|machine, _| fetched.iter().any(|it| it.0.machine == *machine));
        let mut unauthorized = false;
        let mut dropped = 0;
        let mut all = Vec::with_capacity(fetched.len());
        for (source, fetched) in fetched {
            let read = match fetched {
                Fetched::Read(read) => {
                    dropped += read.dropped;
                    silent.remove(&source.machine);
                    Some(read)
                }
                Fetched::Unauthorized => {
                    unauthorized = true;
                    None
                }
                Fetched::Failed(error) => {
                    let before = silent.insert(source.machine.clone(), error.clone());
                    if before.as_ref() != Some(&error) {
                        warn!(node = source.node, error, "no metrics of a machine");
                    }
                    None
                }
            };
            all.push((source, read));
        }
        if unauthorized {
            let why = "the metrics service does not take the certificate: the key must be on the account itself, or belong \
                       to a member of its role administrator";
            self.report_key(cluster, why.to_owned());
        }
        let (page, unfit) = together(&all);
        self.context
            .metrics
            .cmon_dropped
            .inc_by(dropped.saturating_add(unfit));
        lock(&self.shown).metrics = Some(page);
    }
}

impl Line {
    /// Connections to machines that are gone are closed.
    fn keep_only(&mut self, targets: &[Target]) {
        let known: BTreeSet<Uuid> = targets.iter().map(|it| it.machine.id).collect();
        self.machines.retain(|id, _| known.contains(id));
    }

    fn client_of(&mut self, machine: Uuid) -> Option<HttpClient> {
        if let Some(client) = self.machines.get(&machine) {
            return Some(client.clone());
        }
        let base = BaseUrl::parse(&self.endpoint.url(machine)).ok()?;
        let text = HeaderValue::from_static("text/plain;version=0.0.4");
        let client = HttpClient::builder("the metrics service", base, self.connector.clone())
            .header(ACCEPT, text)
            .in_flight(1)
            .request_timeout(PATIENCE)
            .call_deadline(PATIENCE)
            .retry(RetryPolicy::never())
            .body_limit(LARGEST_PAGE)
            .build();
        self.machines.insert(machine, client.clone());
        Some(client)
    }
}

async fn fetch(client: Result<HttpClient, &'static str>) -> Fetched {
    let client = match client {
        Ok(client) => client,
        Err(why) => return Fetched::Failed(why.to_owned()),
    };
    match client.get(Route::new("metrics")).send().await {
        Ok(reply) => match std::str::from_utf8(reply.bytes()) {
            Ok(text) => Fetched::Read(Exposition::parse(text)),
            Err(_) => Fetched::Failed("the answer is no text".to_owned()),
        },
        Err(error) if error.status() == Some(401) => Fetched::Unauthorized,
        Err(error) => Fetched::Failed(error_chain(&error)),
    }
}
