//! Commands that work without a manager: `bowline explain` and `bowline plan`. Both decide with the
//! functions of the manager, and write nothing.

mod departed;
pub(crate) mod explain;
pub(crate) mod preview;
