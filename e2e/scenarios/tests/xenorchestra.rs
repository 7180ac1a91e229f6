//! Xen Orchestra through the whole manager: the real provider and the real manager between an API server
//! and a simulated Xen Orchestra, with the rights of the original's service account and no others.

mod harness;
mod initialization;
mod labels;
mod lifecycle;
mod moves;
mod rights;
mod scale;
