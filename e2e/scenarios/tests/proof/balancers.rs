//! Whose a load balancer is.
