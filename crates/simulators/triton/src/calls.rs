//! Which call a method and a path mean: the API's own names of its routes, in lower case, as policies
//! spell them.

use std::sync::LazyLock;

use bowline_simulator::calls::Calls;
use http::Method;

/// Method, path and name of everything that is served. Braces stand for one part of a path.
static CALLS: LazyLock<Calls> = LazyLock::new(|| {
    Calls::new(
        "
    GET    --ping                                                  ping
    GET    {account}                                               getaccount
    POST   {account}                                               updateaccount
    PUT    {account}                                               setroletags
    GET    {account}/limits                                        getprovisioninglimits
    GET    {account}/config                                        getconfig
    PUT    {account}/config                                        updateconfig
    GET    {account}/datacenters                                   listdatacenters
    GET    {account}/datacenters/{datacenter}                      getdatacenter
    GET    {account}/services                                      listservices
    GET    {account}/changefeed                                    changefeed
    GET    {account}/keys                                          listkeys
    POST   {account}/keys                                          createkey
    GET    {account}/keys/{name}                                   getkey
    DELETE {account}/keys/{name}                                   deletekey
    GET    {account}/users                                         listusers
    POST   {account}/users                                         createuser
    GET    {account}/users/{user}                                  getuser
    POST   {account}/users/{user}                                  updateuser
    DELETE {account}/users/{user}                                  deleteuser
    GET    {account}/users/{user}/keys                             listuserkeys
    POST   {account}/users/{user}/keys                             createuserkey
    GET    {account}/users/{user}/keys/{name}                      getuserkey
    DELETE {account}/users/{user}/keys/{name}                      deleteuserkey
    GET    {account}/roles                                         listroles
    POST   {account}/roles                                         createrole
    GET    {account}/roles/{role}                                  getrole
    POST   {account}/roles/{role}                                  updaterole
    DELETE {account}/roles/{role}                                  deleterole
    GET    {account}/policies                                      listpolicies
    POST   {account}/policies                                      createpolicy
    GET    {account}/policies/{policy}                             getpolicy
    POST   {account}/policies/{policy}                             updatepolicy
    DELETE {account}/policies/{policy}                             deletepolicy
    GET    {account}/machines                                      listmachines
    POST   {account}/machines                                      createmachine
    GET    {account}/machines/{machine}                            getmachine
    POST   {account}/machines/{machine}                            updatemachine
    PUT    {account}/machines/{machine}                            setroletags
    DELETE {account}/machines/{machine}                            deletemachine
    GET    {account}/machines/{machine}/audit                      machineaudit
    GET    {account}/machines/{machine}/tags                       listmachinetags
    POST   {account}/machines/{machine}/tags                       addmachinetags
    PUT    {account}/machines/{machine}/tags                       replacemachinetags
    DELETE {account}/machines/{machine}/tags                       deletemachinetags
    GET    {account}/machines/{machine}/tags/{tag}                 getmachinetag
    DELETE {account}/machines/{machine}/tags/{tag}                 deletemachinetag
    GET    {account}/machines/{machine}/metadata                   listmachinemetadata
    POST   {account}/machines/{machine}/metadata                   addmachinemetadata
    DELETE {account}/machines/{machine}/metadata                   deleteallmachinemetadata
    GET    {account}/machines/{machine}/metadata/{key}             getmachinemetadata
    DELETE {account}/machines/{machine}/metadata/{key}             deletemachinemetadata
    GET    {account}/machines/{machine}/nics                       listnics
    GET    {account}/machines/{machine}/nics/{mac}                 getnic
    GET    {account}/machines/{machine}/fwrules                    listmachinefirewallrules
    GET    {account}/machines/{machine}/snapshots                  listmachinesnapshots
    GET    {account}/machines/{machine}/disks                      listmachinedisks
    GET    {account}/networks                                      listnetworks
    PUT    {account}/networks                                      setroletags
    PUT    {account}/{collection}                                  setroletags
    GET    {account}/networks/{network}                            getnetwork
    GET    {account}/fabrics/default/vlans                         listfabricvlans
    POST   {account}/fabrics/default/vlans                         createfabricvlan
    GET    {account}/fabrics/default/vlans/{vlan_id}               getfabricvlan
    PUT    {account}/fabrics/default/vlans/{vlan_id}               updatefabricvlan
    DELETE {account}/fabrics/default/vlans/{vlan_id}               deletefabricvlan
    GET    {account}/fabrics/default/vlans/{vlan_id}/networks      listfabricnetworks
    POST   {account}/fabrics/default/vlans/{vlan_id}/networks      createfabricnetwork
    GET    {account}/fabrics/default/vlans/{vlan_id}/networks/{id} getfabricnetwork
    PUT    {account}/fabrics/default/vlans/{vlan_id}/networks/{id} updatefabricnetwork
    DELETE {account}/fabrics/default/vlans/{vlan_id}/networks/{id} deletefabricnetwork
    GET    {account}/fwrules                                       listfirewallrules
    POST   {account}/fwrules                                       createfirewallrule
    GET    {account}/fwrules/{id}                                  getfirewallrule
    POST   {account}/fwrules/{id}                                  updatefirewallrule
    DELETE {account}/fwrules/{id}                                  deletefirewallrule
    POST   {account}/fwrules/{id}/enable                           enablefirewallrule
    POST   {account}/fwrules/{id}/disable                          disablefirewallrule
    GET    {account}/fwrules/{id}/machines                         listfirewallrulemachines
    GET    {account}/images                                        listimages
    GET    {account}/images/{image}                                getimage
    GET    {account}/packages                                      listpackages
    GET    {account}/packages/{package}                            getpackage
    GET    {account}/volumes                                       listvolumes
",
    )
});

/// What stands for the braces of a path.
pub(super) type Parts = Vec<(&'static str, String)>;

/// What a method and a path come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Call(&'static str, Parts),
    /// Only other methods have that path.
    OtherMethod,
    Nothing,
}

/// The call that a method and a path mean.
pub(super) fn find(method: &Method, path: &str) -> Found {
    let verb = if method == Method::HEAD {
        "GET"
    } else {
        method.as_str()
    };
    let path = path.strip_prefix('/').unwrap_or("/");
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut other = false;
    for call in CALLS.all() {
        if let Some(parts) = call.fit(path) {
            if call.method == verb {
                let decoded = |text| percent_encoding::percent_decode_str(text).decode_utf8_lossy();
                let parts = parts.into_iter();
                let parts = parts.map(|(name, part)| (name, decoded(part).into_owned()));
                return Found::Call(call.operation, parts.collect());
            }
            other |= !call.pattern.ends_with("{collection}");
        }
    }
    if other {
        Found::OtherMethod
    } else {
        Found::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_means_one_call() {
        for (method, path, wanted) in [
            ("GET", "/--ping", Some("ping")),
            ("GET", "/acme", Some("getaccount")),
            ("HEAD", "/acme/machines", Some("listmachines")),
            ("GET", "/acme/machines/", Some("listmachines")),
            (
                "DELETE",
                "/acme/machines/x/tags/a%2Fb",
                Some("deletemachinetag"),
            ),
            ("PUT", "/acme/machines", Some("setroletags")),
            ("GET", "/acme/nonsense", None),
            ("GET", "/acme/machines//tags", None),
            ("GET", "/", None),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let found = match find(&method, path) {
                Found::Call(name, _) => Some(name),
                _ => None,
            };
            assert_eq!(found, wanted, "{method} {path}");
        }
        let found = find(&Method::DELETE, "/acme/machines/x/tags/a%2Fb");
        let Found::Call(_, parts) = found else {
            panic!("{found:?}")
        };
        assert_eq!(parts[2], ("tag", "a/b".to_owned()));
        assert_eq!(find(&Method::PATCH, "/acme/machines"), Found::OtherMethod);
    }
}
