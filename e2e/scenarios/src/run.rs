//! Runs one scenario, on whichever API server is meant, and cleans up after it.

use std::cell::RefCell;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures::FutureExt as _;
use tokio::runtime::Builder;

use crate::cluster::Remains;
use crate::plane;

thread_local! {
    /// What the scenario of this thread leaves on a real server.
    static REMAINS: RefCell<Vec<Remains>> = const { RefCell::new(Vec::new()) };
}

/// Whether scenarios run on a real API server.
pub fn is_real() -> bool {
    plane::program().is_some()
}

/// Runs a scenario that is only a part of a test, or one of several; a whole one is `#[scenario]`.
#[macro_export]
macro_rules! run_scenario {
    ($body:expr) => {
        // Here and not in a function, since only tests have a clock that can be paused.
        $crate::run_scenario(|builder| builder.start_paused(true), $body)
    };
}

/// Runs a scenario: under a paused clock on the simulated API server, or on the real clock on a
/// real one. `#[scenario]` and [`run_scenario!`](crate::run_scenario!) call it.
pub fn run_scenario<T>(
    pause: impl FnOnce(&mut Builder) -> &mut Builder,
    body: impl AsyncFnOnce() -> T,
) -> T {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    if !is_real() {
        pause(&mut builder);
    }
    let runtime = builder.build().unwrap();
    runtime.block_on(async {
        let ended = AssertUnwindSafe(body()).catch_unwind().await;
        for remains in REMAINS.take() {
            remains.remove().await;
        }
        ended.unwrap_or_else(|cause| resume_unwind(cause))
    })
}

/// Has this removed when the scenario of this thread is over.
pub(crate) fn remove_later(remains: Remains) {
    REMAINS.with_borrow_mut(|all| all.push(remains));
}

/// Whether this scenario has to stay in memory, because of that; a run on a real server lists it.
pub fn only_in_memory(reason: &str) -> bool {
    if is_real() {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a scenario").to_owned();
        tell(&format!("in memory only: {name}: {reason}"));
    }
    !is_real()
}

/// Tells whoever runs the tests something, also when they are captured.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "scenarios: {line}");
}
