//! When a node stops being a target.
