//! The objects of plans, by what every provider knows of them.

use bowline_core::ResourceRef;

/// An object that exists.
pub fn seen(kind: &'static str, name: impl Into<String>, id: impl Into<String>) -> ResourceRef {
    ResourceRef {
        id: Some(id.into()),
        ..new(kind, name)
    }
}

/// An object that does not exist yet.
pub fn new(kind: &'static str, name: impl Into<String>) -> ResourceRef {
    let (name, id) = (name.into(), None);
    ResourceRef { kind, name, id }
}
