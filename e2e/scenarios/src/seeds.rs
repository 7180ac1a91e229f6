//! Stories of random trouble, each told by its seed.

use std::ops::Range;

use bowline_http::Random;
use serde_json::{Value, json};

/// Plays a story once for each of these seeds, in memory alone because of that.
#[macro_export]
macro_rules! run_seeds {
    ($reason:expr, $seeds:expr, $story:expr) => {
        if $crate::only_in_memory($reason) {
            for seed in $crate::seeds::chosen($seeds) {
                $crate::run_scenario!(async || {
                    $story(seed).await;
                });
            }
        }
    };
}

/// These seeds, or others if the environment says so: `BOWLINE_SEED=17` means that seed alone,
/// `BOWLINE_SEEDS=1000` so many.
pub fn chosen(usual: Range<u64>) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    match (number("BOWLINE_SEED"), number("BOWLINE_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => 0..count,
        (None, None) => usual,
    }
}

/// One of these.
pub fn pick<T: Copy>(random: &Random, choices: &[T]) -> T {
    let at = random.below(choices.len() as u64);
    choices[usize::try_from(at).unwrap()]
}

/// Ports of a Service: HTTP, and sometimes DNS.
pub fn ports(random: &Random) -> Value {
    let number = random.below(3);
    let mut ports = vec![json!({ "name": "http", "protocol": "TCP", "port": 80 + number })];
    if random.below(2) == 0 {
        ports.push(json!({ "name": "dns", "protocol": "UDP", "port": 53 }));
    }
    ports.into()
}

/// Checks that two runs are the same; if not, it says where they part.
#[track_caller]
pub fn assert_same(first: &str, second: &str) {
    for (number, (one, other)) in first.lines().zip(second.lines()).enumerate() {
        assert_eq!(one, other, "the runs part at call {number}");
    }
    assert_eq!(first.len(), second.len());
}
