//! Load balancer machines: appliances that are driven by their metadata, some for each Service.
