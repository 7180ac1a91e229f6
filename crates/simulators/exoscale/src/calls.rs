//! Which call a method and a path mean: the API's own names of its operations.

use std::sync::LazyLock;

use bowline_simulator::calls::Calls;
use http::Method;

/// Method, path after `/v2/` and id of everything that is served. Braces stand for one part of a path.
static CALLS: LazyLock<Calls> = LazyLock::new(|| {
    Calls::new(
        "
    GET    zone                                    list-zones
    GET    operation/{id}                          get-operation
    GET    quota                                   list-quotas
    GET    quota/{id}                              get-quota
    GET    instance-type                           list-instance-types
    GET    instance-type/{id}                      get-instance-type
    GET    template                                list-templates
    GET    template/{id}                           get-template
    GET    ssh-key                                 list-ssh-keys
    GET    security-group                          list-security-groups
    GET    anti-affinity-group                     list-anti-affinity-groups
    GET    elastic-ip                              list-elastic-ips
    GET    private-network                         list-private-networks
    GET    private-network/{id}                    get-private-network
    GET    instance                                list-instances
    POST   instance                                create-instance
    PUT    instance/{id}:start                     start-instance
    PUT    instance/{id}:stop                      stop-instance
    PUT    instance/{id}:reboot                    reboot-instance
    GET    instance/{id}                           get-instance
    PUT    instance/{id}                           update-instance
    DELETE instance/{id}                           delete-instance
    GET    instance-pool                           list-instance-pools
    POST   instance-pool                           create-instance-pool
    PUT    instance-pool/{id}:scale                scale-instance-pool
    PUT    instance-pool/{id}:evict                evict-instance-pool-members
    GET    instance-pool/{id}                      get-instance-pool
    PUT    instance-pool/{id}                      update-instance-pool
    DELETE instance-pool/{id}                      delete-instance-pool
    GET    load-balancer                           list-load-balancers
    POST   load-balancer                           create-load-balancer
    GET    load-balancer/{id}                      get-load-balancer
    PUT    load-balancer/{id}                      update-load-balancer
    DELETE load-balancer/{id}                      delete-load-balancer
    POST   load-balancer/{id}/service              add-service-to-load-balancer
    DELETE load-balancer/{id}/{field}              reset-load-balancer-field
    GET    load-balancer/{id}/service/{id}         get-load-balancer-service
    PUT    load-balancer/{id}/service/{id}         update-load-balancer-service
    DELETE load-balancer/{id}/service/{id}         delete-load-balancer-service
    DELETE load-balancer/{id}/service/{id}/{field} reset-load-balancer-service-field
    GET    sks-cluster                             list-sks-clusters
    GET    sks-cluster/{id}                        get-sks-cluster
    GET    sks-cluster/{id}/nodepool/{id}          get-sks-nodepool
    PUT    sks-cluster/{id}/nodepool/{id}:scale    scale-sks-nodepool
    PUT    sks-cluster/{id}/nodepool/{id}:evict    evict-sks-nodepool-members
    GET    sks-cluster-version                     list-sks-cluster-versions
",
    )
});

/// The id of a call, and what stands for the braces of its path.
pub(super) fn call<'a>(method: &Method, path: &'a str) -> Option<(&'static str, Vec<&'a str>)> {
    CALLS.find(method.as_str(), path)
}

/// Whether an operation of that id exists, or some fit a pattern with `*`.
pub(super) fn exists(pattern: &str) -> bool {
    CALLS.has(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_means_one_call() {
        type Row<'a> = (&'a str, &'a str, Option<(&'a str, &'a [&'a str])>);
        let rows: [Row<'_>; 11] = bowline_simulator::table![
            "GET", "zone", Some(("list-zones", &[]));
            "GET", "/zone", None;
            "GET", "zone/", None;
            "POST", "zone", None;
            "GET", "instance/x", Some(("get-instance", &["x"]));
            "GET", "instance/", None;
            "PUT", "instance/x:stop", Some(("stop-instance", &["x"]));
            "PUT", "instance/x", Some(("update-instance", &["x"]));
            "DELETE", "load-balancer/a/service/b",
                Some(("delete-load-balancer-service", &["a", "b"]));
            "DELETE", "load-balancer/a/description",
                Some(("reset-load-balancer-field", &["a", "description"]));
            "GET", "load-balancer/a/service/b/c/d", None;
        ];
        for (method, path, wanted) in rows {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let found = call(&method, path);
            let found = found.as_ref().map(|(id, parts)| (*id, parts.as_slice()));
            assert_eq!(found, wanted, "{method} {path}");
        }
    }
}
