//! Determinism.
