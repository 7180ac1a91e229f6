//! The health of each cloud: what it reports as missing, and whether the last calls succeeded.
//!
//! ```text
//!  calls of the controllers ─▶ note ─┐
//!                                    ├─▶ of ─▶ /readyz, bowline_cloud_ready
//!  Cloud::ready ─────────────────────┘
//! ```
//!
//! Answers come from memory; health checks call no cloud. A standby makes no calls, so it knows only
//! what a cloud reports as missing.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bowline_core::{Cloud, CloudError, CloudErrorKind, CloudName, Instances, format_duration};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::kube::election::Fenced;

/// Whatever keeps failing is tried again within ten minutes at the latest. What was not heard of for longer than this
/// is over: nobody tries it any more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);

/// What a cloud is called for. Each counts by itself, so that a right that is missing for one is not forgotten when
/// another succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Looking for machines.
    Machines,
    /// Load balancers of Services.
    Balancers,
    /// Routes to pods.
    Routes,
    /// The cluster's networks and those of machines.
    Networks,
    /// Names and addresses for certificates.
    Certificates,
}

impl Purpose {
    const fn words(self) -> &'static str {
        match self {
            Self::Machines => "machines",
            Self::Balancers => "load balancers",
            Self::Routes => "routes",
            Self::Networks => "networks",
            Self::Certificates => "certificates",
        }
    }
}

/// How a cloud is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloudCondition {
    /// Well, as far as anybody knows.
    Well,
    /// Calls to it fail: it is down, slow, or denies what is asked of it.
    Failing {
        /// The kinds of what comes back, which everybody may see.
        kinds: String,
        /// All that is known about it.
        text: String,
    },
    /// It has not what it needs to work at all.
    Lacking(String),
}

#[derive(Debug)]
struct Failure {
    kind: CloudErrorKind,
    text: String,
    since: Instant,
    last: Instant,
}

struct Watched {
    cloud: Weak<dyn Cloud>,
    failing: BTreeMap<Purpose, Failure>,
    /// What contradicts that its account is the cluster's.
    contradiction: Option<String>,
}

/// How all clouds of the process are. Clones share it.
#[derive(Clone, Default)]
pub struct CloudHealth(Arc<Mutex<BTreeMap<CloudName, Watched>>>);

impl CloudHealth {
    /// These are the clouds from now on. What is known of others is forgotten, also of a cloud that has another's name.
    pub fn watch(&self, clouds: &[Arc<dyn Cloud>]) {
        let mut all = self.lock();
        let mut before = std::mem::take(&mut *all);
        for cloud in clouds {
            let known = before.remove(cloud.name());
            let same = known.filter(|it| Weak::ptr_eq(&it.cloud, &Arc::downgrade(cloud)));
            let watched = same.unwrap_or_else(|| Watched {
                cloud: Arc::downgrade(cloud),
                failing: BTreeMap::new(),
                contradiction: None,
            });
            all.insert(cloud.name().clone(), watched);
        }
    }

    /// What became of a call. An error is the cloud's trouble if the same call may well succeed later; that something
    /// is not there, or cannot be done, is an answer.
    pub fn note(&self, cloud: &Arc<dyn Cloud>, purpose: Purpose, trouble: Option<&CloudError>) {
        let is_trouble = |it: &&CloudError| {
            matches!(
                it.kind(),
                CloudErrorKind::Denied
                    | CloudErrorKind::Throttled
                    | CloudErrorKind::Unavailable
                    | CloudErrorKind::Unknown
            )
        };
        self.note_as_it_is(cloud, purpose, trouble.filter(is_trouble));
    }

    /// The same where every error is trouble.
    pub fn note_as_it_is(
        &self,
        cloud: &Arc<dyn Cloud>,
        purpose: Purpose,
        trouble: Option<&CloudError>,
    ) {
        let mut all = self.lock();
        let Some(watched) = all.get_mut(cloud.name()) else {
            return;
        };
        // Controllers that end may still hear of a cloud that another has replaced.
        if !Weak::ptr_eq(&watched.cloud, &Arc::downgrade(cloud)) {
            return;
        }
        // A call that the fence stopped says nothing about the cloud.
        let source = trouble.and_then(Error::source);
        if source.is_some_and(<dyn Error>::is::<Fenced>) {
            return;
        }
        let (name, what) = (cloud.name(), purpose.words());
        let Some(error) = trouble else {
            if let Some(over) = watched.failing.remove(&purpose) {
                let lasted = age(over.since);
                info!(cloud = %name, purpose = what, lasted, "calls succeed again");
            }
            return;
        };
        let now = Instant::now();
        let failure = watched.failing.entry(purpose).or_insert_with(|| {
            // Whoever made the call reports the error.
            let kind = error.kind().reason();
            warn!(cloud = %name, purpose = what, kind, "calls fail");
            Failure {
                kind: error.kind(),
                text: String::new(),
                since: now,
                last: now,
            }
        });
        (failure.kind, failure.text, failure.last) = (error.kind(), error.chain(), now);
    }

    /// What contradicts that the account of that cloud is the cluster's; none if nothing does.
    pub fn note_account(&self, cloud: &Arc<dyn Cloud>, contradiction: Option<String>) {
        let mut all = self.lock();
        let watched = all.get_mut(cloud.name());
        if let Some(watched) = watched.filter(|it| Weak::ptr_eq(&it.cloud, &Arc::downgrade(cloud)))
        {
            watched.contradiction = contradiction;
        }
    }

    /// How that cloud is.
    pub fn of(&self, cloud: &CloudName) -> CloudCondition {
        match self.lock().get(cloud) {
            Some(watched) => watched.condition(),
            None => CloudCondition::Well,
        }
    }

    /// How all of them are.
    pub fn all(&self) -> BTreeMap<CloudName, CloudCondition> {
        let all = self.lock();
        let each = all.iter();
        each.map(|(name, it)| (name.clone(), it.condition()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<CloudName, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn condition(&self) -> CloudCondition {
        if let Some(Err(lack)) = self.cloud.upgrade().map(|it| it.ready()) {
            return CloudCondition::Lacking(lack);
        }
        let heard = |it: &(&Purpose, &Failure)| it.1.last.elapsed() <= FORGOTTEN_AFTER;
        let failing: Vec<_> = self.failing.iter().filter(heard).collect();
        if failing.is_empty() && self.contradiction.is_none() {
            return CloudCondition::Well;
        }
        let kinds = failing
            .iter()
            .map(|(purpose, it)| format!("{} ({})", it.kind.reason(), purpose.words()));
        let contradicted = self.contradiction.iter();
        let kinds: Vec<String> = kinds
            .chain(
                contradicted
                    .clone()
                    .map(|_| "AccountContradicted".to_owned()),
            )
            .collect();
        let text = failing.iter().map(|(purpose, it)| {
            let lasting = age(it.since);
            format!("{} for {lasting}: {}", purpose.words(), it.text)
        });
        let text: Vec<String> = text.chain(contradicted.cloned()).collect();
        CloudCondition::Failing {
            kinds: kinds.join(", "),
            text: text.join("; "),
        }
    }
}

/// How long ago that was, in whole seconds.
fn age(since: Instant) -> String {
    format_duration(Duration::from_secs(since.elapsed().as_secs()))
}

/// Whether the machines of a cloud answer for themselves, so that one that does not says nothing about the others.
pub(crate) fn answers_apart(cloud: &Arc<dyn Cloud>) -> bool {
    cloud.instances().is_some_and(Instances::answers_apart)
}

impl fmt::Debug for CloudHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.all()).finish()
    }
}

#[cfg(test)]
mod tests {
    use bowline_core::{Claim, Node, NodeMatch};

    use super::*;

    struct Plain {
        name: CloudName,
        lacks: Mutex<Option<String>>,
    }

    impl Cloud for Plain {
        fn name(&self) -> &CloudName {
            &self.name
        }

        fn provider(&self) -> &'static str {
            "demo"
        }

        fn match_node(&self, _: &Node) -> NodeMatch {
            Claim::Foreign.into()
        }

        fn ready(&self) -> Result<(), String> {
            self.lacks.lock().unwrap().clone().map_or(Ok(()), Err)
        }
    }

    fn plain(name: &str) -> Arc<Plain> {
        Arc::new(Plain {
            name: CloudName::parse(name).unwrap(),
            lacks: Mutex::default(),
        })
    }

    fn error(kind: CloudErrorKind) -> CloudError {
        CloudError::new(kind, "listing servers")
    }

    #[tokio::test(start_paused = true)]
    async fn a_cloud_fails_from_the_first_call_that_fails_to_the_next_that_succeeds() {
        let cloud_health = CloudHealth::default();
        let (a, b) = (plain("a") as Arc<dyn Cloud>, plain("b") as Arc<dyn Cloud>);
        cloud_health.watch(&[a.clone(), b.clone()]);
        let down = error(CloudErrorKind::Unavailable);
        cloud_health.note(&a, Purpose::Machines, Some(&down));
        tokio::time::sleep(Duration::from_secs(90)).await;
        cloud_health.note(&a, Purpose::Machines, Some(&down));
        let denied = error(CloudErrorKind::Denied);
        cloud_health.note(&a, Purpose::Balancers, Some(&denied));
        let failing = CloudCondition::Failing {
            kinds: "Unavailable (machines), Denied (load balancers)".to_owned(),
            text: "machines for 1m30s: listing servers; load balancers for 0s: listing servers"
                .to_owned(),
        };
        assert_eq!(cloud_health.of(a.name()), failing);
        assert_eq!(cloud_health.of(b.name()), CloudCondition::Well);
        cloud_health.note(&a, Purpose::Machines, None);
        assert!(matches!(
            cloud_health.of(a.name()),
            CloudCondition::Failing { .. }
        ));
        cloud_health.note(&a, Purpose::Balancers, None);
        assert_eq!(cloud_health.of(a.name()), CloudCondition::Well);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_no_trouble_and_what_nobody_tries_any_more_is_over() {
        let cloud_health = CloudHealth::default();
        let a = plain("a") as Arc<dyn Cloud>;
        cloud_health.watch(std::slice::from_ref(&a));
        for (kind, fails) in [
            (CloudErrorKind::NotFound, false),
            (CloudErrorKind::Conflict, false),
            (CloudErrorKind::Invalid, false),
            (CloudErrorKind::Throttled, true),
            (CloudErrorKind::Unknown, true),
        ] {
            cloud_health.note(&a, Purpose::Machines, Some(&error(kind)));
            let failing = cloud_health.of(a.name()) != CloudCondition::Well;
            assert_eq!(failing, fails, "{kind:?}");
        }
        tokio::time::sleep(FORGOTTEN_AFTER + Duration::from_secs(1)).await;
        assert_eq!(cloud_health.of(a.name()), CloudCondition::Well);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cloud_in_the_place_of_another_begins_anew() {
        let cloud_health = CloudHealth::default();
        let (old, new) = (plain("a"), plain("a"));
        let (before, after) = (old.clone() as Arc<dyn Cloud>, new.clone() as Arc<dyn Cloud>);
        cloud_health.watch(std::slice::from_ref(&before));
        let down = error(CloudErrorKind::Unavailable);
        cloud_health.note(&before, Purpose::Machines, Some(&down));
        cloud_health.watch(std::slice::from_ref(&before));
        assert_ne!(
            cloud_health.of(&old.name),
            CloudCondition::Well,
            "it is the same"
        );
        cloud_health.watch(std::slice::from_ref(&after));
        cloud_health.note(&before, Purpose::Machines, Some(&down));
        assert_eq!(cloud_health.of(&old.name), CloudCondition::Well);
        *new.lacks.lock().unwrap() = Some("no credentials".to_owned());
        let lacking = CloudCondition::Lacking("no credentials".to_owned());
        assert_eq!(cloud_health.of(&old.name), lacking);
    }
}
