//! Triton: every write is a step of the plan.
