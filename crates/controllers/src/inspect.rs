//! What people ask for without a manager: why a node or Service is treated as it is, and what would be done about a
//! Service. Both decide with the very functions of the manager, and write nothing.

pub(crate) mod explain;
pub(crate) mod preview;
