//! What holds whatever the API server shows and the clouds answer.

use proptest::prelude::*;

use super::*;

/// A world in a few words: what the API server shows, and what clouds and writes answer.
#[derive(Clone, Debug)]
struct World {
    sight: u8,
    responsibility: u8,
    observing: bool,
    remembered: bool,
    waiting: Option<bool>,
    fickle: Vec<bool>,
    answers: Vec<u8>,
}

fn world() -> impl Strategy<Value = World> {
    let answers = proptest::collection::vec(0..8_u8, 1..12);
    let fickle = proptest::collection::vec(any::<bool>(), 1..12);
    let waiting = proptest::option::of(any::<bool>());
    let first = (0..5_u8, 0..4_u8, any::<bool>(), any::<bool>());
    (first, waiting, fickle, answers).prop_map(|(first, waiting, fickle, answers)| World {
        sight: first.0,
        responsibility: first.1,
        observing: first.2,
        remembered: first.3,
        waiting,
        fickle,
        answers,
    })
}

proptest! {
    /// Whatever clouds answer: it ends, the present Service is never written for an old one, nothing is forgotten and no
    /// finalizer goes before all clouds of the removal have shown that nothing is left, nothing is executed by an
    /// observer, and no interrupting step with other targets.
    #[test]
    fn nothing_is_let_go_before_its_removal_is_shown(world in world()) {
        let (same, another) = (held(), other());
        let mut state = if world.remembered { remembering(&["a"]) } else { State::default() };
        state.plan = world.waiting.map(|absent| small(if absent { Goal::Absent } else { Goal::Present }));
        let mut answers = world.answers.iter().copied().cycle();
        let mut fickle = world.fickle.iter().copied().cycle();
        let (mut looks, mut clean, mut kind) = (0, 0, None);
        for turn in 0.. {
            prop_assert!(turn < 200, "it goes round in circles: {:?}", state.phase);
            let responsibility = match world.responsibility {
                0 => ensure("a"),
                1 => ensure("c"),
                2 => Responsibility::CleanUp(vec![cloud("a"), cloud("b")]),
                _ => Responsibility::Nothing,
            };
            let mut seen = observed(&same, responsibility);
            seen.is_observing = world.observing;
            seen.service = match world.sight {
                0 => ServicePresence::Unreadable,
                1 => ServicePresence::Lost,
                2 => ServicePresence::Gone,
                3 => ServicePresence::There(&another),
                _ => ServicePresence::There(&same),
            };
            let targets = if fickle.next() == Some(true) { "n1" } else { "n2" };
            seen.targets = Some(Fingerprint::of([&node(targets)], []));
            let next = reconcile(&state, &seen);
            let answer = answers.next().unwrap_or_default();
            let event = match next {
                Next::AddFinalizer(name) => {
                    prop_assert!(kind != Some(RemovalKind::FormerService) || state.remembered.is_none());
                    let service = if world.sight == 3 { another.clone() } else { same.clone() };
                    Event::Held(Remembered { service, clouds: vec![name] })
                }
                Next::Prove(_) => Event::Proven(answer > 3),
                Next::Remove(removal) => {
                    (looks, clean, kind) = (removal.clouds.len(), 0, Some(removal.kind));
                    prop_assert!(matches!(seen.service, ServicePresence::Gone | ServicePresence::There(_)));
                    Event::Removing(removal)
                }
                Next::Draft if state.removal.is_some() && looks == 0 => Event::AllLooked,
                Next::Draft => {
                    looks = looks.saturating_sub(1);
                    match answer {
                        0 => { clean += 1; Event::NotDrafted(NotDrafted::Elsewhere) }
                        1 => Event::NotDrafted(NotDrafted::Later(secs(9))),
                        2 => Event::NotDrafted(NotDrafted::Unproven(secs(9))),
                        3 => Event::NotDrafted(NotDrafted::Failed),
                        _ if state.removal.is_some() => {
                            Event::Drafted(Box::new(small(Goal::Absent)))
                        }
                        _ => {
                            let impacts = [Impact::None, Impact::Interrupts];
                            Event::Drafted(Box::new(plan(Goal::Present, &impacts, &[])))
                        }
                    }
                }
                Next::Discard => Event::Discarded,
                Next::Show => { clean += 1; Event::Shown(None) }
                Next::Begin => {
                    prop_assert!(!world.observing || world.waiting.is_some());
                    Event::Begun
                }
                Next::Step(_) => {
                    let plan = state.plan.as_ref().unwrap();
                    prop_assert!(!plan.is_risky() || seen.targets.as_ref() == Some(&plan.targets));
                    prop_assert!(plan.goal == Goal::Present || state.removal.is_some());
                    match answer {
                        0 => Event::Stepped(None, Timestamp::UNIX_EPOCH),
                        1 => stepped(waits(secs(5))),
                        2 => skipped(),
                        _ => stepped(StepOutcome::Done),
                    }
                }
                Next::FinishCloud => { clean += 1; Event::Finished }
                Next::Publish => {
                    prop_assert_eq!(state.removal.as_ref(), None);
                    Event::Published(None)
                }
                Next::Forget | Next::RemoveFinalizer | Next::Move => {
                    let removal = state.removal.as_ref().unwrap();
                    // A plan that waited stands for the look at its cloud.
                    prop_assert!(clean >= removal.clouds.len());
                    prop_assert_eq!(next == Next::RemoveFinalizer, removal.kind == RemovalKind::CurrentService);
                    if next == Next::RemoveFinalizer { break; }
                    Event::Forgotten
                }
                Next::ForgetLost => { prop_assert!(seen.is_lost); Event::Forgotten }
                _ => break,
            };
            record(&mut state, event);
        }
    }
}
