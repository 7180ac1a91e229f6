//! Whose a network load balancer of Exoscale is, and whose are the services on it.
