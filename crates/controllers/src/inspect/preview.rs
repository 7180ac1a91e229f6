//! `bowline plan`: plans that are not carried out. Reads the cluster once, then the clouds; writes nothing.

mod cluster;
mod documents;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_core::{
    AccountHold, AccountState, AppliedFile, BalancerRequest, CLEANUP_FINALIZER, Change, Cloud,
    CloudName, DraftError, Endpoints, Goal, Ingress, Newcomer, Node, Outlook, Plan, PlanBasis,
    Preview, Previews, Publication, Responsibility, Service, ServiceKey, account_hold, as_applied,
    ingress_to_write, name_list, remembers,
};
use bowline_http::Clock;
use futures::future::join_all;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

pub use self::cluster::PreviewError;
use self::cluster::Seen;
pub use self::documents::{Document, DocumentError, documents};
use crate::clouds::accounts::{Accounts, Departed};
use crate::clouds::cloud_health::CloudHealth;
use crate::clouds::machines::Machines;
use crate::clouds::owners::OwnerDiscovery;
use crate::clouds::resolver::{CloudRules, OwnershipResolver};
use crate::inspect::departed::departed;
use crate::kube::election::{Fence, LeaseName};
use crate::kube::endpoints::{Slice, depends_on_endpoints, endpoints};
use crate::kube::objects::ServiceObject;
use crate::kube::store::StoreView;
use crate::loops::service::account::waits_for;
use crate::loops::service::clouds::ServiceClouds;
use crate::loops::service::conditions;
use crate::loops::service::request::ClusterFacts;
use tokio_util::sync::CancellationToken;

/// Services that are planned at the same time: clouds answer them from the same lists.
const AT_ONCE: usize = 8;

/// Which Services are asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreviewScope {
    /// All that have, or are to have, a load balancer.
    All,
    /// These.
    Named(Vec<ServiceKey>),
    /// Those of the files.
    OfFiles,
}

/// What a preview is made with.
pub struct PreviewParts {
    /// Reads the cluster.
    pub client: kube::Client,
    /// The clouds, in configured order.
    pub clouds: Vec<Arc<dyn Cloud>>,
    /// What is configured about them.
    pub rules: Arc<CloudRules>,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// `--cluster-uid`.
    pub cluster_uid: Option<String>,
    /// The lease of the manager, which knows the accounts that left the configuration.
    pub lease: LeaseName,
    /// When a Service that is new would be made.
    pub clock: Clock,
}

/// Says what would be done about Services as they are in the cluster, with those of `files` applied
/// over them.
pub async fn preview(
    parts: &PreviewParts,
    asked: &PreviewScope,
    files: &[Document],
) -> Result<Previews, PreviewError> {
    let resolver = OwnershipResolver::new(&parts.clouds, parts.rules.clone());
    let needs = ServiceClouds::new(&resolver, Fence::observing()).all_needs();
    let mut seen = cluster::read(&parts.client, needs, parts.cluster_uid.as_deref()).await?;
    let departed = departed(&parts.client, &parts.lease, &parts.clouds).await;
    let departed = departed.unwrap_or_else(|error| {
        let remark = format!("accounts that left the configuration are not known: {error}");
        seen.remarks.push(remark);
        Departed::new()
    });
    let machines = (Machines::of(seen.nodes.objects.values()), departed);
    let resolver = OwnershipResolver::seeing(&parts.clouds, parts.rules.clone(), machines);
    let clouds = ServiceClouds::new(&resolver, Fence::observing());
    let (remarks, accounts) = ask(&resolver, &seen.nodes).await;
    seen.remarks.extend(remarks);
    let mut stage = Stage::new(parts, clouds, accounts, seen);
    stage.apply(files, &parts.clock)?;
    let keys = stage.keys(asked)?;
    let previews: Vec<Vec<Preview>> = stream::iter(keys)
        .map(|key| stage.of_service(key))
        .buffered(AT_ONCE)
        .collect()
        .await;
    let previews = previews.into_iter().flatten().collect();
    Ok(Previews::new(previews, stage.remarks))
}

/// Asks the clouds which nodes are theirs, where several claim them, and whether their accounts are the cluster's, as the
/// manager does. Gives what stays open, and the state of each account.
async fn ask(
    resolver: &OwnershipResolver,
    nodes: &StoreView<Node>,
) -> (Vec<String>, BTreeMap<CloudName, AccountState>) {
    let stop = CancellationToken::new();
    let _ends = stop.clone().drop_guard();
    // Who only looks may ask as much as it likes.
    let (cloud_health, accounts) = (CloudHealth::default(), Accounts::default());
    let owners = OwnerDiscovery::asking(resolver, &cloud_health, &accounts, &Fence::open(), &stop);
    let nodes: Vec<Arc<Node>> = nodes.objects.values().cloned().collect();
    let mut open: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (node, why) in owners.settle_once(&nodes).await {
        let alike = open.entry(why.to_string()).or_default();
        alike.push(node.name.clone());
    }
    let remark = |(why, nodes): (String, Vec<String>)| {
        let nodes = name_list(nodes.iter().map(String::as_str));
        format!("the owner is unknown of nodes [{nodes}], so that they keep their targets: {why}")
    };
    let serving = resolver.clouds().iter();
    let serving = serving.filter(|it| it.balancers().is_some());
    // Together: nobody waits for one after the other.
    let states = join_all(serving.map(async |cloud| {
        let state = accounts.look_once(cloud, &owners, resolver, &nodes).await;
        (cloud.name().clone(), state)
    }));
    let states = states.await.into_iter().collect();
    (open.into_iter().map(remark).collect(), states)
}

/// One Service of the stage.
struct Subject {
    service: Result<Arc<Service>, String>,
    file: Option<String>,
    assumptions: Vec<String>,
}

/// The cluster as it would be.
struct Stage {
    clouds: ServiceClouds,
    accounts: BTreeMap<CloudName, AccountState>,
    cluster_name: String,
    raw: BTreeMap<ServiceKey, Value>,
    services: BTreeMap<ServiceKey, Subject>,
    nodes: StoreView<Node>,
    has_ip_mode: bool,
    cluster_uid: Option<String>,
    slices: Option<StoreView<Slice>>,
    remarks: Vec<String>,
}

impl Stage {
    fn new(
        parts: &PreviewParts,
        clouds: ServiceClouds,
        accounts: BTreeMap<CloudName, AccountState>,
        seen: Seen,
    ) -> Self {
        let live = |(key, object): (&ServiceKey, &Value)| {
            let subject = Subject {
                service: decode(object),
                file: None,
                assumptions: Vec::new(),
            };
            (key.clone(), subject)
        };
        Self {
            clouds,
            accounts,
            cluster_name: parts.cluster_name.clone(),
            services: seen.services.iter().map(live).collect(),
            raw: seen.services,
            nodes: seen.nodes,
            has_ip_mode: seen.has_ip_mode,
            cluster_uid: seen.cluster_uid,
            slices: seen.slices,
            remarks: seen.remarks,
        }
    }

    fn apply(&mut self, files: &[Document], clock: &Clock) -> Result<(), PreviewError> {
        let mut given = BTreeSet::new();
        for (number, document) in files.iter().enumerate() {
            let key = document.key.clone();
            if !given.insert(key.clone()) {
                return Err(PreviewError::Twice(key));
            }
            let newcomer = Newcomer {
                uid: format!("00000000-0000-0000-0000-{:012}", number + 1),
                created: clock.now(),
            };
            let AppliedFile {
                object,
                assumptions,
            } = as_applied(&document.object, self.raw.get(&key), &newcomer);
            let service = decode(&object);
            if let Err(message) = service {
                let file = document.file.clone();
                return Err(PreviewError::Wrong { file, key, message });
            }
            let subject = Subject {
                service,
                file: Some(document.file.clone()),
                assumptions,
            };
            self.services.insert(key, subject);
        }
        Ok(())
    }

    fn keys(&self, asked: &PreviewScope) -> Result<Vec<&ServiceKey>, PreviewError> {
        let is_ours = |subject: &Subject| match &subject.service {
            Ok(service) => self.clouds.names().responsibility(service) != Responsibility::Nothing,
            Err(_) => true,
        };
        let all = self.services.iter();
        match asked {
            PreviewScope::Named(keys) => {
                let known = keys.iter().map(|key| {
                    let found = self.services.get_key_value(key);
                    found.ok_or_else(|| PreviewError::Missing(key.clone()))
                });
                known.map(|it| Ok(it?.0)).collect()
            }
            PreviewScope::OfFiles => {
                let of_files = all.filter(|(_, it)| it.file.is_some());
                Ok(of_files.map(|(key, _)| key).collect())
            }
            PreviewScope::All => {
                let handled = all.filter(|(_, it)| it.file.is_some() || is_ours(it));
                Ok(handled.map(|(key, _)| key).collect())
            }
        }
    }

    /// One preview for each cloud that is asked about it; usually that is one.
    async fn of_service(&self, key: &ServiceKey) -> Vec<Preview> {
        let Some(subject) = self.services.get(key) else {
            return Vec::new();
        };
        let blank = Preview {
            service: key.clone(),
            file: subject.file.clone(),
            cloud: None,
            goal: None,
            outlook: Outlook::NotOurs,
            message: None,
            assumptions: subject.assumptions.clone(),
            plan: Plan::default(),
            publication: Vec::new(),
        };
        let service = match &subject.service {
            Ok(service) => service,
            Err(message) => return vec![blank.without_plan(Outlook::Failed, message.clone())],
        };
        let (goal, clouds) = match self.clouds.names().responsibility(service) {
            Responsibility::Ensure(cloud) => return self.of_served(blank, service, cloud).await,
            Responsibility::CleanUp(clouds) => (Goal::Absent, clouds),
            Responsibility::Nothing => {
                return vec![blank.without_plan(Outlook::NotOurs, not_ours(service))];
            }
        };
        let mut previews = Vec::new();
        for cloud in clouds {
            previews.push(self.of_cloud(blank.clone(), service, goal, cloud).await);
        }
        previews
    }

    /// The preview of a Service that is to have a load balancer: where it is, or where a person wants it to be.
    async fn of_served(
        &self,
        blank: Preview,
        service: &Arc<Service>,
        cloud: CloudName,
    ) -> Vec<Preview> {
        let mut cloud = cloud;
        let mut previews = Vec::new();
        if self.clouds.is_home_open(service) {
            let request = |cloud: &CloudName| self.request(service, Goal::Present, cloud);
            match self.clouds.home(&cloud, request).await {
                Ok(home) => cloud = home.unwrap_or(cloud),
                Err(DraftError::Cloud(error)) => {
                    let message = format!(
                        "it is not known in which cloud its load balancer is: {}",
                        error.chain()
                    );
                    return vec![blank.without_plan(Outlook::Failed, message)];
                }
                Err(_) => {}
            }
        } else if let Some(former) = self
            .clouds
            .names()
            .recorded(service)
            .filter(|it| **it != cloud)
        {
            let former = former.clone();
            previews.push(
                self.of_cloud(blank.clone(), service, Goal::Absent, former)
                    .await,
            );
        }
        previews.push(self.of_cloud(blank, service, Goal::Present, cloud).await);
        previews
    }

    async fn of_cloud(
        &self,
        blank: Preview,
        service: &Arc<Service>,
        goal: Goal,
        cloud: CloudName,
    ) -> Preview {
        let request = self.request(service, goal, &cloud);
        let draft = self.clouds.draft(&cloud, &request).await;
        let blank = Preview {
            cloud: Some(cloud),
            goal: Some(goal),
            ..blank
        };
        match draft {
            Ok(draft) => {
                let held = self.held(service, goal, &draft.plan, blank.cloud.as_ref());
                let mut blank = blank;
                match held {
                    Some((AccountHold::Contradicted | AccountHold::Departed, waits)) => {
                        return blank.without_plan(Outlook::Problems, waits);
                    }
                    // The manager may know an earlier proof.
                    Some((_, waits)) => {
                        let assumed =
                            format!("the manager has proof of the account; otherwise it {waits}");
                        blank.assumptions.push(assumed);
                    }
                    None => {}
                }
                let publication = draft.executor.publication(draft.plan.is_empty());
                let changes = match goal {
                    Goal::Present => published(service, &publication, self.has_ip_mode),
                    Goal::Absent => taken_back(service),
                };
                blank.planned(draft.plan, changes)
            }
            Err(DraftError::Elsewhere) => {
                blank.without_plan(Outlook::NotOurs, DraftError::Elsewhere.to_string())
            }
            Err(
                later @ (DraftError::NeedsServices
                | DraftError::Account { .. }
                | DraftError::Later { .. }),
            ) => blank.without_plan(Outlook::Problems, later.to_string()),
            Err(DraftError::Cloud(error)) => {
                let message = format!("the cloud could not be read: {}", error.chain());
                blank.without_plan(Outlook::Failed, message)
            }
        }
    }

    /// What the manager would wait for before it carried the plan out, as far as it depends on the account.
    fn held(
        &self,
        service: &Service,
        goal: Goal,
        plan: &Plan,
        cloud: Option<&CloudName>,
    ) -> Option<(AccountHold, String)> {
        let cloud = cloud?;
        let basis = PlanBasis {
            goal,
            balancer: plan.balancer(),
            remembers: remembers(service, self.clouds.naming_annotation(cloud)),
            removal_began: conditions::is_removing(service),
            is_settling: false,
            may_have_departed: self.clouds.may_have_departed(service),
        };
        let hold = account_hold(*self.accounts.get(cloud)?, basis)?;
        Some((hold, format!("waits for {}", waits_for(hold, cloud))))
    }

    /// The same request that the manager makes.
    fn request(&self, service: &Arc<Service>, goal: Goal, cloud: &CloudName) -> BalancerRequest {
        let all = self.services.values();
        let facts = ClusterFacts {
            services: all
                .clone()
                .filter_map(|it| it.service.clone().ok())
                .collect(),
            all_known: all.clone().all(|it| it.service.is_ok()),
            cluster_name: &self.cluster_name,
            cluster_uid: self.cluster_uid.clone(),
            has_ip_mode: self.has_ip_mode,
            living: Some(self.living()),
        };
        let roster = self.clouds.roster(cloud, &self.nodes);
        let about = (service.clone(), goal, cloud);
        self.clouds
            .request(about, roster, facts, || Arc::new(self.endpoints()))
    }

    /// The uids of all Services: the cluster was listed for this plan, consistently.
    fn living(&self) -> BTreeSet<String> {
        let listed = self.raw.values();
        let listed = listed.filter_map(|it| it["metadata"]["uid"].as_str());
        let given = self
            .services
            .values()
            .filter_map(|it| it.service.as_ref().ok());
        let given = given.map(|service| service.uid.as_str());
        listed.chain(given).map(str::to_owned).collect()
    }

    fn endpoints(&self) -> Endpoints {
        let slices = self.slices.as_ref();
        slices.map_or_else(Endpoints::new, |slices| {
            endpoints(slices, |key| {
                let service = self.services.get(key).map(|it| &it.service);
                matches!(service, Some(Ok(service)) if depends_on_endpoints(service))
            })
        })
    }
}

fn decode(object: &Value) -> Result<Arc<Service>, String> {
    let object: ServiceObject =
        serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    Ok(Arc::new(Service::from(object)))
}

/// Why a Service does not concern us.
fn not_ours(service: &Service) -> String {
    match &service.class {
        _ if !service.is_load_balancer => "not a Service of type LoadBalancer".to_owned(),
        Some(class) => format!("class {class:?} is somebody else's"),
        None if service.deleting => "it is being deleted, and nothing holds it".to_owned(),
        None => "no cloud has load balancers".to_owned(),
    }
}

fn change(field: impl Into<String>, before: Value, after: Value) -> Change {
    Change {
        field: field.into(),
        before,
        after,
    }
}

/// What the controller writes to a Service that has a load balancer, as far as it is known now.
fn published(service: &Service, publication: &Publication, has_ip_mode: bool) -> Vec<Change> {
    let mut changes = Vec::new();
    if !service.has_finalizer() {
        let mut after = service.finalizers.clone();
        after.push(CLEANUP_FINALIZER.to_owned());
        let before = json!(service.finalizers);
        changes.push(change("metadata.finalizers", before, json!(after)));
    }
    for (key, value) in &publication.annotations {
        let before = service.annotation(key);
        if before != Some(value) {
            let field = format!("metadata.annotations[{key}]");
            changes.push(change(field, json!(before), json!(value)));
        }
    }
    let wanted = ingress_to_write(&service.ingress, &publication.ingress, has_ip_mode);
    changes.extend(wanted.map(|it| ingress(service, &it)));
    changes
}

/// What the controller writes to a Service once its load balancer is gone.
fn taken_back(service: &Service) -> Vec<Change> {
    let mut changes = Vec::new();
    if service.has_finalizer() {
        let before = &service.finalizers;
        let after: Vec<&String> = before
            .iter()
            .filter(|it| *it != CLEANUP_FINALIZER)
            .collect();
        let (before, after) = (json!(before), json!(after));
        changes.push(change("metadata.finalizers", before, after));
    }
    if !service.deleting && !service.ingress.is_empty() {
        changes.push(ingress(service, &[]));
    }
    changes
}

fn ingress(service: &Service, after: &[Ingress]) -> Change {
    let texts = |all: &[Ingress]| json!(all.iter().map(Ingress::to_string).collect::<Vec<_>>());
    let field = "status.loadBalancer.ingress";
    change(field, texts(&service.ingress), texts(after))
}
