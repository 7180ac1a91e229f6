//! What can be done to VMs: how it is called, what it begins with and which right it needs.

use super::model::PowerState;

/// What can be done to a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Start,
    CleanShutdown,
    HardShutdown,
    CleanReboot,
    HardReboot,
    Suspend,
    Resume,
    Pause,
    Unpause,
    Migrate,
}

/// Path, name of the task, operation of the VM and right of every action.
type Row = (
    Action,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

const ACTIONS: [Row; 10] = bowline_simulator::table![
    Action::Start, "start", "start VM", "start", "start";
    Action::CleanShutdown, "clean_shutdown", "clean shutdown VM", "clean_shutdown",
        "shutdown:clean";
    Action::HardShutdown, "hard_shutdown", "hard shutdown VM", "hard_shutdown", "shutdown:hard";
    Action::CleanReboot, "clean_reboot", "clean reboot VM", "clean_reboot", "reboot:clean";
    Action::HardReboot, "hard_reboot", "hard reboot VM", "hard_reboot", "reboot:hard";
    Action::Suspend, "suspend", "suspend VM", "suspend", "suspend";
    Action::Resume, "resume", "resume VM", "resume", "resume";
    Action::Pause, "pause", "pause VM", "pause", "pause";
    Action::Unpause, "unpause", "unpause VM", "unpause", "unpause";
    Action::Migrate, "migrate", "Migrate VM", "pool_migrate", "migrate-send";
];

impl Action {
    /// The action of a path.
    pub(super) fn parse(word: &str) -> Option<Self> {
        let row = ACTIONS.iter().find(|row| row.1 == word);
        row.map(|row| row.0)
    }

    fn row(self) -> &'static Row {
        ACTIONS
            .iter()
            .find(|row| row.0 == self)
            .unwrap_or(&ACTIONS[0])
    }

    /// What its task is called.
    pub(super) fn name(self) -> &'static str {
        self.row().2
    }

    /// What the VM is said to be at meanwhile.
    pub(super) fn operation(self) -> &'static str {
        self.row().3
    }

    /// The right that it needs.
    pub(super) fn right(self) -> &'static str {
        self.row().4
    }

    /// The states that it begins with; the first is the one that is asked for.
    pub(super) fn from(self) -> &'static [PowerState] {
        use PowerState::{Halted, Paused, Running, Suspended};
        match self {
            Self::Start => &[Halted],
            Self::HardShutdown => &[Running, Paused, Suspended],
            Self::HardReboot => &[Running, Paused],
            Self::Resume => &[Suspended],
            Self::Unpause => &[Paused],
            Self::CleanShutdown
            | Self::CleanReboot
            | Self::Suspend
            | Self::Pause
            | Self::Migrate => &[Running],
        }
    }
}
