//! Whether credentials see the cluster's account.
