//! Seeds.
