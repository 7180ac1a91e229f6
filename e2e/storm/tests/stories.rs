//! Stories that failed once, each as small as it could be made; and one seed is one story.

#![allow(clippy::unwrap_used, reason = "a test may")]

use bowline_scenarios::seeds::assert_same;
use bowline_storm::{Act, Broken, Claim, KINDS, Kind, Machine, Names, Server, Story, Wrong, tell};

/// Tells a story, which must end well; its transcript.
#[track_caller]
fn tell_again(story: &Story) -> String {
    let told = tell(story).unwrap();
    assert_eq!(told.broken, [""; 0]);
    told.transcript
}

#[test]
fn the_same_seed_gives_the_same_transcript() {
    let story = Story::of(1, &KINDS, 10);
    let other = std::thread::spawn({
        let story = story.clone();
        move || tell_again(&story)
    });
    assert_same(&tell_again(&story), &other.join().unwrap());
}

// One of two accounts leaves the configuration while nobody knows whose its nodes are, and another leader takes over:
// what the account has that stays is not all there is. A node was deleted whose machine existed.

#[test]
fn seed_1_a_leader_that_starts_without_an_account_deletes_none_of_its_nodes() {
    tell_again(&Story {
        seed: 1,
        clouds: vec![Kind::Cloudscale, Kind::Triton, Kind::Triton],
        has_selectors: false,
        has_ranges: true,
        replicas: 1,
        is_watched_at_rest: true,
        acts: vec![
            (0, Act::Boot(Machine(2, 1))),
            (50_906, Act::Boot(Machine(1, 0))),
            (765_097, Act::Freeze(40)),
            (13_313, Act::Reload(Some(2))),
            (581_272, Act::PowerOff(Machine(2, 1))),
            (92_924, Act::BreakWatches),
        ],
    });
}

#[test]
fn seed_187_an_account_that_leaves_with_the_wrong_credentials_takes_its_nodes_along() {
    tell_again(&Story {
        seed: 187,
        clouds: vec![Kind::Cloudscale, Kind::Cloudscale, Kind::Exoscale],
        has_selectors: false,
        has_ranges: false,
        replicas: 2,
        is_watched_at_rest: true,
        acts: vec![
            (0, Act::Boot(Machine(0, 1))),
            (0, Act::Boot(Machine(1, 1))),
            (77_179, Act::Swap(1)),
            (760_378, Act::PowerOff(Machine(1, 1))),
            (218_717, Act::Reload(Some(1))),
            (38_747, Act::Kill(0, 60)),
            (0, Act::Kill(1, 60)),
            (400_000, Act::BreakWatches),
        ],
    });
}

#[test]
fn seed_357_a_finalizer_stays_while_the_load_balancer_may_be_in_an_account_that_left() {
    tell_again(&Story {
        seed: 357,
        clouds: vec![Kind::Cloudscale, Kind::Cloudscale, Kind::Triton],
        has_selectors: true,
        has_ranges: true,
        replicas: 1,
        is_watched_at_rest: true,
        acts: vec![
            (0, Act::Boot(Machine(0, 1))),
            (0, Act::Boot(Machine(1, 1))),
            (862_640, Act::CreateService(2, 1, 2)),
            (37_238, Act::Reload(Some(1))),
            (634_976, Act::WantBalancer(2, false)),
        ],
    });
}

#[test]
fn seed_519_a_404_to_a_deletion_alone_does_not_mean_that_a_load_balancer_is_gone() {
    tell_again(&Story {
        seed: 519,
        clouds: vec![Kind::Exoscale],
        has_selectors: false,
        has_ranges: true,
        replicas: 2,
        is_watched_at_rest: true,
        acts: vec![
            (929_986, Act::CreateService(0, 0, 1)),
            (
                162_031,
                Act::Fault {
                    server: Server::Cloud(0),
                    method: "DELETE",
                    wrong: Wrong::Status(404),
                    times: 3,
                    percent: 100,
                },
            ),
            (56_049, Act::Boot(Machine(0, 0))),
            (184_252, Act::WantBalancer(0, false)),
            (45_881, Act::Boot(Machine(0, 3))),
        ],
    });
}

#[test]
fn seed_448_an_account_that_comes_back_owns_no_node_that_it_only_may_have_had() {
    tell_again(&Story {
        seed: 448,
        clouds: vec![Kind::Exoscale, Kind::Exoscale, Kind::Cloudscale],
        has_selectors: false,
        has_ranges: true,
        replicas: 1,
        is_watched_at_rest: true,
        acts: vec![
            (0, Act::Boot(Machine(0, 1))),
            (0, Act::Boot(Machine(1, 1))),
            (16_644, Act::Swap(1)),
            (397_909, Act::Reload(Some(0))),
            (65_204, Act::PowerOff(Machine(1, 1))),
        ],
    });
}

#[test]
fn seed_1664_a_key_that_gets_404_for_everything_proves_nothing() {
    let fault = |wrong, times, percent| Act::Fault {
        server: Server::Cloud(0),
        method: "*",
        wrong,
        times,
        percent,
    };
    tell_again(&Story {
        seed: 1664,
        clouds: vec![Kind::Exoscale, Kind::Xenorchestra, Kind::Triton],
        has_selectors: true,
        has_ranges: false,
        replicas: 1,
        is_watched_at_rest: true,
        acts: vec![
            (0, Act::Boot(Machine(0, 1))),
            (595, fault(Wrong::Status(403), 34, 20)),
            (198_535, Act::PowerOff(Machine(0, 1))),
            (179_786, fault(Wrong::Status(404), 11, 100)),
            (92_717, Act::BreakWatches),
        ],
    });
}

// A cloud got another name, was taken out of the configuration, and came back under its first name: the same account, and
// yet a node whose machine was gone by then stayed for ever.

#[test]
fn seed_441_a_cloud_that_comes_back_under_its_former_name_has_its_nodes_again() {
    tell_again(&Story {
        seed: 441,
        clouds: vec![Kind::Cloudscale],
        has_selectors: false,
        has_ranges: true,
        replicas: 1,
        is_watched_at_rest: true,
        acts: vec![
            (0, Act::Boot(Machine(0, 1))),
            (56_544, Act::Rename(0)),
            (178_776, Act::Swap(0)),
            (64_680, Act::Destroy(Machine(0, 1))),
        ],
    });
}

// Of two accounts of Triton, each has machines that the other does not know. Routes to machines that are gone stayed for
// ever, because they might have been those of the other account's.

#[test]
fn seed_1750_routes_to_machines_that_are_gone_go_whatever_another_account_has() {
    tell_again(&Story {
        seed: 1750,
        clouds: vec![Kind::Triton, Kind::Cloudscale, Kind::Triton],
        has_selectors: false,
        has_ranges: true,
        replicas: 2,
        is_watched_at_rest: true,
        acts: vec![
            (0, Act::Boot(Machine(0, 1))),
            (0, Act::Boot(Machine(2, 0))),
            (0, Act::Boot(Machine(2, 1))),
            (291_569, Act::Destroy(Machine(2, 1))),
        ],
    });
}

// After another process had begun under the new name, the old one came back: nothing said that a machine was gone.

#[test]
fn seed_2072_a_cloud_that_is_renamed_back_after_a_restart_has_its_nodes_again() {
    tell_again(&Story {
        seed: 2072,
        clouds: vec![Kind::Cloudscale, Kind::Xenorchestra],
        has_selectors: true,
        has_ranges: false,
        replicas: 1,
        is_watched_at_rest: true,
        acts: vec![
            (0, Act::Boot(Machine(1, 0))),
            (686_287, Act::Rename(1)),
            (300_353, Act::Kill(0, 21)),
            (59_828, Act::Destroy(Machine(1, 0))),
        ],
    });
}

// What a restored API server does not know any more, and what nothing proves. Managers did nothing wrong here.

#[test]
fn seed_2024_a_new_service_of_the_name_of_a_lost_one_takes_its_load_balancer_over() {
    tell_again(&Story {
        seed: 2024,
        clouds: vec![Kind::Exoscale, Kind::Cloudscale],
        has_selectors: true,
        has_ranges: false,
        replicas: 2,
        is_watched_at_rest: true,
        acts: vec![
            (0, Act::Boot(Machine(0, 1))),
            (8_861, Act::CreateService(2, 0, 3)),
            (88_910, Act::Restore),
            (361_214, Act::CreateService(2, 0, 2)),
            (550_257, Act::Kill(0, 5)),
            (190_758, Act::RemoveBalancer(2)),
        ],
    });
}

#[test]
fn seed_2027_a_restored_service_without_finalizer_leaves_its_load_balancer() {
    tell_again(&Story {
        seed: 2027,
        clouds: vec![Kind::Talos, Kind::Triton, Kind::Triton],
        has_selectors: true,
        has_ranges: false,
        replicas: 1,
        is_watched_at_rest: false,
        acts: vec![
            (0, Act::Boot(Machine(1, 1))),
            (0, Act::Boot(Machine(2, 1))),
            (
                302_179,
                Act::KillAtCall {
                    replica: 0,
                    server: Server::Cloud(2),
                    method: "GET",
                    after: 2,
                    is_done: true,
                },
            ),
            (83_034, Act::Break(2, Broken::Syntax)),
            (61_155, Act::CreateService(0, 1, 3)),
            (65_815, Act::Save),
            (66_906, Act::Exclude(Machine(0, 1), true)),
            (299_886, Act::Certify(Machine(2, 0), Names::ApiServer)),
            (1_111, Act::Swap(2)),
            (40_483, Act::Restore),
            (8_937, Act::DeleteService(0)),
        ],
    });
}

#[test]
fn seed_2095_a_restored_lease_may_not_say_which_account_was_proven() {
    tell_again(&Story {
        seed: 2095,
        clouds: vec![Kind::Xenorchestra],
        has_selectors: false,
        has_ranges: false,
        replicas: 1,
        is_watched_at_rest: false,
        acts: vec![
            (226_306, Act::Break(0, Broken::NoSecret)),
            (2_038, Act::Boot(Machine(0, 0))),
            (775_740, Act::Restart(26)),
            (26_102, Act::Swap(0)),
            (9_534, Act::Destroy(Machine(0, 0))),
            (20_669, Act::Restore),
            (54_685, Act::Reload(None)),
            (13_720, Act::Boot(Machine(0, 0))),
            (33_776, Act::Kill(0, 36)),
            (15_723, Act::Destroy(Machine(0, 0))),
        ],
    });
}

#[test]
fn seed_2433_a_restored_service_that_shows_nothing_lets_go_in_another_account() {
    tell_again(&Story {
        seed: 2433,
        clouds: vec![Kind::Cloudscale],
        has_selectors: false,
        has_ranges: true,
        replicas: 1,
        is_watched_at_rest: false,
        acts: vec![
            (
                53_266,
                Act::Fault {
                    server: Server::Cloud(0),
                    method: "GET",
                    wrong: Wrong::Hang,
                    times: 5,
                    percent: 20,
                },
            ),
            (9_079, Act::Boot(Machine(0, 0))),
            (17_641, Act::CreateService(3, 0, 3)),
            (11_105, Act::Save),
            (156_101, Act::Swap(0)),
            (7_600, Act::Restore),
            (64_557, Act::WantBalancer(3, false)),
        ],
    });
}

#[test]
fn seed_2324_an_own_load_balancer_may_be_called_as_one_of_others() {
    tell_again(&Story {
        seed: 2324,
        clouds: vec![Kind::Cloudscale],
        has_selectors: true,
        has_ranges: true,
        replicas: 1,
        is_watched_at_rest: true,
        acts: vec![
            (34_921, Act::Boot(Machine(0, 3))),
            (118_675, Act::CreateService(3, 0, 3)),
            (39_679, Act::Kill(0, 15)),
            (5_890, Act::Restore),
            (
                442_381,
                Act::Fault {
                    server: Server::Cloud(0),
                    method: "GET",
                    wrong: Wrong::Status(401),
                    times: 30,
                    percent: 50,
                },
            ),
            (136_887, Act::CreateService(3, 0, 1)),
            (57_920, Act::Claim(3, Claim::Name)),
        ],
    });
}

#[test]
fn seed_2127_a_clock_that_is_set_back_turns_the_newer_node_into_the_older_one() {
    tell_again(&Story {
        seed: 2127,
        clouds: vec![Kind::Static, Kind::Static],
        has_selectors: true,
        has_ranges: true,
        replicas: 1,
        is_watched_at_rest: false,
        acts: vec![
            (11_604, Act::Boot(Machine(0, 4))),
            (10_050, Act::SetClock(-59)),
            (52_488, Act::Impersonate(Machine(0, 4))),
            (3_383, Act::WantBalancer(3, false)),
        ],
    });
}

#[test]
fn seed_2461_a_cache_does_not_have_what_was_deleted() {
    tell_again(&Story {
        seed: 2461,
        clouds: vec![Kind::Xenorchestra, Kind::Exoscale, Kind::Cloudscale],
        has_selectors: true,
        has_ranges: true,
        replicas: 1,
        is_watched_at_rest: false,
        acts: vec![
            (214_517, Act::CreateService(1, 2, 2)),
            (106_683, Act::Save),
            (89_207, Act::DeleteService(1)),
            (
                119_535,
                Act::OldCache {
                    seconds: 27,
                    says_new: true,
                    restarts: false,
                },
            ),
        ],
    });
}
