//! Decides who owns a load balancer, for all clouds alike: by marks, names and consent.
//!
//! ```text
//!  marked with this Service's uid ───────────────────────────────▶ Ours            (1)
//!  unmarked, and this Service's uid in its name ─────────────────▶ Ours            (2)
//!  unmarked, named by the Service, and nothing foreign on it ────▶ Ours            (3, judged by its cloud)
//!  marked for a Service of this name that is proven gone ────────▶ Returned        (4)
//!  its owner, alive, hands it over ──────────────────────────────▶ HandedOver
//!  the operator allows adoption, and the Service asks for it ────▶ Adopted
//!  anything else ────────────────────────────────────────────────▶ NotOurs
//! ```

use std::sync::Arc;

use ring::digest::{SHA256, digest};

use crate::{BalancerRequest, ClusterMatch, DraftError, Notice, Problem, Service, ServiceKey};

/// The mark with the uid of the cluster.
pub const CLUSTER_UID_MARK: &str = "k8s-cluster-uid";
/// The mark with namespace and name of the Service ([`service_mark`]).
pub const SERVICE_MARK: &str = "k8s-service";
/// The mark of a load balancer that no controller had made: it outlives its Service.
pub const ADOPTED_MARK: &str = "bowline-adopted";
/// The annotation by which the owner of a load balancer gives it to another Service: `<namespace>/<name>`.
pub const HAND_OVER: &str = "bowline.dev/hand-over";
/// The reason of events about load balancers that a Service names and must not have.
pub const NOT_OURS: &str = "LoadBalancerNotOurs";

/// The longest value of a mark that every cloud takes.
const LONGEST_MARK: usize = 63;
/// What a hashed value begins with: no name of a Service with its namespace does, since those have a dot.
const HASHED: &str = "sha256-";

/// What [`SERVICE_MARK`] says of a Service: `<namespace>.<name>`, hashed where that is too long.
pub fn service_mark(key: &ServiceKey) -> String {
    let plain = format!("{}.{}", key.namespace, key.name);
    if plain.len() <= LONGEST_MARK {
        return plain;
    }
    let hash = digest(&SHA256, plain.as_bytes());
    let hex = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
    let mut mark = HASHED.to_owned();
    mark.extend(hex);
    mark.truncate(LONGEST_MARK);
    mark
}

/// The Service to which that one gives its load balancer.
pub fn hands_over_to(owner: &Service) -> Option<ServiceKey> {
    let (namespace, name) = owner.annotation(HAND_OVER)?.trim().split_once('/')?;
    Some(ServiceKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// The owner of a marked load balancer by the uids of clusters alone; none where one of them is not known.
pub fn match_by_uid(marked: Option<&str>, cluster: Option<&str>) -> Option<ClusterMatch> {
    let same = marked? == cluster?;
    Some(if same {
        ClusterMatch::Ours
    } else {
        ClusterMatch::Foreign
    })
}

/// A mark of ours on a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BalancerMark {
    /// The uid of the Service.
    pub service_uid: String,
    /// The uid of the cluster, if whoever marked it knew that.
    pub cluster_uid: Option<String>,
    /// Namespace and name of the Service ([`service_mark`]).
    pub service: Option<String>,
}

/// A load balancer that may be a Service's, as far as its own words go.
#[derive(Clone, Debug, Default)]
pub struct Candidature<'a> {
    /// Which cluster and Service its tags or labels name.
    pub mark: Option<BalancerMark>,
    /// The uid in its name, if it has the name that controllers give where nobody gives one.
    pub uid_in_name: Option<&'a str>,
    /// Whether the Service asks for it by [`TAKE_OVER`](crate::TAKE_OVER).
    pub asked_for: bool,
    /// The other Service of this cluster that has it by the third rule: nothing on it is anybody else's.
    pub used_by: Option<&'a Arc<Service>>,
}

/// What a Service may do with a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnershipVerdict {
    /// It is this Service's by its mark or by its name.
    Ours,
    /// It has neither mark nor name of anybody's: what is on it decides, or the operator ([`unproven`]).
    Unproven,
    /// It was made for a Service of this namespace and name that is gone, in this cluster.
    Returned,
    /// Its owner gives it to this Service.
    HandedOver(ServiceKey),
    /// The operator lets this Service have it.
    Adopted,
    /// It is somebody else's.
    NotOurs,
}

/// Whether that Service may have that load balancer, by what the load balancer says of itself. Whoever gets
/// [`OwnershipVerdict::Unproven`] looks at what is on it, and asks [`unproven`] if that proves nothing.
pub fn standing(
    candidate: &Candidature<'_>,
    request: &BalancerRequest,
) -> Result<OwnershipVerdict, DraftError> {
    let service = &request.service;
    let Some(mark) = &candidate.mark else {
        return match candidate.uid_in_name {
            Some(uid) if uid == service.uid => Ok(OwnershipVerdict::Ours),
            Some(uid) => anothers(candidate, uid, request),
            None => Ok(OwnershipVerdict::Unproven),
        };
    };
    let cluster = match_by_uid(mark.cluster_uid.as_deref(), request.cluster_uid.as_deref());
    if cluster == Some(ClusterMatch::Foreign) {
        // Also with this Service's own uid: clones of a cluster share those.
        return Ok(adopted(candidate, request));
    }
    if mark.service_uid == service.uid {
        return Ok(OwnershipVerdict::Ours);
    }
    let is_same_name = mark.service.as_deref() == Some(&service_mark(&service.key));
    if cluster == Some(ClusterMatch::Ours)
        && is_same_name
        && owner(request, &mark.service_uid).is_none()
    {
        let gone = !is_living(request, &mark.service_uid)?;
        return Ok(if gone {
            OwnershipVerdict::Returned
        } else {
            OwnershipVerdict::NotOurs
        });
    }
    anothers(candidate, &mark.service_uid, request)
}

/// Whether that Service may have a load balancer that has no mark, no name of anybody's, and something foreign on it.
pub fn unproven(candidate: &Candidature<'_>, request: &BalancerRequest) -> OwnershipVerdict {
    match candidate.used_by {
        Some(owner) => handed_over(owner, request),
        None => adopted(candidate, request),
    }
}

/// A load balancer of the Service with that uid, which may be gone.
fn anothers(
    candidate: &Candidature<'_>,
    uid: &str,
    request: &BalancerRequest,
) -> Result<OwnershipVerdict, DraftError> {
    if let Some(owner) = owner(request, uid) {
        return Ok(handed_over(owner, request));
    }
    let adopted = adopted(candidate, request);
    // Never one whose Service lives in this cluster, also if that cannot be read.
    if adopted == OwnershipVerdict::Adopted && is_living(request, uid)? {
        return Ok(OwnershipVerdict::NotOurs);
    }
    Ok(adopted)
}

fn owner<'a>(request: &'a BalancerRequest, uid: &str) -> Option<&'a Arc<Service>> {
    request.all.iter().find(|it| it.uid == uid)
}

fn handed_over(owner: &Service, request: &BalancerRequest) -> OwnershipVerdict {
    if hands_over_to(owner).as_ref() == Some(&request.service.key) {
        OwnershipVerdict::HandedOver(owner.key.clone())
    } else {
        OwnershipVerdict::NotOurs
    }
}

fn adopted(candidate: &Candidature<'_>, request: &BalancerRequest) -> OwnershipVerdict {
    let namespace = &request.service.key.namespace;
    if candidate.asked_for && request.rules.adoption.allows(namespace) {
        OwnershipVerdict::Adopted
    } else {
        OwnershipVerdict::NotOurs
    }
}

/// Whether a Service exists, by a consistent list.
fn is_living(request: &BalancerRequest, uid: &str) -> Result<bool, DraftError> {
    let living = request.living.as_ref().ok_or(DraftError::NeedsServices)?;
    Ok(living.contains(uid))
}

/// The report on a Service that names a load balancer which is not its own: by which annotation it does, and nothing
/// that it does not know already.
pub fn not_ours(annotation: &str, value: &str) -> Problem {
    Problem {
        reason: NOT_OURS,
        message: format!(
            "annotation {annotation}: {value:?} names a load balancer that is not this Service's, and that is left as it \
             is. Remove the annotation, or ask the operator of the cluster: its owner can hand it over, and the operator \
             can allow its adoption"
        ),
    }
}

/// The report when a load balancer becomes a Service's by somebody's consent, or returns to it; none otherwise.
pub fn consent(standing: &OwnershipVerdict, name: &str) -> Option<Notice> {
    let (reason, message) = match standing {
        OwnershipVerdict::Ours | OwnershipVerdict::Unproven | OwnershipVerdict::NotOurs => {
            return None;
        }
        OwnershipVerdict::Returned => (
            "LoadBalancerTakenOver",
            format!(
                "load balancer {name:?} was made for an earlier Service of this name, which is gone; it is this Service's now"
            ),
        ),
        OwnershipVerdict::HandedOver(from) => (
            "LoadBalancerTakenOver",
            format!("Service {from} has handed load balancer {name:?} over to this Service"),
        ),
        OwnershipVerdict::Adopted => (
            "LoadBalancerAdopted",
            format!(
                "load balancer {name:?} is this Service's now; the operator allows adoption in this namespace"
            ),
        ),
    };
    Some(Notice {
        warning: false,
        reason,
        message,
    })
}

#[cfg(test)]
mod tests;
