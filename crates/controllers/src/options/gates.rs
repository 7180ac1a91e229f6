//! Feature gates: which names are known, and what becomes of them.

use std::collections::BTreeMap;

use bowline_core::quote;

use super::value;

/// What is known about one feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Known, and of no consequence here.
    Known,
    /// Gone upstream; named with a warning.
    Gone,
}

/// Gates of the cloud controller manager, of its logging and metrics, and of the generic API server
/// library that the originals link; then those that left Kubernetes but not people's manifests.
const GATES: &[(&str, Gate)] = &[
    ("AllAlpha", Gate::Known),
    ("AllBeta", Gate::Known),
    (
        "CloudControllerManagerWatchBasedRoutesReconciliation",
        Gate::Known,
    ),
    ("CloudControllerManagerWebhook", Gate::Known),
    (
        "ControllerManagerReleaseLeaderElectionLockOnExit",
        Gate::Known,
    ),
    ("ContextualLogging", Gate::Known),
    ("LoggingAlphaOptions", Gate::Known),
    ("LoggingBetaOptions", Gate::Known),
    ("NativeHistograms", Gate::Known),
    ("APIResponseCompression", Gate::Known),
    ("APIServerIdentity", Gate::Known),
    ("APIServerTracing", Gate::Known),
    ("APIServingWithRoutine", Gate::Known),
    ("AggregatedDiscoveryRemoveBetaType", Gate::Known),
    ("AllowParsingUserUIDFromCertAuth", Gate::Known),
    ("AllowUnsafeMalformedObjectDeletion", Gate::Known),
    ("AnonymousAuthConfigurableEndpoints", Gate::Known),
    ("AuthorizeWithSelectors", Gate::Known),
    ("BtreeWatchCache", Gate::Known),
    ("CBORServingAndStorage", Gate::Known),
    ("ClientsAllowCBOR", Gate::Known),
    ("ClientsPreferCBOR", Gate::Known),
    ("ConcurrentWatchObjectDecode", Gate::Known),
    ("ConsistentListFromCache", Gate::Known),
    ("CoordinatedLeaderElection", Gate::Known),
    ("DeclarativeValidation", Gate::Known),
    ("DeclarativeValidationTakeover", Gate::Known),
    ("DetectCacheInconsistency", Gate::Known),
    ("InOrderInformers", Gate::Known),
    ("InformerResourceVersion", Gate::Known),
    ("KMSv1", Gate::Known),
    ("ListFromCacheSnapshot", Gate::Known),
    ("MutatingAdmissionPolicy", Gate::Known),
    ("OpenAPIEnums", Gate::Known),
    ("RemoteRequestHeaderUID", Gate::Known),
    ("ResilientWatchCacheInitialization", Gate::Known),
    ("RetryGenerateName", Gate::Known),
    ("SizeBasedListCostEstimate", Gate::Known),
    ("StorageVersionAPI", Gate::Known),
    ("StorageVersionHash", Gate::Known),
    ("StreamingCollectionEncodingToJSON", Gate::Known),
    ("StreamingCollectionEncodingToProtobuf", Gate::Known),
    ("StrictCostEnforcementForVAP", Gate::Known),
    ("StrictCostEnforcementForWebhooks", Gate::Known),
    ("StructuredAuthenticationConfiguration", Gate::Known),
    (
        "StructuredAuthenticationConfigurationEgressSelector",
        Gate::Known,
    ),
    (
        "StructuredAuthenticationConfigurationJWKSMetrics",
        Gate::Known,
    ),
    ("StructuredAuthorizationConfiguration", Gate::Known),
    ("TokenRequestServiceAccountUIDValidation", Gate::Known),
    ("UnauthenticatedHTTP2DOSMitigation", Gate::Known),
    ("UnknownVersionInteroperabilityProxy", Gate::Known),
    ("WatchCacheInitializationPostStartHook", Gate::Known),
    ("WatchFromStorageWithoutResourceVersion", Gate::Known),
    ("WatchList", Gate::Known),
    ("WatchListClient", Gate::Known),
    ("CloudDualStackNodeIPs", Gate::Gone),
    ("ControllerManagerLeaderMigration", Gate::Gone),
    ("StableLoadBalancerNodeSet", Gate::Gone),
];

/// Reads `A=true,B=false`; every name must be known.
pub(super) fn read(text: &str) -> Result<BTreeMap<String, bool>, String> {
    let mut gates = BTreeMap::new();
    for item in text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let (name, setting) = match item.split_once('=') {
            Some((name, setting)) => (name.trim(), setting.trim()),
            None => return Err(format!("missing bool value for {item}")),
        };
        let on = value::switch(setting)
            .map_err(|reason| format!("invalid value {} for {name}: {reason}", quote(setting)))?;
        if !GATES.iter().any(|(known, _)| *known == name) {
            return Err(format!("unrecognized feature gate: {name}"));
        }
        gates.insert(name.to_owned(), on);
    }
    Ok(gates)
}

/// One warning for each gate that was set and no longer exists.
pub(super) fn warnings(gates: &BTreeMap<String, bool>) -> Vec<String> {
    let gone = |name: &&String| {
        GATES
            .iter()
            .any(|(known, gate)| known == *name && *gate == Gate::Gone)
    };
    gates
        .keys()
        .filter(gone)
        .map(|name| {
            format!("feature gate {name} no longer exists; it has no effect and can be left out")
        })
        .collect()
}
