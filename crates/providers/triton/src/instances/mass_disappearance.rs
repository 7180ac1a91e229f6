//! Many machines that vanish at once are more likely a wrong account, or a list that is not whole,
//! than a disaster. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

/// Fewer are nothing unusual.
const MANY: usize = 3;
/// How long it has to last to be believed.
pub(super) const LASTING: Duration = Duration::from_secs(600);
/// Machines that nobody has asked about for so long are no longer counted.
const COUNTED: Duration = Duration::from_secs(3600);
/// Machines that are counted: more nodes than a cluster has.
const MOST: usize = 100_000;

/// Which machines of nodes are there, and since when too few.
#[derive(Debug, Default)]
pub(super) struct MassDisappearance {
    /// When each was last asked about, and whether it was gone.
    known: BTreeMap<Uuid, (Instant, bool)>,
    since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Believe,
    /// So many of so many are gone: do nothing yet.
    Wait {
        gone: usize,
        of: usize,
        /// Whether that begins now, and is to be reported.
        events: bool,
    },
}

impl MassDisappearance {
    pub(super) fn judge(
        &mut self,
        seen: impl IntoIterator<Item = (Uuid, bool)>,
        now: Instant,
    ) -> Judgement {
        for (machine, gone) in seen {
            if self.known.len() < MOST || self.known.contains_key(&machine) {
                self.known.insert(machine, (now, gone));
            }
        }
        self.known
            .retain(|_, (asked, _)| now.saturating_duration_since(*asked) < COUNTED);
        let gone = self.known.values().filter(|(_, gone)| *gone).count();
        let of = self.known.len();
        if gone < MANY || gone * 2 <= of {
            self.since = None;
            return Judgement::Believe;
        }
        let events = self.since.is_none();
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= LASTING {
            Judgement::Believe
        } else {
            Judgement::Wait { gone, of, events }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(mass_disappearance: &mut MassDisappearance, all: u128, gone: u128) -> Judgement {
        let seen = (0..all).map(|n| (Uuid::from_u128(n), n < gone));
        mass_disappearance.judge(seen, Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn triton_case_24_many_at_once_have_to_stay_away_for_ten_minutes() {
        let mut mass_disappearance = MassDisappearance::default();
        assert_eq!(judge(&mut mass_disappearance, 5, 0), Judgement::Believe);
        let wait = |events| Judgement::Wait {
            gone: 5,
            of: 5,
            events,
        };
        assert_eq!(judge(&mut mass_disappearance, 5, 5), wait(true));
        tokio::time::advance(LASTING.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(
            judge(&mut mass_disappearance, 5, 5),
            wait(false),
            "reported once"
        );
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(judge(&mut mass_disappearance, 5, 5), Judgement::Believe);
    }

    #[tokio::test(start_paused = true)]
    async fn few_and_not_more_than_half_are_believed() {
        for (all, gone, believed) in [
            (2, 2, true),
            (6, 3, true),
            (5, 3, false),
            (100, 50, true),
            (100, 51, false),
        ] {
            let judged = judge(&mut MassDisappearance::default(), all, gone);
            assert_eq!(judged == Judgement::Believe, believed, "{gone} of {all}");
        }
        // Who comes back ends it, and the time begins anew.
        let mut mass_disappearance = MassDisappearance::default();
        judge(&mut mass_disappearance, 5, 5);
        tokio::time::advance(Duration::from_secs(500)).await;
        assert_eq!(judge(&mut mass_disappearance, 5, 0), Judgement::Believe);
        tokio::time::advance(Duration::from_secs(500)).await;
        let judged = judge(&mut mass_disappearance, 5, 5);
        assert!(matches!(judged, Judgement::Wait { events: true, .. }));
        // Nodes that are long gone are not counted.
        tokio::time::advance(COUNTED).await;
        assert_eq!(judge(&mut mass_disappearance, 2, 2), Judgement::Believe);
    }
}
