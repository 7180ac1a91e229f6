//! Writes to one load balancer wait for each other, and each of them takes a moment.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::balancer_of;
use crate::fields::Fields;
use crate::kinds::Kind;
use crate::{Cloudscale, routes};

/// What a write has to go through before it is carried out.
struct PendingWrite {
    /// Where it waits; none for a load balancer that does not exist yet.
    queue: Option<Arc<Mutex<()>>>,
    takes: Duration,
}

impl Cloudscale {
    /// Waits until no other write to the same load balancer is under way, and then as long as a write
    /// takes. The next write may begin when the guard is dropped.
    pub(crate) async fn lock_balancer(
        &self,
        request: &Request<Bytes>,
    ) -> Option<OwnedMutexGuard<()>> {
        let write = self.pending_write(request)?;
        let guard = match write.queue {
            Some(queue) => Some(queue.lock_owned().await),
            None => None,
        };
        if !write.takes.is_zero() {
            tokio::time::sleep(write.takes).await;
        }
        guard
    }

    /// None for whatever is not a write to a load balancer or to something that belongs to one.
    fn pending_write(&self, request: &Request<Bytes>) -> Option<PendingWrite> {
        if !matches!(
            *request.method(),
            Method::POST | Method::PATCH | Method::DELETE
        ) {
            return None;
        }
        let token = self.authenticate(request).ok().filter(|t| !t.read_only)?;
        let path = routes::decoded_path(request);
        let segments = routes::segments(&path)?;
        let (kind, rest) = crate::kinds::kind_of(&segments)?;
        let cloud = self.lock();
        let owner = cloud.projects.get(&token.project)?;
        let takes = cloud.timings.load_balancers.call;
        let balancer = match (kind, rest) {
            (Kind::Balancers, []) => return Some(PendingWrite { queue: None, takes }),
            (Kind::Balancers, [uuid]) => Some((*uuid).to_owned()),
            (Kind::Pools, []) => mentioned(request, "load_balancer"),
            (Kind::Listeners | Kind::Monitors, []) => {
                let pool = mentioned(request, "pool")?;
                balancer_of(owner, Kind::Pools, &pool)
            }
            (Kind::Members(_), []) => balancer_of(owner, kind, ""),
            (_, [id]) => balancer_of(owner, kind, id),
            _ => None,
        };
        let balancer = owner.balancers.get(&balancer?)?;
        let queue = Some(balancer.write_lock.clone());
        Some(PendingWrite { queue, takes })
    }
}

fn mentioned(request: &Request<Bytes>, key: &str) -> Option<String> {
    let fields = Fields::parse(request.body()).ok()?;
    fields.text(key).ok()?.map(str::to_owned)
}
