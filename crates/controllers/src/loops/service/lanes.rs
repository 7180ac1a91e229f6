//! Sorts Services into the lanes of the queue: a reconcile waits only for its own cloud.

use bowline_core::{CloudName, Responsibility, ServiceKey};

use super::clouds::ServiceClouds;
use super::state::ServiceStates;
use crate::kube::services::Services;
use crate::queue::Lanes;

/// A lane for each cloud with load balancers.
pub(super) fn of_services(
    clouds: &ServiceClouds,
    states: &ServiceStates,
    services: &Services,
) -> Lanes<ServiceKey> {
    let names = clouds.names().all().to_vec();
    let (clouds, states, services) = (clouds.clone(), states.clone(), services.clone());
    Lanes::of_clouds(names, move |key| {
        let responsibility = services
            .get(key)
            .map(|it| clouds.names().responsibility(&it));
        let known = states.recall(key).map(|it| it.1);
        cloud(
            responsibility.unwrap_or(Responsibility::Nothing),
            known.unwrap_or_default(),
        )
    })
}

/// The cloud that is called first: the one that is to be left, then the one that is to serve. None if it is open which
/// of several has to be left, and where nobody is called.
fn cloud(responsibility: Responsibility, known: Vec<CloudName>) -> Option<CloudName> {
    let to_leave = match &responsibility {
        Responsibility::Ensure(cloud) => known.into_iter().filter(|it| it != cloud).collect(),
        Responsibility::CleanUp(clouds) if known.is_empty() => clouds.clone(),
        Responsibility::CleanUp(_) | Responsibility::Nothing => known,
    };
    match (<[CloudName; 1]>::try_from(to_leave), responsibility) {
        (Ok([only]), _) => Some(only),
        (Err(none), Responsibility::Ensure(cloud)) if none.is_empty() => Some(cloud),
        (Err(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_in_the_lane_of_the_cloud_that_it_calls_first() {
        let name = |text: &str| CloudName::parse(text).unwrap();
        let names = |all: &[&str]| all.iter().map(|it| name(it)).collect::<Vec<_>>();
        let ensure = |text| Responsibility::Ensure(name(text));
        let clean_up = |all: &[&str]| Responsibility::CleanUp(names(all));
        for (responsibility, known, expected) in [
            (ensure("a"), &[][..], Some("a")),
            (ensure("a"), &["a"], Some("a")),
            (ensure("a"), &["b"], Some("b")),
            (ensure("a"), &["b", "c"], None),
            (clean_up(&["a"]), &[], Some("a")),
            (clean_up(&["a", "b"]), &[], None),
            (clean_up(&["a", "b"]), &["b"], Some("b")),
            (Responsibility::Nothing, &["a"], Some("a")),
            (Responsibility::Nothing, &[], None),
        ] {
            let text = format!("{responsibility:?} after {known:?}");
            assert_eq!(
                cloud(responsibility, names(known)),
                expected.map(name),
                "{text}"
            );
        }
    }
}
