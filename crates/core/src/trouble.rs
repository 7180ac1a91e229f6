//! What people should hear of although no object of the cluster is concerned: a cloud that does not
//! answer, say. A provider has no way to the cluster; whoever has one writes the event.

/// One thing that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Counts what went wrong, from 1.
    pub number: u64,
    /// What was tried, as one word.
    pub action: &'static str,
    /// What became of it, as one word.
    pub reason: &'static str,
    /// What happened, for people.
    pub note: String,
}
