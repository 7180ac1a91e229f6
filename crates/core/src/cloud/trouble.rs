//! What people should hear of although no object of the cluster is concerned: a cloud that does not
//! answer, say. A provider has no way to the cluster; whoever has one writes the event.

/// One thing that went wrong. What happens again has the same event, which counts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Counts what went wrong, from 1.
    pub number: u64,
    /// The name of its event.
    pub event: String,
    /// Which controller manager it is, and which process of it.
    pub reporter: (String, String),
    /// What it is about.
    pub regarding: Regarding,
    /// What was tried, as one word.
    pub action: &'static str,
    /// What became of it, as one word.
    pub reason: &'static str,
    /// What happened, for people.
    pub note: String,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regarding {
    /// Its namespace, which is the event's too.
    pub namespace: String,
    /// Its kind, of the core API.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its uid; empty if it has none.
    pub uid: String,
}
