//! Other people's tools at work on the same machines at the same time.
