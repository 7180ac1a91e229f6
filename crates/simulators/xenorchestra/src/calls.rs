//! Which call a method and a path mean: the API's own names of its operations.

use std::sync::LazyLock;

use bowline_simulator::calls::Calls;
use http::Method;
use serde_json::{Map, Value, json};

/// Method, path after `/rest/v0/` and id of everything that is served. Braces stand for one part of a path.
static CALLS: LazyLock<Calls> = LazyLock::new(|| {
    Calls::new(
        "
    GET    ping                                   Ping
    GET    docs/swagger.json                      GetSwagger
    GET    vms                                    GetVms
    GET    vms/{id}                               GetVm
    DELETE vms/{id}                               DeleteVm
    POST   vms/{id}/actions/start                 StartVm
    POST   vms/{id}/actions/clean_shutdown        CleanShutdownVm
    POST   vms/{id}/actions/hard_shutdown         HardShutdownVm
    POST   vms/{id}/actions/clean_reboot          CleanRebootVm
    POST   vms/{id}/actions/hard_reboot           HardRebootVm
    POST   vms/{id}/actions/suspend               SuspendVm
    POST   vms/{id}/actions/resume                ResumeVm
    POST   vms/{id}/actions/pause                 PauseVm
    POST   vms/{id}/actions/unpause               UnpauseVm
    POST   vms/{id}/actions/migrate               MigrateVm
    PUT    vms/{id}/tags/{tag}                    PutVmTag
    DELETE vms/{id}/tags/{tag}                    DeleteVmTag
    GET    hosts                                  GetHosts
    GET    hosts/{id}                             GetHost
    PUT    hosts/{id}/tags/{tag}                  PutHostTag
    DELETE hosts/{id}/tags/{tag}                  DeleteHostTag
    GET    pools                                  GetPools
    GET    pools/{id}                             GetPool
    PUT    pools/{id}/tags/{tag}                  PutPoolTag
    DELETE pools/{id}/tags/{tag}                  DeletePoolTag
    GET    servers                                GetServers
    GET    servers/{id}                           GetServer
    GET    tasks                                  GetTasks
    GET    tasks/{id}                             GetTask
    GET    users                                  GetUsers
    POST   users/authentication_tokens            PostDeprecatedAuthenticationTokens
    GET    users/{id}                             GetUser
    GET    users/{id}/authentication_tokens       GetAuthenticationTokens
    POST   users/{id}/authentication_tokens       PostAuthenticationTokens
    GET    events                                 OpenSseConnection
    POST   events/{id}/subscriptions              AddSubscription
    DELETE events/{id}/subscriptions/{collection} RemoveSubscription
",
    )
});

/// The id of a call, and what stands for the braces of its path.
pub(super) fn call<'a>(method: &Method, path: &'a str) -> Option<(&'static str, Vec<&'a str>)> {
    CALLS.find(method.as_str(), path)
}

/// What is served, in the form of an OpenAPI document without details.
pub(super) fn document() -> Value {
    let mut paths = Map::new();
    for call in CALLS.all() {
        let path = paths.entry(format!("/{}", call.pattern));
        let path = path.or_insert_with(|| json!({}));
        let responses = json!({ "default": { "description": "as the server answers" } });
        path[call.method.to_lowercase()] =
            json!({ "operationId": call.operation, "responses": responses });
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Xen Orchestra, simulated", "version": "0" },
        "servers": [{ "url": "/rest/v0" }],
        "paths": paths,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_means_one_call() {
        type Row<'a> = (&'a str, &'a str, Option<(&'a str, &'a [&'a str])>);
        let rows: [Row<'_>; 9] = bowline_simulator::table![
            "GET", "vms", Some(("GetVms", &[]));
            "GET", "vms/", None;
            "PATCH", "vms", None;
            "GET", "vms/x", Some(("GetVm", &["x"]));
            "POST", "vms/x/actions/start", Some(("StartVm", &["x"]));
            "POST", "vms/x/actions/explode", None;
            "POST", "users/authentication_tokens",
                Some(("PostDeprecatedAuthenticationTokens", &[]));
            "POST", "users/me/authentication_tokens", Some(("PostAuthenticationTokens", &["me"]));
            "DELETE", "events/x/subscriptions/VM", Some(("RemoveSubscription", &["x", "VM"]));
        ];
        for (method, path, wanted) in rows {
            let method: Method = method.parse().unwrap();
            let found = call(&method, path);
            let found = found.as_ref().map(|(id, parts)| (*id, parts.as_slice()));
            assert_eq!(found, wanted, "{method} {path}");
        }
    }
}
