//! Serving certificates of kubelets, end to end: the real manager in this process, an API server, and
//! clouds that say which addresses a machine has. On a real control plane what is approved is
//! signed by kube-controller-manager, and what is not is not.

mod clouds;
mod exoscale;
mod framework;
mod harness;
mod rights;
mod seeds;
mod writing;
