//! The Exoscale provider: one zone of a European cloud.
//!
//! # The cloud
//!
//! Zones (`ch-gva-2`, `at-vie-1`, …) that share an account and nothing else: each has an API host of
//! its own, and the same path on two hosts shows two different sets of things. Load balancers are
//! network load balancers (NLB) of one public IPv4 address, whose listeners ("services") each send
//! to one instance pool; the NLB follows the members of the pool by itself.
//!
//! # Its API, and what to know about it
//!
//! - Every request is signed (EXO2-HMAC-SHA256) over method, path, body, query values and an expiry
//!   ten minutes ahead: a clock that is wrong by more makes every call fail.
//! - Lists come whole, without pages, in an object under a key of their own. An empty list may be
//!   left out. Every field of every object may be missing.
//! - Every write answers with an operation, which is done some time later, mostly in seconds. It is
//!   asked for under its id. It may have failed in the very first answer.
//! - The operation on a service of an NLB refers to the NLB: a new service has to be found by reading
//!   the NLB again.
//! - NLB names are unique per zone; a second one of a name is a 409. Instance names are not unique.
//! - Empty texts are refused, and what is absent from a PUT stays: a description is emptied by a
//!   DELETE of that field.
//! - The health check of a service is replaced as a whole. The pool of a service cannot change.
//! - 403 is a wrong signature, a role that does not allow the call, a quota, or a locked resource.
//!   A role written for the original controller must stay enough: what that did not call, ours can do
//!   without.
//! - The list of zones is public; signed, it needs the role's permission like any other call.
//! - The SMBIOS uuid that a kubelet reports is the id of its instance.
//!
//! # The parts
//!
//! ```text
//!  config ─ file and environment, checked ─┐
//!  zone ─ which zone, where its API is ────┼─▶ build ─▶ Cloud ─▶ api ─▶ bowline-http
//!  credentials ─ given, or from a file ────┘                      ▲
//!                               operation: how to wait for it ────┘
//! ```

#[allow(
    dead_code,
    unused_imports,
    reason = "instances and load balancers come next"
)]
mod api;
#[allow(dead_code, reason = "load balancers come next")]
mod operation;
