//! The DNS names that machines have now, read one by one and cached for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use tracing::debug;
use uuid::Uuid;

use super::Shared;
use crate::api::MachineRead;

/// Targets that are asked: one is enough to know that a name is published, and some may be down.
pub(crate) const ASKED: usize = 3;

/// The names of those machines that can be read; a machine without names has none. Names that were
/// asked for within `age` are not asked for again.
pub(crate) async fn read(
    shared: &Shared,
    machines: &[Uuid],
    age: Duration,
) -> BTreeMap<Uuid, Vec<String>> {
    let reads = machines.iter().take(ASKED).map(|id| async move {
        if let Some(known) = shared.state.names(*id, age) {
            return Some((*id, known.to_vec()));
        }
        match shared.data_center.api.machine(*id).await {
            Ok(MachineRead::Shown(machine)) => {
                let names = machine.dns_names.unwrap_or_default();
                shared.state.note_names(*id, names.clone().into());
                Some((*id, names))
            }
            Ok(MachineRead::Destroyed | MachineRead::Missing(_)) => None,
            Err(error) => {
                // While the name service is down this is unknown, and nothing follows from that.
                debug!(machine = %id, %error, "its names are not known");
                None
            }
        }
    });
    join_all(reads).await.into_iter().flatten().collect()
}
