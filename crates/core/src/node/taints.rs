//! The two taints a cloud controller manager removes and adds.

use crate::node::{SHUTDOWN_TAINT, Taint, UNINITIALIZED_TAINT};

const NO_SCHEDULE: &str = "NoSchedule";

/// All taints but the uninitialized ones, in order. Only the key counts.
pub fn without_uninitialized(taints: &[Taint]) -> Vec<Taint> {
    taints
        .iter()
        .filter(|taint| taint.key != UNINITIALIZED_TAINT)
        .cloned()
        .collect()
}

/// The taints with the shutdown taint in place, or none if it is there already.
///
/// One with the same key and effect but another value is replaced where it stands.
pub fn with_shutdown(taints: &[Taint]) -> Option<Vec<Taint>> {
    let wanted = Taint::new(SHUTDOWN_TAINT, "", NO_SCHEDULE);
    let mut taints = taints.to_vec();
    match taints.iter().position(is_shutdown) {
        Some(at) if taints[at].value.is_empty() => return None,
        Some(at) => taints[at] = wanted,
        None => taints.push(wanted),
    }
    Some(taints)
}

/// The taints without the shutdown taint, or none if it is not there.
pub fn without_shutdown(taints: &[Taint]) -> Option<Vec<Taint>> {
    let kept = || taints.iter().filter(|taint| !is_shutdown(taint)).cloned();
    taints.iter().any(is_shutdown).then(|| kept().collect())
}

fn is_shutdown(taint: &Taint) -> bool {
    taint.key == SHUTDOWN_TAINT && taint.effect == NO_SCHEDULE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taints(list: &[(&str, &str, &str)]) -> Vec<Taint> {
        list.iter()
            .map(|(key, value, effect)| Taint::new(key, value, effect))
            .collect()
    }

    #[test]
    fn every_uninitialized_taint_goes_and_the_others_keep_their_order() {
        let before = taints(&[
            ("dedicated", "db", "NoSchedule"),
            (UNINITIALIZED_TAINT, "yes", "NoExecute"),
            ("node.kubernetes.io/not-ready", "", "NoSchedule"),
            (UNINITIALIZED_TAINT, "true", "NoSchedule"),
        ]);
        let after = taints(&[
            ("dedicated", "db", "NoSchedule"),
            ("node.kubernetes.io/not-ready", "", "NoSchedule"),
        ]);
        assert_eq!(without_uninitialized(&before), after);
    }

    #[test]
    fn the_shutdown_taint_is_added_once_and_replaced_in_place() {
        let plain = taints(&[("a", "", "NoSchedule")]);
        let with = with_shutdown(&plain).unwrap();
        assert_eq!(
            with,
            taints(&[("a", "", "NoSchedule"), (SHUTDOWN_TAINT, "", "NoSchedule")])
        );
        assert_eq!(with_shutdown(&with), None);
        assert_eq!(without_shutdown(&with), Some(plain.clone()));
        assert_eq!(without_shutdown(&plain), None);

        let valued = taints(&[(SHUTDOWN_TAINT, "x", "NoSchedule"), ("a", "", "NoSchedule")]);
        let replaced = taints(&[(SHUTDOWN_TAINT, "", "NoSchedule"), ("a", "", "NoSchedule")]);
        assert_eq!(with_shutdown(&valued), Some(replaced));

        let other_effect = taints(&[(SHUTDOWN_TAINT, "", "NoExecute")]);
        let both = taints(&[
            (SHUTDOWN_TAINT, "", "NoExecute"),
            (SHUTDOWN_TAINT, "", "NoSchedule"),
        ]);
        assert_eq!(with_shutdown(&other_effect), Some(both));
    }
}
