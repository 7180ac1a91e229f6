//! What the cluster is given to reach the metrics service with: a Secret with a client certificate,
//! and a ConfigMap with what to write into the configuration of Prometheus.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_core::{
    Cluster, ClusterError, Kept, ManagedObject, ManagedObjectKind, Regarding, Secret, error_chain,
};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::certificate::{CertificateError, ClientCertificate};
use super::snippet::{Place, by_our_list, by_the_service};
use super::targets::Endpoint;
use super::{AGAIN, Board, Cmon, DISCOVERY_PAGE, View};

pub const SECRET: &str = "triton-cmon-client";
pub const CONFIG_MAP: &str = "triton-cmon-scrape";
const OUR_LIST: &str = "http-sd.yaml";
const THEIR_LIST: &str = "triton-sd.yaml";
/// What a Secret with a certificate is.
const TLS: ManagedObjectKind = ManagedObjectKind::Secret("kubernetes.io/tls");
/// How often objects are read although nothing is known to have changed: somebody may have edited
/// or deleted them.
const REREAD: Duration = Duration::from_secs(600);

const KEY_NOT_USABLE: &str = "CMONKeyNotUsable";
const NOT_OURS: &str = "CMONObjectNotOurs";

type LastKept = Option<(Instant, Vec<ManagedObject>)>;

impl Cmon {
    /// Keeps certificates, and the objects that they are in.
    pub(super) async fn keep_objects(&self, cluster: &dyn Cluster, board: &Board) {
        let mut views = board.view.subscribe();
        let mut last: LastKept = None;
        loop {
            let view = views.borrow_and_update().clone();
            let renewal = self.renew(cluster, board).await;
            let kept = match view {
                Some(view) => self.keep(cluster, &view, board, &mut last).await,
                None => true,
            };
            let pause = if kept { renewal.min(REREAD) } else { AGAIN };
            tokio::select! {
                biased;
                // The board lives as long as this.
                _ = views.changed() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Makes sure of a good certificate, if there can be one. Returns when it has to be renewed.
    async fn renew(&self, cluster: &dyn Cluster, board: &Board) -> Duration {
        let known = board.certificate.borrow().clone();
        let certificate = match self.certificate(cluster, known).await {
            Ok(certificate) => Some(certificate),
            Err(error @ CertificateError::KeyNotUsable) => {
                self.report_key(cluster, error.to_string());
                None
            }
            Err(error) => {
                let reason = error_chain(&error);
                warn!(
                    cloud = self.context.cloud,
                    reason, "no certificate for the metrics service"
                );
                None
            }
        };
        let pause = certificate.as_ref().map_or(REREAD, |certificate| {
            let left = certificate.renewal().duration_since(self.now());
            REREAD.min(Duration::try_from(left).unwrap_or(AGAIN))
        });
        board.certificate.send_if_modified(|known| {
            let changed = *known != certificate;
            *known = certificate;
            changed
        });
        pause
    }

    /// The time as the data center has it: that is what certificates are judged by.
    fn now(&self) -> jiff::Timestamp {
        let client = self.context.data_center.api.client();
        client
            .signer()
            .offset()
            .correct(self.context.setting.clock.now())
    }

    /// The certificate that there is, if it is good; the one in the Secret, if that is; or a new
    /// one.
    async fn certificate(
        &self,
        cluster: &dyn Cluster,
        known: Option<ClientCertificate>,
    ) -> Result<ClientCertificate, CertificateError> {
        let (client, now) = (self.context.data_center.api.client(), self.now());
        let connection = client.connection();
        let (account, key) = (connection.login(), &connection.key);
        let is_good = |it: &ClientCertificate| it.is_good(account, key, now);
        if let Some(known) = known.filter(|it| is_good(it)) {
            return Ok(known);
        }
        if let Some(stored) = stored(cluster).await.filter(|it| is_good(it)) {
            return Ok(stored);
        }
        let issued = ClientCertificate::issue(account, key, now)?;
        let until = issued.renewal();
        info!(cloud = self.context.cloud, account, %until, "a new certificate for the metrics service");
        Ok(issued)
    }

    /// Keeps the objects; returns whether all is well.
    async fn keep(
        &self,
        cluster: &dyn Cluster,
        view: &View,
        board: &Board,
        last: &mut LastKept,
    ) -> bool {
        let certificate = board.certificate.borrow().clone();
        let wanted = self.objects(cluster, view, certificate.as_ref());
        let is_known = |(read, kept): &(Instant, Vec<ManagedObject>)| {
            *kept == wanted && read.elapsed() < REREAD
        };
        if last.as_ref().is_some_and(is_known) {
            return true;
        }
        let mut well = true;
        for object in &wanted {
            let (kind, name) = (object.kind.as_str(), object.name.as_str());
            match cluster.keep(object).await {
                Ok(kept) => {
                    self.forget(kind, cluster.namespace(), name, &[NOT_OURS]);
                    if kept == Kept::Written {
                        info!(cloud = self.context.cloud, kind, name, "written");
                    }
                }
                Err(error @ ClusterError::Foreign { .. }) => {
                    let regarding = about(cluster, kind, name);
                    self.tell(cluster, regarding, NOT_OURS, error.to_string());
                }
                Err(error) => {
                    let error = error_chain(&error);
                    warn!(cloud = self.context.cloud, error, "not kept");
                    well = false;
                }
            }
        }
        *last = well.then(|| (Instant::now(), wanted));
        well
    }

    fn objects(
        &self,
        cluster: &dyn Cluster,
        view: &View,
        certificate: Option<&ClientCertificate>,
    ) -> Vec<ManagedObject> {
        let object = |kind, name: &str, data| ManagedObject {
            kind,
            name: name.to_owned(),
            data,
        };
        let secret = certificate.map(|it| object(TLS, SECRET, self.secret(it)));
        let scrape = view.endpoint.as_ref().map(|endpoint| {
            let data = self.snippets(cluster, endpoint);
            object(ManagedObjectKind::ConfigMap, CONFIG_MAP, data)
        });
        secret.into_iter().chain(scrape).collect()
    }

    fn secret(&self, certificate: &ClientCertificate) -> BTreeMap<String, Secret> {
        let client = self.context.data_center.api.client();
        let authorities = client.connection().authorities.as_ref();
        let authorities = authorities.map(|it| ("ca.crt".to_owned(), Secret::new(&it.pem)));
        let certificate = [
            ("tls.crt".to_owned(), Secret::new(&certificate.certificate)),
            ("tls.key".to_owned(), certificate.key.clone()),
        ];
        certificate.into_iter().chain(authorities).collect()
    }

    fn snippets(&self, cluster: &dyn Cluster, endpoint: &Endpoint) -> BTreeMap<String, Secret> {
        let client = self.context.data_center.api.client();
        let connection = client.connection();
        let place = Place {
            endpoint,
            account: connection.login(),
            secret: SECRET,
            has_authorities: connection.authorities.is_some(),
            insecure: connection.insecure,
        };
        let page = format!(
            "{}{DISCOVERY_PAGE}{}",
            cluster.address(),
            self.context.cloud
        );
        let texts = [
            (OUR_LIST, by_our_list(&page, &place)),
            (THEIR_LIST, by_the_service(&self.group, &place)),
        ];
        texts
            .map(|(key, text)| (key.to_owned(), Secret::new(text)))
            .into()
    }

    /// Reports that the metrics service does not take the key.
    pub(super) fn report_key(&self, cluster: &dyn Cluster, why: String) {
        let regarding = about(cluster, "Secret", SECRET);
        self.tell(cluster, regarding, KEY_NOT_USABLE, why);
    }
}

/// The certificate in the Secret; none if there is none that can be read. The write reports why.
async fn stored(cluster: &dyn Cluster) -> Option<ClientCertificate> {
    let data = cluster.read(TLS, SECRET).await.ok()??;
    ClientCertificate::read(data.get("tls.crt")?.reveal(), data.get("tls.key")?)
}

fn about(cluster: &dyn Cluster, kind: &'static str, name: &str) -> Regarding {
    Regarding {
        namespace: cluster.namespace().to_owned(),
        kind,
        name: name.to_owned(),
        uid: String::new(),
    }
}
