//! The JSON of `/configz`.

use serde_json::{Value, json};

use super::controllers::canonical;
use super::settings::Options;
use bowline_core::format_duration;

impl Options {
    /// The document of `/configz`, with the keys and spelling of the originals.
    ///
    /// `migration` is the leader-migration document as read, if there is one.
    pub fn configz(&self, migration: Option<Value>) -> Value {
        json!({
            "cloudcontrollermanager.config.k8s.io": {
                "apiVersion": "cloudcontrollermanager.config.k8s.io/v1alpha1",
                "kind": "CloudControllerManagerConfiguration",
                "Generic": self.generic(migration),
                "KubeCloudShared": self.cloud_shared(),
                "NodeController": {
                    "ConcurrentNodeSyncs": self.controllers.node_syncs,
                    "ConcurrentNodeStatusUpdates": self.controllers.status_updates(),
                },
                "ServiceController": {
                    "ConcurrentServiceSyncs": self.controllers.service_syncs,
                },
                "NodeStatusUpdateFrequency":
                    format_duration(self.controllers.node_status_update_frequency),
                "Webhook": { "Webhooks": self.webhook.selection },
            }
        })
    }

    fn generic(&self, migration: Option<Value>) -> Value {
        let (client, election, controllers) = (&self.client, &self.election, &self.controllers);
        json!({
            "Port": self.serving.port,
            "Address": self.serving.address.to_string(),
            "MinResyncPeriod": format_duration(controllers.min_resync_period),
            "ClientConnection": {
                "kubeconfig": client.kubeconfig,
                "acceptContentTypes": "",
                "contentType": client.content_type,
                "qps": f64::from(client.qps),
                "burst": client.burst,
            },
            "ControllerStartInterval": format_duration(controllers.start_interval),
            "LeaderElection": {
                "leaderElect": election.enabled,
                "leaseDuration": format_duration(election.lease_duration),
                "renewDeadline": format_duration(election.renew_deadline),
                "retryPeriod": format_duration(election.retry_period),
                "resourceLock": election.resource_lock,
                "resourceName": election.resource_name,
                "resourceNamespace": election.resource_namespace,
            },
            "Controllers": canonical(&controllers.selection),
            "Debugging": {
                "enableProfiling": self.debugging.profiling,
                "enableContentionProfiling": self.debugging.contention_profiling,
            },
            "LeaderMigrationEnabled": election.migration,
            "LeaderMigration": migration.unwrap_or_else(|| json!({
                "leaderName": "", "resourceLock": "", "controllerLeaders": null,
            })),
        })
    }

    fn cloud_shared(&self) -> Value {
        let (cloud, controllers) = (&self.cloud, &self.controllers);
        json!({
            "CloudProvider": {
                "Name": cloud.provider,
                "CloudConfigFile": cloud.config_file,
            },
            "ExternalCloudVolumePlugin": cloud.external_volume_plugin,
            "UseServiceAccountCredentials": self.client.use_service_account_credentials,
            "AllowUntaggedCloud": cloud.allow_untagged,
            "RouteReconciliationPeriod": format_duration(controllers.route_reconciliation_period),
            "NodeMonitorPeriod": format_duration(controllers.node_monitor_period),
            "ClusterName": cloud.cluster_name,
            "ClusterCIDR": cloud.cluster_cidr,
            "AllocateNodeCIDRs": self.ipam.allocate,
            "CIDRAllocatorType": self.ipam.allocator,
            "ConfigureCloudRoutes": controllers.configure_routes,
            "NodeSyncPeriod": format_duration(controllers.node_sync_period),
        })
    }
}
