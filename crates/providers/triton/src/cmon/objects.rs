//! What the cluster is given to reach the metrics service with: a Secret with a client certificate, and a ConfigMap with
//! what to write into the configuration of Prometheus.

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
use crate::site::DataCenter;

/// The Secret with the certificate of the first data center, and of all with the same account and key. Another's has the
/// name of its profile behind.
pub const SECRET: &str = "triton-cmon-client";
/// The ConfigMap.
pub const CONFIG_MAP: &str = "triton-cmon-scrape";
/// Its two ways, as keys.
const OUR_LIST: &str = "http-sd.yaml";
const THEIR_LIST: &str = "triton-sd.yaml";
/// What a Secret with a certificate is.
const TLS: ManagedObjectKind = ManagedObjectKind::Secret("kubernetes.io/tls");
/// How often objects are read although nothing is known to have changed: somebody may have edited or deleted them.
const REREAD: Duration = Duration::from_secs(600);

/// What is told.
const KEY_NOT_USABLE: &str = "CMONKeyNotUsable";
const NOT_OURS: &str = "CMONObjectNotOurs";

/// What was last kept, and when.
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

    /// Makes every data center have a good certificate, if it can. Says when the first has to be renewed.
    async fn renew(&self, cluster: &dyn Cluster, board: &Board) -> Duration {
        let mut certificates = board.certificates.borrow().clone();
        let mut pause = REREAD;
        for (at, known) in certificates.iter_mut().enumerate() {
            match self.certificate(cluster, at, known.take()).await {
                Ok(certificate) => {
                    let left = certificate.renewal().duration_since(self.now(at));
                    pause = pause.min(Duration::try_from(left).unwrap_or(AGAIN));
                    *known = Some(certificate);
                }
                Err(error @ CertificateError::KeyNotUsable) => {
                    self.tell_key(cluster, at, error.to_string());
                }
                Err(error) => {
                    let reason = error_chain(&error);
                    warn!(
                        cloud = self.cloud,
                        reason, "no certificate for the metrics service"
                    );
                }
            }
        }
        board.certificates.send_if_modified(|known| {
            let changed = *known != certificates;
            *known = certificates;
            changed
        });
        pause
    }

    /// The time as the data center has it: that is what certificates are judged by.
    fn now(&self, at: usize) -> jiff::Timestamp {
        let client = self.sites[at].api.client();
        client.signer().offset().correct(self.clock.now())
    }

    /// The certificate that there is, if it is good; the one in the Secret, if that is; or a new one.
    async fn certificate(
        &self,
        cluster: &dyn Cluster,
        at: usize,
        known: Option<ClientCertificate>,
    ) -> Result<ClientCertificate, CertificateError> {
        let (client, now) = (self.sites[at].api.client(), self.now(at));
        let connection = client.connection();
        let (account, key) = (connection.login(), &connection.key);
        let is_good = |it: &ClientCertificate| it.is_good(account, key, now);
        if let Some(known) = known.filter(|it| is_good(it)) {
            return Ok(known);
        }
        if let Some(stored) = self.stored(cluster, at).await.filter(|it| is_good(it)) {
            return Ok(stored);
        }
        let issued = ClientCertificate::issue(account, key, now)?;
        let until = issued.renewal();
        info!(cloud = self.cloud, account, %until, "a new certificate for the metrics service");
        Ok(issued)
    }

    /// The certificate in the Secret; none if there is none that can be read. Why is told when it is to be written.
    async fn stored(&self, cluster: &dyn Cluster, at: usize) -> Option<ClientCertificate> {
        let data = cluster.read(TLS, &self.secret_name(at)).await.ok()??;
        ClientCertificate::read(data.get("tls.crt")?.reveal(), data.get("tls.key")?)
    }

    /// The Secret of a data center.
    fn secret_name(&self, at: usize) -> String {
        let identity = |site: &DataCenter| {
            let client = site.api.client();
            let connection = client.connection();
            let fingerprint = connection.key.fingerprint().md5();
            (connection.login().to_owned(), fingerprint)
        };
        let site = &self.sites[at];
        if at == 0 || identity(site) == identity(&self.sites[0]) {
            SECRET.to_owned()
        } else {
            format!("{SECRET}-{}", site.name)
        }
    }

    /// Keeps the objects; says whether all is well.
    async fn keep(
        &self,
        cluster: &dyn Cluster,
        view: &View,
        board: &Board,
        last: &mut LastKept,
    ) -> bool {
        let certificates = board.certificates.borrow().clone();
        let wanted = self.objects(cluster, view, &certificates);
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
                        info!(cloud = self.cloud, kind, name, "written");
                    }
                }
                Err(error @ ClusterError::Foreign { .. }) => {
                    let regarding = about(cluster, kind, name);
                    self.tell(cluster, regarding, NOT_OURS, error.to_string());
                }
                Err(error) => {
                    let error = error_chain(&error);
                    warn!(cloud = self.cloud, error, "not kept");
                    well = false;
                }
            }
        }
        *last = well.then(|| (Instant::now(), wanted));
        well
    }

    /// All objects as they should be.
    fn objects(
        &self,
        cluster: &dyn Cluster,
        view: &View,
        certificates: &[Option<ClientCertificate>],
    ) -> Vec<ManagedObject> {
        let mut objects = BTreeMap::new();
        let mut ends: Vec<(&Endpoint, usize, String)> = Vec::new();
        for (at, (certificate, site)) in certificates.iter().zip(&view.sites).enumerate() {
            let name = self.secret_name(at);
            if let Some(certificate) = certificate {
                // One certificate serves all that have the same account and key.
                let data = || self.secret(at, certificate);
                objects.entry((TLS, name.clone())).or_insert_with(data);
            }
            ends.extend(site.endpoint.as_ref().map(|it| (it, at, name)));
        }
        if !ends.is_empty() {
            let name = (ManagedObjectKind::ConfigMap, CONFIG_MAP.to_owned());
            objects.insert(name, self.snippets(cluster, &ends));
        }
        objects
            .into_iter()
            .map(|((kind, name), data)| ManagedObject { kind, name, data })
            .collect()
    }

    fn secret(&self, at: usize, certificate: &ClientCertificate) -> BTreeMap<String, Secret> {
        let client = self.sites[at].api.client();
        let authorities = client.connection().authorities.as_ref();
        let authorities = authorities.map(|it| ("ca.crt".to_owned(), Secret::new(&it.pem)));
        let certificate = [
            ("tls.crt".to_owned(), Secret::new(&certificate.certificate)),
            ("tls.key".to_owned(), certificate.key.clone()),
        ];
        certificate.into_iter().chain(authorities).collect()
    }

    fn snippets(
        &self,
        cluster: &dyn Cluster,
        ends: &[(&Endpoint, usize, String)],
    ) -> BTreeMap<String, Secret> {
        let clients: Vec<_> = ends
            .iter()
            .map(|(_, at, _)| self.sites[*at].api.client())
            .collect();
        let mut places = Vec::with_capacity(ends.len());
        for ((endpoint, _, secret), client) in ends.iter().zip(&clients) {
            let connection = client.connection();
            places.push(Place {
                endpoint,
                account: connection.login(),
                secret,
                has_authorities: connection.authorities.is_some(),
                insecure: connection.insecure,
            });
        }
        let page = format!("{}{DISCOVERY_PAGE}{}", cluster.address(), self.cloud);
        let ours = places.first().map(|first| by_our_list(&page, first));
        let theirs = by_the_service(&self.group, &places);
        let text = |key: &str, text: String| (key.to_owned(), Secret::new(text));
        let ours = ours.map(|it| text(OUR_LIST, it));
        ours.into_iter().chain([text(THEIR_LIST, theirs)]).collect()
    }

    /// Tells that the metrics service does not take the key.
    pub(super) fn tell_key(&self, cluster: &dyn Cluster, at: usize, why: String) {
        let regarding = about(cluster, "Secret", &self.secret_name(at));
        self.tell(cluster, regarding, KEY_NOT_USABLE, why);
    }
}

fn about(cluster: &dyn Cluster, kind: &'static str, name: &str) -> Regarding {
    Regarding {
        namespace: cluster.namespace().to_owned(),
        kind,
        name: name.to_owned(),
        uid: String::new(),
    }
}
